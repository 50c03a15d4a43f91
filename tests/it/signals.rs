//! Signals at unusual moments and to other processes.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, Server, Setup, WAIT_LIMIT, arguments, field, signal, until};

/// Stops a process, and waits until it has stopped.
fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    until("the process is stopped", || field(pid, "State").starts_with('T').then_some(()));
}

/// Fails unless SIGTERM ends everything.
fn expect_stop(mut daemon: Daemon) {
    daemon.stop_in_order(Signal::TERM);
}

/// Case E8.
#[test]
fn suspended_daemon_resumes() {
    let daemon = Server::named("a").start();
    let (mut agent, pid) = (Agent::ready(&daemon), daemon.server_pid("a"));
    let gate = daemon.gate();
    let running = agent.start_call("a__sleep", &gate.arguments());
    daemon.wait_at_gate("a", &gate);
    for _ in 0..3 {
        stop(daemon.pid());
        let mut newcomer = Agent::connect(&daemon);
        let call = agent.start_call("a__echo", &json!({}));
        let greeting = newcomer.start_request("ping", &json!({}));
        signal(daemon.pid(), Signal::CONT);
        arguments(&agent.answer(&call));
        assert_eq!(newcomer.answer(&greeting)["result"], json!({}));
    }
    gate.open();
    arguments(&agent.answer(&running));
    assert_eq!((daemon.server_pid("a"), &daemon.row("a")["restarts"]), (pid, &json!(0)));
}

/// Case E8.
#[test]
fn guard_survives_every_signal_except_sigkill_and_sigstop() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut agent, guard, pid) = (Agent::ready(&daemon), daemon.guard_pid("a"), daemon.server_pid("a"));
    for harmless in [Signal::TERM, Signal::INT, Signal::HUP, Signal::CHILD, Signal::WINCH] {
        signal(guard, harmless);
        arguments(&agent.call("a__echo", &json!({})));
    }
    signal(pid, Signal::KILL);
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    arguments(&agent.call("a__echo", &json!({})));
    drop(agent);
    expect_stop(daemon);
}

/// Case E8.
#[test]
fn user_signals_end_neither_the_daemon_nor_a_guard() {
    let daemon = Server::named("a").start();
    let (mut agent, guard) = (Agent::ready(&daemon), daemon.guard_pid("a"));
    for harmless in [Signal::USR1, Signal::USR2] {
        for pid in [daemon.pid(), guard] {
            signal(pid, harmless);
            arguments(&agent.call("a__echo", &json!({})));
        }
    }
    assert_eq!((daemon.guard_pid("a"), &daemon.row("a")["restarts"]), (guard, &json!(0)));
}

/// Cases A17 and E1.
#[test]
fn suspended_guard_blocks_neither_stop_nor_restart() {
    let daemon = Setup::beside_good(Server::named("a").flags("--ignore-eof --ignore-term")).start();
    let mut agent = Agent::ready(&daemon);
    let first = daemon.server_pid("a");
    signal(daemon.guard_pid("a"), Signal::STOP);
    assert_eq!(agent.call("a__close_stdout", &json!({}))["error"]["code"], -31001);
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["pid"] != first);
    arguments(&agent.call("a__echo", &json!({})));
    drop(agent);
    signal(daemon.guard_pid("a"), Signal::STOP);
    expect_stop(daemon);
}

/// Cases A7 and A8.
#[test]
fn server_suspended_during_its_stop_is_ended() {
    let mut daemon = Setup::beside_good(Server::named("a").flags("--leave-delay 600000")).start();
    let pid = daemon.server_pid("a");
    daemon.signal(Signal::TERM);
    daemon.wait_journal("a", "# eof");
    stop(pid);
    assert!(daemon.wait_exit().success());
    daemon.expect_no_family(WAIT_LIMIT);
}

/// Case E2.
#[test]
fn reload_during_a_shutdown_starts_nothing() {
    let mut daemon = Setup::beside_good(Server::named("a").flags("--leave-delay 500")).start();
    daemon.signal(Signal::TERM);
    daemon.wait_journal("a", "# eof");
    Setup::with(Server::named("new")).write(daemon.place());
    daemon.stop_in_order(Signal::HUP);
    assert_eq!(daemon.journal("new"), Vec::<String>::new());
}
