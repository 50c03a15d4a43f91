//! Limits per user and per agent leave resources for the others.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Place, Server, Setup, arguments, code, connect_as, quoted, resident_kib, skipped,
    system_has_namespaces, until,
};

/// Of a user that a profile lets in.
const GUEST: u32 = 54_321;

fn status_agents(daemon: &Daemon) -> usize {
    daemon.status()["agents"].as_array().map_or(0, Vec::len)
}

/// A daemon whose messages have at most 1 MiB, so that 64 MiB of them may wait for all agents together.
fn of_small_messages() -> Daemon {
    let small = Setup::new().head("[daemon]\nmax_message = \"1MiB\"").line_timeout(3_600_000);
    small.server(Server::named("a")).server(Server::named("good")).start()
}

/// Case C2.
#[test]
fn unread_responses_of_many_agents_share_one_bound_and_others_stay_connected() {
    let daemon = of_small_messages();
    let mut agent = Agent::ready(&daemon);
    // It leaves less unread than every agent may.
    let mut behind = Agent::ready(&daemon);
    let small = behind.start_call("a__big", &json!({"bytes": 30 << 10}));
    let mut deaf: Vec<_> = (0..44).map(|_| Agent::ready(&daemon)).collect();
    for deaf in &mut deaf {
        for _ in 0..4 {
            deaf.start_call("a__big", &json!({"bytes": 900 << 10}));
        }
    }
    daemon.wait_row("a", "has answered all", |row| row["in_flight"] == 0);
    until("some that do not read are cut off", || (status_agents(&daemon) < 46).then_some(()));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 128 << 10, "{resident} KiB for agents that read nothing");
    arguments(&agent.call("good__echo", &json!({})));
    let answer = agent.call("a__big", &json!({"bytes": 900 << 10}));
    assert_eq!(answer["error"], Value::Null, "who reads gets large answers meanwhile");
    assert_eq!(behind.answer(&small)["error"], Value::Null);
    assert!(daemon.log().contains("cut off an agent"), "{}", daemon.log());
    deaf.into_iter().for_each(Agent::disconnect);
}

/// Case C7.
#[test]
fn incomplete_lines_of_many_agents_share_one_bound_and_others_stay_connected() {
    let daemon = of_small_messages();
    let mut agent = Agent::ready(&daemon);
    let half = [b"{\"jsonrpc\":\"2.0\",\"method\":\"", &vec![b'x'; 1000 << 10][..]].concat();
    let mut silent: Vec<_> = (0..100).map(|_| Agent::ready(&daemon)).collect();
    for silent in &mut silent {
        silent.try_send_raw(&half);
    }
    until("some of them are cut off", || (status_agents(&daemon) < 101).then_some(()));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 192 << 10, "{resident} KiB for half lines");
    arguments(&agent.call("good__echo", &json!({"text": "x".repeat(900 << 10)})));
    silent.into_iter().for_each(Agent::disconnect);
}

/// Case C11.
#[test]
fn one_guest_user_leaves_slots_for_others() {
    let Some(daemon) = for_guests(400, |_| String::new()) else { return };
    let socket = daemon.profile_socket("open");
    let as_guest = || Agent::from_stream(connect_as(GUEST, &socket).expect("it may come in"));
    // A sixteenth of 200 places.
    let mut guests: Vec<_> = (0..12).map(|_| as_guest()).collect();
    for guest in &mut guests {
        guest.initialize("2025-11-25");
    }
    let mut refused = as_guest();
    assert_eq!(code(&refused.next()), -31003);
    refused.expect_end();
    let mut own: Vec<_> = (0..100).map(|_| Agent::ready(&daemon)).collect();
    let mut refused = Agent::connect(&daemon);
    assert_eq!(code(&refused.next()), -31003);
    let mut other = Agent::ready_at(&socket);
    arguments(&other.call("a__echo", &json!({})));
    arguments(&own[99].call("a__echo", &json!({})));
    arguments(&guests[11].call("a__echo", &json!({})));
    guests.truncate(11);
    until("its place is free", || (status_agents(&daemon) == 112).then_some(()));
    as_guest().initialize("2025-11-25");
    assert!(daemon.log().matches("refused an agent").count() < 4, "{}", daemon.log());
}

