//! Quotas of profiles, and of the guests that they admit. The owner is served in any case.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Server, Setup, arguments, as_user, code, connect_as, request, resident_kib, result, skipped, until,
};

/// Of a user that the profile `open` admits.
const GUEST: u32 = 54_321;
/// Of a user that no profile admits.
const STRANGER: u32 = 54_322;
/// Lines of the log beside a flood.
const MAX_LOG_LINES: usize = 100;
/// Quotas of a guest without keys.
const GUEST_CONNECTIONS: usize = 64;
const GUEST_CALLS: usize = 64;

fn setup(keys: &str) -> Setup {
    Setup::with(Server::named("a")).head(&format!("[daemon]\nmax_message = \"1MiB\"\n{keys}")).line_timeout(3_600_000)
}

/// A daemon whose profile `p` has these keys.
fn with_keys(keys: &str) -> Daemon {
    setup(&format!("[profiles.p]\n{keys}")).start()
}

fn agent(daemon: &Daemon) -> Agent {
    Agent::ready_at(&daemon.profile_socket("p"))
}

/// What `mcpd status` reports of a quota: of the guest, if there is a `uid`.
fn quota(status: &Value, profile: &str, key: &str) -> Option<Value> {
    let profile = status["profiles"].as_array()?.iter().find(|row| row["name"] == profile)?;
    profile["quotas"].as_array()?.iter().find(|quota| quota["key"] == key).cloned()
}

fn refused(status: &Value, profile: &str, key: &str) -> u64 {
    quota(status, profile, key).and_then(|quota| quota["refused"].as_u64()).unwrap_or_default()
}

/// Fails unless this is −31003 that names the quota and when to try again.
#[track_caller]
fn expect_quota(answer: &Value, named: &str) {
    let error = &answer["error"];
    assert!(code(answer) == -31003 && error["message"].as_str().is_some_and(|text| text.contains(named)), "{answer}");
    assert!(error["data"]["retryAfterMs"].as_u64().is_some_and(|ms| ms > 0), "{answer}");
}

/// The beginning of a line, of this many KiB.
fn half_line(kib: usize) -> Vec<u8> {
    [b"{\"jsonrpc\":\"2.0\",\"method\":\"", &vec![b'x'; kib << 10][..]].concat()
}

/// Whether the test may act as another user. Raises the test's own limit of open files.
fn can_be_a_guest() -> bool {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return false;
    }
    let room = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: room.maximum, ..room }).expect("up to the maximum");
    true
}

/// A daemon whose profile `open` admits the guest.
fn for_guests() -> Daemon {
    setup(&format!("[profiles.open]\nallow_uids = [{GUEST}]")).start()
}

fn guest(daemon: &Daemon, uid: u32) -> Agent {
    Agent::from_stream(connect_as(uid, &daemon.profile_socket("open")).expect("the mode lets it"))
}

fn ready_guest(daemon: &Daemon) -> Agent {
    let mut guest = guest(daemon, GUEST);
    guest.initialize("2025-11-25");
    guest
}

fn connect_guests(daemon: &Daemon, count: usize) -> Vec<UnixStream> {
    let connect = move |socket: &Path| (0..count).map(|_| UnixStream::connect(socket)).collect::<io::Result<Vec<_>>>();
    as_user(GUEST, &daemon.profile_socket("open"), connect).expect("the mode lets it")
}

/// Ends the daemon and checks the size of its log.
#[track_caller]
fn expect_short_log(mut daemon: Daemon) {
    assert!(daemon.term().success());
    let log = daemon.log();
    assert!(log.lines().count() < MAX_LOG_LINES, "{log}");
}

/// Case C16.
#[test]
fn connections_beyond_a_burst_are_accepted_with_pauses() {
    const REFUSED: u32 = 200;
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let mut own = Agent::ready(&daemon);
    let start = Instant::now();
    let connections = connect_guests(&daemon, GUEST_CONNECTIONS + REFUSED as usize);
    arguments(&own.call("a__echo", &json!({})));
    daemon.wait_status("has refused them", |status| refused(status, "open", "connections") == u64::from(REFUSED));
    // One millisecond after each but the last.
    assert!(start.elapsed() >= Duration::from_millis(1) * (REFUSED - 1), "{:?}", start.elapsed());
    let mut admitted = Agent::from_stream(connections.into_iter().next().expect("the first one"));
    admitted.initialize("2025-11-25");
    arguments(&admitted.call("a__echo", &json!({})));
    admitted.disconnect();
}

