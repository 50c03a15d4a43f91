//! No process is left after any end of the daemon, even of servers that resist.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Agent, Daemon, Place, Process, SCRIPTED, Server, Setup, WAIT_LIMIT, arguments, children, code, signal, until,
};

/// What neither the end of stdin nor SIGTERM ends.
const STUBBORN: &str = "--ignore-eof --ignore-term";

/// Servers of every kind that other tools leave behind.
fn clingy() -> Setup {
    Setup::with(Server::named("plain"))
        .server(Server::named("stubborn").flags("--ignore-eof --ignore-term"))
        .server(Server::named("wrapped").flags("--wrap --ignore-eof --ignore-term"))
        .server(Server::named("forking").flags("--double-fork --wrap"))
        .server(Server::named("holding").flags("--hold-stdout"))
}

/// Servers that leave when they are asked to, behind wrappers or not.
fn polite() -> Setup {
    Setup::with(Server::named("plain")).server(Server::named("wrapped").flags("--wrap"))
}

/// How many processes run below the daemon, guards not counted.
fn servers(daemon: &mut Daemon) -> usize {
    daemon.family().iter().filter(|process| process.command.contains("scripted-server")).count()
}

#[test]
fn sigterm_stops_servers_that_leave_by_themselves_at_once() {
    let mut daemon = polite().start();
    daemon.stop_in_order(Signal::TERM);
    assert_eq!(daemon.journal("plain").last().expect("a line"), "# eof", "closing stdin was enough");
}

#[test]
fn sigint_does_the_same() {
    let mut daemon = polite().start();
    daemon.stop_in_order(Signal::INT);
}

/// How long a daemon with servers that resist takes to stop when it is told so that often.
fn stops_after(signals: usize) -> Duration {
    let mut daemon = clingy().start();
    assert_eq!(servers(&mut daemon), 11, "{:#?}", daemon.family());
    let start = Instant::now();
    if signals > 1 {
        daemon.signal(Signal::TERM);
        until("the servers are told to stop", || (daemon.journal("plain").last()? == "# eof").then_some(()));
    }
    daemon.stop_in_order(Signal::TERM);
    start.elapsed()
}

/// Cases A8, A9 and E2.
#[test]
fn sigterm_stops_resisting_servers_and_a_second_one_kills_them_at_once() {
    let (patient, hasty) = (stops_after(1), stops_after(2));
    assert!(hasty < patient, "{hasty:?}, and with one signal {patient:?}");
}

/// Cases A9, A10 and E3.
#[test]
fn kill_9_of_the_daemon_leaves_no_process() {
    let mut daemon = clingy().start();
    assert_eq!(servers(&mut daemon), 11, "{:#?}", daemon.family());
    daemon.kill9();
    daemon.expect_no_family(WAIT_LIMIT);
}

/// Case E7.
#[test]
fn kill_9_at_any_moment_of_the_start_leaves_no_process() {
    for round in 0..24 {
        let alive = round / 2;
        let mut daemon = clingy().spawn();
        until("so many processes have been started", || (daemon.family().len() >= alive).then_some(()));
        daemon.kill9();
        // What is left behind stays; a busy machine only takes its time.
        daemon.expect_no_family(WAIT_LIMIT);
    }
}

/// Case E6.
#[test]
fn sigterm_at_any_moment_of_the_start_leaves_no_process_and_no_socket() {
    for alive in 1..8 {
        let mut daemon = polite().spawn();
        until("so many processes have been started", || (daemon.family().len() >= alive.min(5)).then_some(()));
        // Before it is up, how it ends is its own affair; what it leaves is not.
        daemon.term();
        daemon.expect_no_family(WAIT_LIMIT);
        assert!(daemon.runtime_files().iter().all(|name| name == "lock"), "{:?}", daemon.runtime_files());
    }
}

/// Case A17.
#[test]
fn kill_9_of_a_guard_ends_and_restarts_its_server() {
    let mut daemon = clingy().start();
    let mut agent = Agent::ready(&daemon);
    for name in ["stubborn", "wrapped", "forking"] {
        let row = daemon.row(name);
        let guard = daemon.guard_pid(name);
        let below = daemon.place().processes(None).into_iter().filter(|p| p.pid == guard || p.parent == guard);
        let below: Vec<_> = below.collect();
        daemon.family();
        signal(guard, Signal::KILL);
        until("the server of a killed guard is gone", || below.iter().all(|p| !p.is_alive()).then_some(()));
        daemon.wait_row(name, "is ready again", |new| new["state"] == "ready" && new["pid"] != row["pid"]);
        arguments(&agent.call(&format!("{name}__echo"), &json!({})));
    }
    assert_eq!(servers(&mut daemon), 11, "{:#?}", daemon.family());
    assert_eq!(daemon.row("plain")["restarts"], 0);
    daemon.kill9();
    daemon.expect_no_family(WAIT_LIMIT);
    agent.expect_end();
}