/// Case C11.
#[test]
fn guest_claims_a_bounded_number_of_directories() {
    if !system_has_namespaces() {
        return;
    }
    let line = |place: &Place| {
        let journal = quoted(place.path("a.journal"));
        format!(
            "sharing = \"workspace\"\nidle_timeout = \"1h\"\nsandbox = {{ level = \"files\", write = [{journal}] }}"
        )
    };
    let Some(daemon) = for_guests(1000, line) else { return };
    let socket = daemon.profile_socket("open");
    let claiming = |agent: &mut Agent, number: usize| {
        let directory = daemon.place().path(&number.to_string());
        std::fs::create_dir_all(&directory).expect("the test's own");
        agent.initialize_with("2025-11-25", &json!({}), &json!({"mcpd/cwd": directory}));
        agent.call("a__echo", &json!({"n": number}))
    };
    let as_guest = || Agent::from_stream(connect_as(GUEST, &socket).expect("it may come in"));
    let mut guests: Vec<_> = (0..17).map(|_| as_guest()).collect();
    for (number, guest) in guests[..16].iter_mut().enumerate() {
        arguments(&claiming(guest, number));
    }
    let refused = claiming(&mut guests[16], 16);
    assert_eq!(code(&refused), -31004, "{refused}");
    assert_eq!(refused["error"]["data"]["outcome"], "not_sent");
    // A directory in which this user already has an agent does not count again.
    arguments(&claiming(&mut as_guest(), 3));
    for number in 20..40 {
        arguments(&claiming(&mut Agent::connect(&daemon), number));
    }
    drop(guests);
    // An instance that nobody uses makes room.
    until("another directory is served", || claiming(&mut as_guest(), 50)["error"].is_null().then_some(()));
    let status = daemon.status();
    let instances = status["servers"][0]["instances"].as_array().expect("instances");
    let running = instances.iter().filter(|one| !one["pid"].is_null()).count();
    assert!(running <= 37, "{running}");
}

/// Case C7.
#[test]
fn half_lines_on_the_operators_socket_do_not_stop_status() {
    const HALF_LINES: usize = 3000;
    let room = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: room.maximum, ..room }).expect("up to the maximum");
    let daemon = Server::named("a").start();
    let (socket, connected) = (daemon.place().runtime_dir().join("admin.sock"), AtomicUsize::new(0));
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let half = |_| {
                let mut stream = UnixStream::connect(&socket).ok()?;
                stream.write_all(b"{\"jsonrpc\":\"2.0\",").ok()?;
                connected.fetch_add(1, Ordering::Relaxed);
                Some(stream)
            };
            (0..HALF_LINES).map(half).collect::<Vec<_>>()
        });
        until("there are many", || (connected.load(Ordering::Relaxed) > 150).then_some(()));
        // A command waits 5 s, which may be too short on a busy machine.
        let answers =
            |command: &[&str]| until("it is answered", || (daemon.client(command).code == Some(0)).then_some(()));
        for _ in 0..5 {
            answers(&["status", "--json"]);
        }
        let streams = flood.join().expect("it does not panic");
        assert_eq!(streams.iter().flatten().count(), HALF_LINES);
        answers(&["status", "--json"]);
        answers(&["logs"]);
    });
}

/// A daemon for so many open files with a profile that lets the guest in; `None` if the test may not act as another user.
fn for_guests(files: usize, line: impl Fn(&Place) -> String) -> Option<Daemon> {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return None;
    }
    let place = Place::new();
    let setup = Setup::with(Server::named("a").line(line(&place))).after_shell(&format!("ulimit -n {files}"));
    let roots = quoted(place.path(""));
    let head = format!("[profiles.open]\nallow_uids = [{GUEST}]\nworkspace_roots = [{roots}]");
    Some(setup.head(&head).start_in(&place))
}