/// Case C16.
#[test]
fn large_message_beyond_a_burst_is_read_with_pauses_and_arrives_whole() {
    if !can_be_a_guest() {
        return;
    }
    let daemon = Setup::with(Server::named("a")).head(&format!("[profiles.open]\nallow_uids = [{GUEST}]\n")).start();
    let (mut own, mut limited) = (Agent::ready(&daemon), ready_guest(&daemon));
    let text = "x".repeat(8 << 20);
    let start = Instant::now();
    let call = limited.start_call("a__echo", &json!({ "text": text }));
    arguments(&own.call("a__echo", &json!({})));
    assert!(arguments(&limited.answer(&call))["text"] == text);
    // 8 MiB, of which 4 may come at once, at 16 MiB per second.
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    limited.disconnect();
}

/// Case C16.
#[test]
fn refused_requests_of_a_guest_beyond_a_burst_are_read_with_pauses_and_all_answered() {
    const REQUESTS: usize = 1500;
    const BURST: usize = 256;
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let mut own = Agent::ready(&daemon);
    let call = |tool: &str| ("tools/call", json!({"name": tool, "arguments": {}}));
    for (why, code_of_refusal, (method, params)) in [
        ("the tool is unknown", -32602, call("a__missing")),
        ("the quota is reached", -31003, call("a__echo")),
        ("the method is unknown", -32601, ("missing/method", json!({}))),
    ] {
        let mut guest = ready_guest(&daemon);
        let request = |id| request(id, method, &params).to_string() + "\n";
        let start = Instant::now();
        guest.send_raw((0..REQUESTS).map(request).collect::<String>());
        arguments(&own.call("a__echo", &json!({"beside": why})));
        let answers: Vec<_> = (0..REQUESTS).map(|id| guest.answer(&json!(id))).collect();
        let refused = answers.iter().filter(|answer| answer["error"].is_object()).collect::<Vec<_>>();
        assert!(refused.iter().all(|answer| code(answer) == code_of_refusal), "{why}: {}", refused[0]);
        // One millisecond for each beyond the burst.
        let least = Duration::from_millis((refused.len() - BURST) as u64);
        assert!(start.elapsed() >= least, "{why}: {} were refused in {:?}", refused.len(), start.elapsed());
        guest.disconnect();
    }
}

/// Case C17.
#[test]
fn call_beyond_max_calls_is_refused_and_reaches_no_server() {
    let daemon = with_keys("max_calls = 2");
    let (mut one, mut other) = (agent(&daemon), agent(&daemon));
    let open = [&mut one, &mut other].map(|agent| agent.start_call("a__sleep", &json!({"ms": 600_000})));
    until("both are there", || (daemon.row("a")["in_flight"] == 2).then_some(()));
    let beyond = other.call("a__echo", &json!({"n": "beyond"}));
    expect_quota(&beyond, "`max_calls = 2` of [profiles.p]");
    assert_eq!(beyond["error"]["data"]["outcome"], "not_sent");
    assert!(!daemon.journal("a").concat().contains("beyond"), "the server has seen it");
    result(&other.request("ping", &json!({})));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    let row = quota(&daemon.status(), "p", "max_calls");
    assert_eq!(row, Some(json!({"key": "max_calls", "limit": 2, "used": 2, "refused": 1})));
    one.cancel(&open[0]);
    arguments(&one.call("a__echo", &json!({})));
    other.disconnect();
    until("its call has ended", || {
        let status = daemon.status();
        (quota(&status, "p", "max_calls")?["used"] == 0).then_some(())
    });
}

/// Case C17.
#[test]
fn calls_beyond_the_rate_are_refused_until_the_time_that_the_error_states() {
    const CALLS: usize = 100;
    let daemon = with_keys("rate = 1");
    let mut agent = agent(&daemon);
    let call = |n| {
        let params = json!({"name": "a__echo", "arguments": {"n": n}});
        request(n, "tools/call", &params).to_string() + "\n"
    };
    // Written at once, they are read at once.
    agent.send_raw((0..CALLS).map(call).collect::<String>());
    let answers: Vec<_> = (0..CALLS).map(|n| agent.answer(&json!(n))).collect();
    let (sent, beyond): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["error"].is_null());
    assert!(!sent.is_empty() && !beyond.is_empty(), "{} were sent", sent.len());
    beyond.iter().for_each(|answer| expect_quota(answer, "`rate = 1` of [profiles.p]"));
    let calls = daemon.count_journal("a", "tools/call");
    assert_eq!(calls, sent.len());
    assert_eq!(refused(&daemon.status(), "p", "rate"), beyond.len() as u64);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    until("it may call again", || agent.call("a__echo", &json!({}))["error"].is_null().then_some(()));
}

