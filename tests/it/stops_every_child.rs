//! However the daemon ends, and however its servers resist, no process of theirs is left.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, PATIENCE, Server, Setup, arguments, signal, until};

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
    let start = Instant::now();
    daemon.stop_in_order(Signal::TERM);
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
    assert_eq!(daemon.journal("plain").last().expect("a line"), "# eof", "closing stdin was enough");
}

#[test]
fn sigint_does_the_same() {
    let mut daemon = polite().start();
    daemon.stop_in_order(Signal::INT);
}

#[test]
fn sigterm_stops_servers_that_resist_within_ten_seconds() {
    let mut daemon = clingy().start();
    assert_eq!(servers(&mut daemon), 11, "{:#?}", daemon.family());
    let start = Instant::now();
    daemon.stop_in_order(Signal::TERM);
    assert!(start.elapsed() < Duration::from_secs(10), "it took {:?}", start.elapsed());
}

#[test]
fn a_second_signal_kills_what_resists() {
    let mut daemon = clingy().start();
    servers(&mut daemon);
    let start = Instant::now();
    daemon.signal(Signal::TERM);
    until("the servers are told to stop", || (daemon.journal("plain").last()? == "# eof").then_some(()));
    daemon.stop_in_order(Signal::TERM);
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
}

#[test]
fn kill_9_of_the_daemon_leaves_no_process() {
    let mut daemon = clingy().start();
    assert_eq!(servers(&mut daemon), 11, "{:#?}", daemon.family());
    daemon.kill9();
    daemon.expect_no_family(PATIENCE);
}

#[test]
fn kill_9_at_any_moment_of_the_start_leaves_no_process() {
    for round in 0..24 {
        let alive = round / 2;
        let mut daemon = clingy().spawn();
        until("so many processes have been started", || (daemon.family().len() >= alive).then_some(()));
        daemon.kill9();
        // What is left behind stays; a busy machine only takes its time.
        daemon.expect_no_family(PATIENCE);
    }
}

#[test]
fn sigterm_at_any_moment_of_the_start_leaves_no_process_and_no_socket() {
    for alive in 1..8 {
        let mut daemon = polite().spawn();
        until("so many processes have been started", || (daemon.family().len() >= alive.min(5)).then_some(()));
        // Before it is up, how it ends is its own affair; what it leaves is not.
        daemon.term();
        daemon.expect_no_family(Duration::from_millis(500));
        assert!(daemon.runtime_files().iter().all(|name| name == "lock"), "{:?}", daemon.runtime_files());
    }
}

#[test]
fn kill_9_of_a_guard_takes_its_server_along_which_is_started_again() {
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
    daemon.expect_no_family(PATIENCE);
    agent.expect_end();
}

#[test]
fn a_server_that_was_stopped_by_a_signal_is_stopped_for_good() {
    let mut daemon = polite().start();
    let pid = daemon.server_pid("plain");
    signal(pid, Signal::STOP);
    daemon.stop_in_order(Signal::TERM);
}
