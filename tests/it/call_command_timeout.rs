//! `mcpd call --timeout` limits the whole command, including waiting for the daemon and its lists.

use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{Daemon, MCPD, Place, Ran, Server, Setup, field, signal, until, wait_exit};

/// A daemon whose lists wait for a server that never answers.
fn listing_for_ever() -> Daemon {
    let server = Server::named("a").flags("--init-never").line("handshake_timeout = \"5m\"");
    Setup::with(server).head("[daemon]\nfirst_list_wait = \"5m\"").spawn()
}

fn stop(daemon: &Daemon) {
    signal(daemon.pid(), Signal::STOP);
    until("the daemon is stopped", || field(daemon.pid(), "State").starts_with('T').then_some(()));
}

/// A short call. It has an end only if `--timeout` holds.
fn call(place: &Place) -> Ran {
    place.client(&["call", "a__echo", "--timeout", "300ms"])
}

#[track_caller]
fn expect_not_sent(ran: Ran) {
    let ran = ran.expect_code(1);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", "mcpd: no response within 300ms: the call was not sent\n"), "{ran}");
}

#[test]
fn timeout_holds_while_the_daemon_waits_for_the_lists_of_its_servers() {
    let daemon = listing_for_ever();
    until("the daemon listens", || daemon.agent_socket().exists().then_some(()));
    expect_not_sent(call(daemon.place()));
}

#[test]
fn timeout_holds_while_the_daemon_is_suspended() {
    let daemon = Server::named("a").start();
    stop(&daemon);
    expect_not_sent(call(daemon.place()));
    signal(daemon.pid(), Signal::CONT);
    daemon.client(&["call", "a__echo", "--timeout", "60s"]).expect_code(0);
}

#[test]
fn timeout_holds_when_the_daemon_is_suspended_amid_the_call() {
    let daemon = Server::named("a").start();
    let mut command = daemon.place().command(MCPD);
    command
        .args(["call", "a__sleep", "ms:=60000", "--timeout", "5s", "--runtime-dir"])
        .arg(daemon.place().runtime_dir());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is there");
    daemon.wait_journal("a", "60000");
    stop(&daemon);
    assert_eq!(wait_exit(&mut child).code(), Some(1));
    signal(daemon.pid(), Signal::CONT);
    daemon.wait_row("a", "has no call left", |row| row["in_flight"] == 0);
}

#[test]
fn timeout_holds_while_the_daemon_stops_is_gone_and_starts_again() {
    let place = Place::new();
    call(&place).expect_code(3);
    let setup = || Setup::with(Server::named("a").flags("--leave-delay 1000"));
    let mut daemon = setup().start_in(&place);
    daemon.signal(Signal::TERM);
    until("the server is told to leave", || (daemon.journal("a").last()? == "# eof").then_some(()));
    assert_ne!(call(&place).code, Some(0));
    assert!(daemon.wait_exit().success());
    call(&place).expect_code(3);
    let mut daemon = setup().spawn_in(&place);
    // Whenever it is made during the start, it has an end.
    until("a call is answered", || (call(&place).code == Some(0)).then_some(()));
    daemon.kill9();
    call(&place).expect_code(3);
}