/// Case C17.
#[test]
fn connection_that_holds_most_bytes_of_a_guest_is_closed_and_others_stay() {
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let used = |status: &Value| quota(status, "open", "bytes").and_then(|quota| quota["used"].as_u64());
    let mut most = ready_guest(&daemon);
    most.send_raw(half_line(1000));
    daemon.wait_status("has read it", |status| used(status) >= Some(1000 << 10));
    let mut less: Vec<_> = (0..3).map(|_| ready_guest(&daemon)).collect();
    less.iter_mut().for_each(|agent| agent.send_raw(half_line(800)));
    daemon.wait_status("has read them", |status| used(status) >= Some(3400 << 10));
    let mut last = ready_guest(&daemon);
    last.send_raw(half_line(800));
    expect_quota(&most.next(), "4MiB of unfinished messages, the limit of each guest at [profiles.open]");
    most.expect_end();
    daemon
        .wait_status("has read it", |status| used(status).is_some_and(|used| (3200 << 10..3600 << 10).contains(&used)));
    less.push(last);
    for mut agent in less {
        agent.send_raw("\"}\n");
        arguments(&agent.call("a__echo", &json!({})));
        agent.disconnect();
    }
    assert_eq!(refused(&daemon.status(), "open", "bytes"), 1);
    // Of another profile.
    let mut default = Agent::ready(&daemon);
    default.send_raw(half_line(1000));
    default.send_raw("\"}\n");
    arguments(&default.call("a__echo", &json!({})));
}

/// Case C17.
#[test]
fn request_of_a_guest_beyond_its_bytes_is_refused_while_others_are_unanswered() {
    // So many requests fit, each in a system call of its own.
    const FITTING: usize = 60;
    if !can_be_a_guest() {
        return;
    }
    let head = format!("[daemon]\nmax_message = \"64KiB\"\n[profiles.open]\nallow_uids = [{GUEST}]\n");
    let daemon = Setup::with(Server::named("a")).head(&head).start();
    let mut agent = ready_guest(&daemon);
    let text = "x".repeat(4200);
    let call = |n: usize| {
        let id = agent.start_call("a__sleep", &json!({"ms": 600_000, "text": text}));
        result(&agent.request("ping", &json!({})));
        // A server that does not keep up would have the call refused for another reason.
        daemon.wait_journal_count("a", "600000", n.min(FITTING));
        id
    };
    let ids: Vec<_> = (1..=FITTING + 5).map(call).collect();
    for id in &ids[FITTING..] {
        expect_quota(&agent.answer(id), "256KiB of unfinished messages");
    }
    agent.cancel(&ids[0]);
    arguments(&agent.call("a__echo", &json!({"text": text})));
    agent.disconnect();
}

/// Case C17.
#[test]
fn changed_quotas_apply_by_reload_and_drop_no_agent() {
    let daemon = with_keys("max_calls = 3");
    let mut all = [(); 3].map(|()| agent(&daemon));
    let reload = |keys: &str| {
        setup(&format!("[profiles.p]\n{keys}")).write(daemon.place());
        daemon.client(&["reload"]).expect_code(0);
    };
    reload("max_calls = 1");
    let open = all[0].start_call("a__sleep", &json!({"ms": 600_000}));
    until("it is there", || (daemon.row("a")["in_flight"] == 1).then_some(()));
    for agent in &mut all {
        expect_quota(&agent.call("a__echo", &json!({})), "`max_calls = 1` of [profiles.p]");
    }
    reload("");
    for agent in &mut all {
        arguments(&agent.call("a__echo", &json!({})));
    }
    all[0].cancel(&open);
    all[0].expect_quiet();
}

/// Cases C16 and C17.
#[test]
fn guest_with_4096_connections_keeps_nobody_out() {
    const CONNECTIONS: usize = 4096;
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let mut before = Agent::ready(&daemon);
    let guests = connect_guests(&daemon, CONNECTIONS);
    let status = daemon.wait_status("has refused the rest", |status| {
        refused(status, "open", "connections") == (CONNECTIONS - GUEST_CONNECTIONS) as u64
    });
    assert_eq!(status["agents"].as_array().map(Vec::len), Some(GUEST_CONNECTIONS + 1));
    let mut line = Agent::from_stream(guests.into_iter().next_back().expect("the last one"));
    expect_quota(&line.next(), "64 connections, the limit of each guest at [profiles.open], are reached");
    let row = quota(&status, "open", "connections").expect("of the guest");
    assert_eq!((&row["uid"], &row["limit"], &row["used"]), (&json!(GUEST), &json!(64), &json!(64)));
    let shown = daemon.client(&["status"]).stdout;
    assert!(shown.contains("QUOTA REACHED") && shown.contains("connections"), "{shown}");
    arguments(&before.call("a__echo", &json!({})));
    let mut own: Vec<_> = (0..200).map(|_| Agent::ready(&daemon)).collect();
    own.push(Agent::ready_at(&daemon.profile_socket("open")));
    for agent in &mut own {
        arguments(&agent.call("a__echo", &json!({})));
    }
    drop((line, own, before));
    expect_short_log(daemon);
}

