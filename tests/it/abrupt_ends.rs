//! A server ends in order after `kill -9` of the daemon or of its guard: it sees end of file, then SIGTERM, and has time to clean up.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Agent, Daemon, MCPD, Place, Process, SCRIPTED, Server, Setup, WAIT_LIMIT, arguments, code, field, signal, until,
};

/// A client whose container is removed only if the client has time after end of file or SIGTERM. Its arguments: the file that shows
/// the removal, and the program that answers.
const CLIENT: &str = "
removed() { sleep 0.7; echo \"after $1\" >> \"$file\"; exit 0; }
file=$1; shift
trap 'removed signal' TERM HUP
exec 3<&0
\"$@\" <&3 3<&- &
wait $!
removed EOF
";

/// How a client is run, and what ends it.
struct Case {
    name: &'static str,
    /// The command that runs `sh CLIENT …`.
    wrapper: &'static [&'static str],
    flags: &'static str,
    is_suspended: bool,
    removed: &'static str,
}

const CASES: [Case; 6] = [
    Case { name: "eof", wrapper: &["sh"], flags: "", is_suspended: false, removed: "after EOF\n" },
    Case { name: "term", wrapper: &["sh"], flags: "--ignore-eof", is_suspended: false, removed: "after signal\n" },
    // The wrapper itself ends at once.
    Case {
        name: "wrapped",
        wrapper: &["sh", "-c", "sh \"$0\" \"$@\"; :"],
        flags: "--ignore-eof",
        is_suspended: false,
        removed: "after signal\n",
    },
    Case {
        name: "group",
        wrapper: &["setsid", "--fork", "--wait", "sh"],
        flags: "--ignore-eof",
        is_suspended: false,
        removed: "after signal\n",
    },
    // Both orphans and processes that cannot act.
    Case { name: "suspended", wrapper: &["sh"], flags: "--ignore-eof", is_suspended: true, removed: "after signal\n" },
    Case {
        name: "hostile",
        wrapper: &["sh"],
        flags: "--ignore-eof --ignore-term --double-fork",
        is_suspended: false,
        removed: "after signal\n",
    },
];

fn file(place: &Place, case: &Case) -> std::path::PathBuf {
    place.path(&format!("{}.removed", case.name))
}

fn start() -> Daemon {
    let place = Place::new();
    let client = place.write("client", CLIENT);
    let add = |setup: Setup, case: &Case| {
        let (command, wrapper) = case.wrapper.split_first().expect("a command");
        let server = wrapper.iter().fold(Server::run_by(case.name, command), Server::arg);
        setup.server(server.arg(&client).arg(file(&place, case)).arg(SCRIPTED).flags(case.flags))
    };
    let daemon = CASES.iter().fold(Setup::new(), add).start_in(&place);
    for case in CASES.iter().filter(|case| case.is_suspended) {
        let pid = daemon.server_pid(case.name);
        signal(pid, Signal::STOP);
        until("it is stopped", || field(pid, "State").starts_with('T').then_some(()));
    }
    daemon
}

#[track_caller]
fn expect_removed(place: &Place) {
    for case in &CASES {
        // The file exists before its text is in it.
        let shown = until(&format!("the container of {} is removed", case.name), || {
            fs::read_to_string(file(place, case)).ok().filter(|text| text.ends_with('\n'))
        });
        assert_eq!(shown, case.removed, "{}", case.name);
    }
}

/// Case E13.
#[test]
fn server_cleans_up_after_kill_9_of_the_daemon() {
    let mut daemon = start();
    daemon.kill9();
    expect_removed(daemon.place());
    daemon.expect_no_family(WAIT_LIMIT);
}

/// Kills these parts of mcpd. Each server has to clean up before it is started again.
fn kill_parts(parts: impl Fn(&[Process]) -> Vec<u32>) {
    let mut daemon = start();
    let before = daemon.family();
    parts(&before).into_iter().for_each(|pid| signal(pid, Signal::KILL));
    for case in &CASES {
        daemon.wait_row(case.name, "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
        arguments(&Agent::ready(&daemon).call(&format!("{}__echo", case.name), &json!({})));
    }
    expect_removed(daemon.place());
    let guarded = before.iter().filter(|process| !process.command.starts_with("mcpd-reaper"));
    assert!(guarded.clone().all(|process| !process.is_alive()), "{:#?}", guarded.collect::<Vec<_>>());
    daemon.stop_in_order(Signal::TERM);
}

fn named(name: &str) -> impl Fn(&[Process]) -> Vec<u32> {
    move |family| {
        let found: Vec<_> =
            family.iter().filter(|process| process.command.starts_with(name)).map(|process| process.pid).collect();
        assert!(!found.is_empty(), "{family:#?}");
        found
    }
}

/// Case E13.
#[test]
fn server_cleans_up_after_kill_9_of_its_guard_before_it_is_started_again() {
    kill_parts(named("mcpd-guard"));
}

/// Case E13.
#[test]
fn server_cleans_up_after_kill_9_of_the_reaper_before_it_is_started_again() {
    kill_parts(named("mcpd-reaper"));
}

/// Case E13.
#[test]
fn second_kill_ends_at_once_what_has_time_left() {
    let resisting = || Setup::with(Server::named("a").flags("--wrap --double-fork --ignore-eof --ignore-term"));
    for order in [["daemon", "guard"], ["guard", "daemon"], ["daemon", "reaper"], ["reaper", "daemon"]] {
        let mut daemon = resisting().start();
        let (guard, family) = (daemon.guard_pid("a"), daemon.family());
        let pids = [("daemon", daemon.pid()), ("guard", guard), ("reaper", named("mcpd-reaper")(&family)[0])];
        let pids = std::collections::HashMap::from(pids);
        order.iter().for_each(|part| signal(pids[part], Signal::KILL));
        daemon.wait_exit();
        daemon.expect_no_family(WAIT_LIMIT);
    }
    let mut daemon = resisting().start();
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("a", "600000");
    daemon.family();
    signal(daemon.guard_pid("a"), Signal::KILL);
    assert_eq!(code(&agent.answer(&call)), -31001);
    agent.disconnect();
    daemon.signal(Signal::TERM);
    daemon.stop_in_order(Signal::TERM);
}

/// Case E13.
#[test]
fn servers_of_a_killed_daemon_are_no_operators_of_the_next_one() {
    let (first, second) = (Server::named("a").start(), Setup::new().start());
    let directory = second.place().runtime_dir();
    let argv = [MCPD, "status", "--runtime-dir", directory.to_str().expect("text")];
    let answer = Agent::ready(&first).call("a__run", &json!({"argv": argv}));
    let ran = &answer["result"]["structuredContent"];
    assert!(ran["stderr"].as_str().expect("text").contains("a server of another mcpd"), "{answer}");
    assert_eq!(ran["code"], 1, "{answer}");
}
