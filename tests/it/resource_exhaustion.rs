//! Missing descriptors, processes and slots are reported, others are served, and mcpd recovers.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, getuid, prlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, Place, STRANGER, Server, Setup, TAG, arguments, code, cpu_time, field, run, signal, skipped,
    until,
};

/// Under which no descriptor is free: the standard streams have those that there are.
const NO_FILES: Option<u64> = Some(3);

/// How many files a daemon may have open from now on; gives how many it might.
fn limit_files(daemon: &Daemon, current: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("a process id"));
    // It has raised its own limit to the maximum, which is the one of whoever started it.
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("a process of one's own").current
}

/// A user who may have few processes, as the real user of a daemon that is still the test's user in effect.
struct CountedUser {
    id: u32,
    others: Vec<Child>,
}

impl CountedUser {
    const PROCESSES: usize = 40;

    /// One whom no other test counts; `None` if this one may not act as another user.
    fn new(number: u32) -> Option<Self> {
        if getuid().is_root() {
            return Some(Self { id: 1_000_000 + 10 * std::process::id() + number, others: Vec::new() });
        }
        skipped("only root can act as another user");
        None
    }

    fn starts(&self, setup: Setup) -> Setup {
        // Without the capabilities that the limit does not bind.
        let (id, most) = (self.id, Self::PROCESSES);
        let user = format!("setpriv --ruid={id} --bounding-set=-sys_resource,-sys_admin");
        setup.after_shell(&format!(r#"exec prlimit --nproc={most} {user} -- "$0" "$@""#))
    }

    /// Leaves no process for the daemon to start.
    fn use_all(&mut self, place: &Place) {
        for _ in 0..Self::PROCESSES {
            let mut other = place.command("setpriv");
            other.args([&format!("--ruid={}", self.id), "sleep", "300"]).env(TAG, STRANGER).stdin(Stdio::null());
            self.others.push(other.spawn().expect("setpriv starts"));
        }
        let real_user = format!("{}\t", self.id);
        until("they are all that user's", || {
            self.others.iter().all(|other| field(other.id(), "Uid").starts_with(&real_user)).then_some(())
        });
    }

    fn give_back(&mut self) {
        for mut other in self.others.drain(..) {
            other.kill().and_then(|()| other.wait()).expect("one's own child");
        }
    }
}

impl Drop for CountedUser {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Cases C11 and F4.
#[test]
fn agents_beyond_the_descriptor_limit_are_refused_and_others_are_served() {
    // Half of it is for connections, and half of that for one user at one profile.
    let daemon = Setup::with(Server::named("a")).after_shell("ulimit -n 400").start();
    let mut first = Agent::ready(&daemon);
    let mut agents: Vec<_> = (1..100).map(|_| Agent::ready(&daemon)).collect();
    for _ in 0..20 {
        let mut refused = Agent::connect(&daemon);
        assert_eq!(code(&refused.next()), -31003);
        refused.expect_end();
    }
    assert_eq!(daemon.status()["agents"].as_array().map(Vec::len), Some(100));
    arguments(&first.call("a__echo", &json!({})));
    arguments(&agents[98].call("a__echo", &json!({})));
    agents.truncate(50);
    daemon.wait_status("has room again", |status| status["agents"].as_array().is_some_and(|all| all.len() == 51));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}

/// Case C11.
#[test]
fn thousand_agents_are_served_at_once() {
    let room = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: room.maximum, ..room }).expect("up to the maximum");
    let daemon = Server::named("a").start();
    let mut agents: Vec<_> = (0..1000).map(|_| Agent::ready(&daemon)).collect();
    for (n, agent) in agents.iter_mut().enumerate() {
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    assert_eq!(daemon.status()["agents"].as_array().map(Vec::len), Some(1000));
}

/// Case F4.
#[test]
fn daemon_without_a_free_descriptor_waits_without_spinning_and_recovers() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let usual = limit_files(&daemon, NO_FILES);
    let mut waiting: Vec<_> = (0..20).map(|_| Agent::connect(&daemon)).collect();
    let before = cpu_time(daemon.pid());
    arguments(&agent.call("good__sleep", &json!({"ms": 1000})));
    let used = cpu_time(daemon.pid()) - before;
    assert!(used < Duration::from_millis(300), "{used:?} of a second with nothing to do");
    assert_eq!(code(&agent.call("a__die", &json!({}))), -31001);
    until("its restart has failed", || daemon.log().contains("start failed, will be restarted server=a").then_some(()));
    assert_eq!(daemon.log().matches("cannot accept").count(), 1, "said once: {}", daemon.log());
    arguments(&agent.call("good__echo", &json!({})));
    limit_files(&daemon, usual);
    for newcomer in &mut waiting {
        assert_eq!(newcomer.initialize("2025-11-25")["error"], Value::Null);
    }
    let row = daemon.wait_row("a", "is ready again", |row| row["state"] == "ready");
    assert!(row["last_error"].to_string().contains("open files"), "{row}");
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case F4.
#[test]
fn operator_is_answered_when_agents_have_every_descriptor() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    // Above what it needs for itself and its server.
    let usual = limit_files(&daemon, Some(48));
    let mut waiting: Vec<_> = (0..40).map(|_| Agent::connect(&daemon)).collect();
    until("it cannot accept more", || daemon.log().contains("cannot accept").then_some(()));
    for _ in 0..5 {
        let status = daemon.client(&["status", "--json"]).expect_code(0).json();
        assert!(status["agents"].as_array().is_some_and(|agents| agents.len() < 41), "{status}");
    }
    daemon.client(&["status", "--check"]).expect_code(0);
    daemon.client(&["logs"]).expect_code(0);
    arguments(&agent.call("a__echo", &json!({})));
    limit_files(&daemon, usual);
    for newcomer in &mut waiting {
        assert_eq!(newcomer.initialize("2025-11-25")["error"], Value::Null);
    }
    daemon.status();
}

/// Case F7.
#[test]
fn server_is_retried_until_a_process_can_be_created() {
    let Some(mut user) = CountedUser::new(1) else { return };
    let daemon = user.starts(Setup::beside_good(Server::named("a"))).start();
    let mut agent = Agent::ready(&daemon);
    user.use_all(daemon.place());
    signal(daemon.server_pid("a"), Signal::KILL);
    let row = daemon.wait_row("a", "waits for another attempt", |row| {
        row["state"] == "backoff" && row["restarts"].as_u64() >= Some(2)
    });
    assert!(row["reason"].to_string().contains("temporarily unavailable"), "{row}");
    arguments(&agent.call("good__echo", &json!({})));
    user.give_back();
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready");
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case F7.
#[test]
fn daemon_that_may_start_no_thread_reports_it_and_exits_without_a_panic() {
    let Some(user) = CountedUser::new(3) else { return };
    let place = Place::new();
    let (id, config) = (user.id, Setup::with(Server::named("a")).write(&place));
    let user = format!("setpriv --ruid={id} --bounding-set=-sys_resource,-sys_admin");
    let mut command = place.command("sh");
    command.args(["-c", &format!(r#"exec {user} prlimit --nproc=0 "$0" "$@""#), MCPD, "serve", "--config"]).arg(config);
    let ran = run(command.arg("--runtime-dir").arg(place.runtime_dir())).expect_code(1);
    assert!(ran.stderr.contains("cannot start a thread") && !ran.stderr.contains("panicked"), "{ran}");
}

/// Case F7.
#[test]
fn large_messages_pass_when_no_thread_can_be_started() {
    let Some(mut user) = CountedUser::new(2) else { return };
    let daemon = user.starts(Setup::beside_good(Server::named("a"))).start();
    let mut agent = Agent::ready(&daemon);
    user.use_all(daemon.place());
    let sent = json!({"text": "x".repeat(4 << 20)});
    assert!(*arguments(&agent.call("a__echo", &sent)) == sent);
    arguments(&agent.call("good__echo", &json!({})));
}