/// Cases C16 and C17.
#[test]
fn guest_with_100_half_sent_large_lines_uses_bounded_memory_and_nobody_elses() {
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let mut own = Agent::ready(&daemon);
    let half = half_line(1000);
    let mut guests: Vec<_> = (0..100).map(|_| guest(&daemon, GUEST)).collect();
    for guest in &mut guests {
        guest.try_send_raw(&half);
    }
    let status = daemon.wait_status("has closed some", |status| {
        let used = quota(status, "open", "bytes").and_then(|quota| quota["used"].as_u64());
        refused(status, "open", "bytes") > 40 && used <= Some(4 << 20)
    });
    let quota = quota(&status, "open", "bytes").expect("of the guest");
    assert_eq!((&quota["uid"], &quota["limit"]), (&json!(GUEST), &json!(4 << 20)));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 64 << 10, "{resident} KiB for half lines");
    arguments(&own.call("a__echo", &json!({"text": "x".repeat(900 << 10)})));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    guests.into_iter().for_each(Agent::disconnect);
    drop(own);
    expect_short_log(daemon);
}

/// Case C17.
#[test]
fn guests_over_the_budget_close_no_connection_of_the_owner() {
    const GUESTS: u32 = 24;
    if !can_be_a_guest() {
        return;
    }
    let uids: Vec<_> = (0..GUESTS).map(|number| GUEST + number).collect();
    let daemon = setup(&format!("[profiles.open]\nallow_uids = {uids:?}")).start();
    let half = half_line(1000);
    // More than any guest may hold.
    let mut own: Vec<_> = (0..10).map(|_| Agent::ready(&daemon)).collect();
    own.iter_mut().for_each(|agent| agent.send_raw(&half));
    // Within the quota of each guest, and together over the budget of 64 MiB.
    let mut guests: Vec<_> = uids.iter().flat_map(|uid| [(); 4].map(|()| guest(&daemon, *uid))).collect();
    for guest in &mut guests {
        guest.try_send_raw(&half);
    }
    until("some guests are cut off", || {
        let agents = daemon.status()["agents"].as_array().map(Vec::len)?;
        (agents < own.len() + guests.len()).then_some(())
    });
    for agent in &mut own {
        agent.send_raw("\"}\n");
        arguments(&agent.call("a__echo", &json!({})));
    }
    guests.into_iter().for_each(Agent::disconnect);
    drop(own);
    expect_short_log(daemon);
}

/// Case C17.
#[test]
fn calls_of_a_guest_are_limited_without_a_key() {
    if !can_be_a_guest() {
        return;
    }
    let daemon = for_guests();
    let mut guest = guest(&daemon, GUEST);
    guest.initialize("2025-11-25");
    let mut beyond = 0;
    let ids: Vec<_> = (0..GUEST_CALLS + 20).map(|_| guest.start_call("a__sleep", &json!({"ms": 600_000}))).collect();
    for id in &ids[GUEST_CALLS..] {
        expect_quota(&guest.answer(id), "`max_calls = 64` is reached, the default of each guest");
        beyond += 1;
    }
    let status = daemon.status();
    assert_eq!(refused(&status, "open", "max_calls"), beyond);
    let keys = ["connections", "max_calls", "rate", "bytes"].map(|key| quota(&status, "open", key));
    assert!(keys.iter().flatten().filter(|quota| quota["uid"] == GUEST).count() == 4, "{status}");
    arguments(&Agent::ready_at(&daemon.profile_socket("open")).call("a__echo", &json!({})));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    guest.disconnect();
}

/// Case C16.
#[test]
fn flood_of_refused_connections_writes_few_lines_with_their_number() {
    const CONNECTIONS: usize = 5000;
    const BATCH: usize = 200;
    if !can_be_a_guest() {
        return;
    }
    let mut daemon = for_guests();
    let socket = daemon.profile_socket("open");
    let mut agent = Agent::ready(&daemon);
    for number in 0..CONNECTIONS / BATCH {
        let flood = |socket: &Path| -> io::Result<()> {
            let all: Vec<_> = (0..BATCH).map(|_| UnixStream::connect(socket)).collect::<io::Result<_>>()?;
            all.into_iter().try_for_each(|mut refused| refused.read_to_end(&mut Vec::new()).map(drop))
        };
        as_user(STRANGER, &socket, flood).expect("the mode lets it");
        arguments(&agent.call("a__echo", &json!({ "n": number })));
    }
    drop(agent);
    assert!(daemon.term().success());
    let log = daemon.log();
    assert!(log.lines().count() < MAX_LOG_LINES, "{log}");
    let summary = log.lines().find_map(|line| line.split_once("(user 54322): … ")?.1.split(' ').next());
    assert_eq!(summary, Some(&*(CONNECTIONS - 1).to_string()), "{log}");
}