/// Case A17.
#[test]
fn orphans_of_a_killed_guard_are_killed_while_the_daemon_is_suspended() {
    let daemon = Server::named("a").flags("--wrap --ignore-eof --ignore-term").start();
    let guard = daemon.guard_pid("a");
    signal(daemon.pid(), Signal::STOP);
    signal(guard, Signal::KILL);
    until("wrappers and server are gone", || servers_in(daemon.place()).is_empty().then_some(()));
    signal(daemon.pid(), Signal::CONT);
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
}

/// The processes of all servers, also of those that are no descendants of the daemon any more.
fn servers_in(place: &Place) -> Vec<Process> {
    place.processes(None).into_iter().filter(|process| process.command.contains("scripted-server")).collect()
}

/// Case A17.
#[test]
fn kill_9_of_all_guards_leaves_no_process_and_every_server_restarts() {
    let names: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
    let flags = "--wrap --double-fork --ignore-eof --ignore-term";
    let mut daemon =
        names.iter().fold(Setup::new(), |setup, name| setup.server(Server::named(name).flags(flags))).start();
    let mut before = daemon.family();
    let all = before.len();
    before.retain(|process| !process.command.starts_with("mcpd-reaper"));
    names.iter().for_each(|name| signal(daemon.guard_pid(name), Signal::KILL));
    for name in &names {
        daemon.wait_row(name, "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    }
    until("all that ran is gone", || before.iter().all(|process| !process.is_alive()).then_some(()));
    assert_eq!(daemon.family().len(), all, "{:#?}", daemon.family());
}

/// Case A10.
#[test]
fn server_that_leaves_its_group_or_session_is_stopped() {
    let own_session = Server::run_by("session", "setsid").flags("--fork --wait").arg(SCRIPTED).flags(STUBBORN);
    let setup = Setup::with(own_session).server(Server::named("group").flags("--join-parents-group").flags(STUBBORN));
    let mut daemon = setup.start();
    let mut agent = Agent::ready(&daemon);
    for name in ["session", "group"] {
        arguments(&agent.call(&format!("{name}__echo"), &json!({})));
        assert_eq!(code(&agent.call(&format!("{name}__die"), &json!({}))), -31001);
        arguments(&agent.call(&format!("{name}__echo"), &json!({})));
    }
    drop(agent);
    daemon.stop_in_order(Signal::TERM);
}

/// Case A16.
#[test]
fn fork_bomb_is_stopped_with_all_its_processes() {
    // Each process starts the next one and leaves, so that none is there for long; after so many the test gives up.
    let chain = "[ $1 = 0 ] && exec sleep 100; sh $0 $(($1 - 1)) &";
    let place = Place::new();
    let chain = place.write("chain", chain);
    let script = format!("sh {} 20000 </dev/null >/dev/null 2>&1; exec \"$0\" \"$@\"", chain.display());
    let storm = || Server::run_by("storm", "sh").arg("-c").arg(&script).arg(SCRIPTED);
    for (sent, is_guard_killed) in [(Signal::TERM, false), (Signal::KILL, false), (Signal::TERM, true)] {
        let mut daemon = Setup::with(storm()).server(Server::named("good")).start_in(&place);
        arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
        if is_guard_killed {
            signal(daemon.guard_pid("storm"), Signal::KILL);
            daemon.wait_row("storm", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
        }
        daemon.signal(sent);
        daemon.wait_exit();
        daemon.expect_no_family(WAIT_LIMIT);
    }
}

/// Case A10.
#[test]
fn orphans_that_end_below_a_guard_are_not_left_as_zombies() {
    let daemon = polite().start();
    let script = "for _ in 1 2 3 4 5 6 7 8 9 10; do (true &); done";
    arguments_of_run(&daemon, script);
    let guard = daemon.guard_pid("plain");
    until("the guard has reaped them", || (children(guard) == [daemon.server_pid("plain")]).then_some(()));
}

fn arguments_of_run(daemon: &Daemon, script: &str) {
    let answer = Agent::ready(daemon).call("plain__run", &json!({"argv": ["sh", "-c", script]}));
    assert_eq!(answer["result"]["structuredContent"]["code"], 0, "{answer}");
}

#[test]
fn server_suspended_by_a_signal_is_ended_by_a_stop() {
    let mut daemon = polite().start();
    let pid = daemon.server_pid("plain");
    signal(pid, Signal::STOP);
    daemon.stop_in_order(Signal::TERM);
}
