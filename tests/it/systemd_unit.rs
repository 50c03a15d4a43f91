//! The shipped unit under a real user manager: readiness, stop and restart.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, MCPD, Process, Server, Setup, UserManager, code, result, signal, until};

fn plain() -> Setup {
    Setup::with(Server::named("plain"))
}

/// Servers of every kind that other tools leave behind.
fn clingy() -> Setup {
    plain()
        .server(Server::named("stubborn").flags("--ignore-eof --ignore-term"))
        .server(Server::named("wrapped").flags("--wrap --ignore-eof --ignore-term"))
        .server(Server::named("forking").flags("--double-fork --wrap"))
}

/// A user manager that has started mcpd with these servers, each of which is ready.
fn start_unit(setup: &Setup) -> Option<UserManager> {
    let manager = UserManager::start(setup)?;
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    until("every server is ready", || {
        let status = manager.mcpd(&["status", "--json"]).expect_code(0).json();
        let servers = status["servers"].as_array().expect("an array of servers").clone();
        servers.iter().all(|server| server["state"] == "ready").then_some(())
    });
    Some(manager)
}

fn expect_gone(processes: &[Process]) {
    let left = || -> Vec<_> { processes.iter().filter(|process| process.is_alive()).collect() };
    until("the processes are gone", || left().is_empty().then_some(()));
}

#[test]
fn start_returns_when_mcpd_serves_and_stop_when_nothing_is_left() {
    let Some(manager) = UserManager::start(&plain()) else { return };
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
    manager.systemctl(&["is-active", "mcpd"]).expect_code(0);
    manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    manager.expect_nothing_left();
    assert_eq!([manager.property("ActiveState"), manager.property("Result")], ["inactive", "success"]);
    assert_eq!(manager.property("ExecMainStatus"), "0");
}

/// Case E9.
#[test]
fn hung_daemon_is_replaced_and_leaves_no_process() {
    let Some(manager) = UserManager::start(&clingy()) else { return };
    // Sooner than the unit has it.
    manager.place().write("xdg-config/systemd/user/mcpd.service.d/watchdog.conf", "[Service]\nWatchdogSec=1\n");
    manager.systemctl(&["daemon-reload"]).expect_code(0);
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    manager.wait_row("forking", "is ready", |row| row["state"] == "ready");
    let before = manager.property("MainPID");
    let old = manager.unit_processes();
    manager.systemctl(&["kill", "--signal=STOP", "--kill-whom=main", "mcpd"]).expect_code(0);
    until("another daemon serves", || {
        let now = manager.property("MainPID");
        (now != before && now != "0" && manager.mcpd(&["status"]).code != Some(3)).then_some(())
    });
    expect_gone(&old);
}

/// Whether the daemon that took the connection has answered it; it may have been on its way out. None is refused.
fn is_served(socket: &Path) -> bool {
    let mut stream = UnixStream::connect(socket).expect("nobody is refused");
    let sent = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let mut answer = String::new();
    sent.and_then(|()| BufReader::new(stream).read_line(&mut answer)).is_ok_and(|bytes| bytes > 0)
}

/// Case E11.
#[test]
fn agents_that_connect_before_the_start_or_during_a_restart_wait_and_are_served() {
    let Some(manager) = UserManager::start(&plain()) else { return };
    manager.systemctl(&["start", "mcpd.socket"]).expect_code(0);
    assert_eq!(manager.property("ActiveState"), "inactive", "nobody has connected yet");
    let socket = manager.agent_socket();
    assert!(is_served(&socket), "the first agent starts it");
    let restarted = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                while !restarted.load(Ordering::Relaxed) {
                    is_served(&socket);
                }
                assert!(is_served(&socket));
            });
        }
        for _ in 0..3 {
            manager.systemctl(&["restart", "mcpd"]).expect_code(0);
        }
        restarted.store(true, Ordering::Relaxed);
    });
    manager.systemctl(&["stop", "mcpd.socket", "mcpd"]).expect_code(0);
    manager.expect_nothing_left();
}

#[test]
fn status_line_of_the_unit_counts_servers_and_agents() {
    let broken = Server::run_by("broken", "/nonexistent/server");
    let Some(manager) = UserManager::start(&plain().server(broken)) else { return };
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    manager.wait_property("StatusText", "1 server ready, 1 in backoff (broken); no agents");
    let agents = [0, 1].map(|_| Agent::ready_at(&manager.agent_socket()));
    manager.wait_property("StatusText", "1 server ready, 1 in backoff (broken); 2 agents");
    drop(agents);
    manager.wait_property("StatusText", "1 server ready, 1 in backoff (broken); no agents");
}

#[test]
fn stop_leaves_no_process_of_resisting_servers() {
    let Some(manager) = start_unit(&clingy()) else { return };
    manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    manager.expect_nothing_left();
    assert_eq!(manager.property("Result"), "success");
}

#[test]
fn stop_during_a_call_answers_the_agent_and_ends_in_time() {
    let Some(manager) = start_unit(&plain()) else { return };
    let mut agent = Agent::ready_at(&manager.agent_socket());
    let call = agent.start_call("plain__sleep", &json!({"ms": 600_000}));
    // What is sent on one connection is taken in order.
    agent.request("ping", &json!({}));
    manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    assert_eq!(code(&agent.answer(&call)), -31005);
    agent.expect_end();
    manager.expect_nothing_left();
    assert_eq!(manager.property("Result"), "success");
}

#[test]
fn sigterm_is_an_ordered_stop_that_systemd_is_notified_of() {
    let Some(manager) = start_unit(&plain()) else { return };
    let mut agent = Agent::ready_at(&manager.agent_socket());
    let call = agent.start_call("plain__sleep", &json!({"ms": 1200}));
    agent.request("ping", &json!({}));
    manager.systemctl(&["kill", "--signal=TERM", "--kill-whom=main", "mcpd"]).expect_code(0);
    manager.wait_property("ActiveState", "deactivating");
    result(&agent.answer(&call));
    agent.expect_end();
    manager.wait_property("ActiveState", "inactive");
    assert_eq!([manager.property("Result"), manager.property("NRestarts")], ["success", "0"]);
    manager.expect_nothing_left();
}

/// Case E4.
#[test]
fn kill_9_leaves_no_server_and_mcpd_serves_again() {
    let Some(manager) = start_unit(&clingy()) else { return };
    let (pid, before) = (manager.property("MainPID"), manager.unit_processes());
    assert!(before.len() > 8, "{before:#?}");
    manager.systemctl(&["kill", "--signal=KILL", "--kill-whom=main", "mcpd"]).expect_code(0);
    manager.wait_property("NRestarts", "1");
    manager.wait_property("ActiveState", "active");
    expect_gone(&before);
    assert_ne!(manager.property("MainPID"), pid);
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
}

/// Case E5.
#[test]
fn kill_9_of_mcpd_its_reaper_and_all_guards_leaves_no_server() {
    let Some(manager) = start_unit(&clingy()) else { return };
    let before = manager.unit_processes();
    let names = ["mcpd-guard", "mcpd-reaper"];
    let of_mcpd = |process: &&Process| {
        names.iter().any(|name| process.command.starts_with(name)) || process.command.contains("mcpd serve")
    };
    let killed: Vec<_> = before.iter().filter(of_mcpd).collect();
    assert_eq!(killed.len(), 6, "{before:#?}");
    // Stopped first, so that none has the time to notice that another is gone.
    for order in [Signal::STOP, Signal::KILL] {
        killed.iter().for_each(|process| signal(process.pid, order));
    }
    manager.wait_property("NRestarts", "1");
    manager.wait_property("ActiveState", "active");
    expect_gone(&before);
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
}

#[test]
fn reload_takes_over_a_changed_configuration_and_keeps_every_process() {
    let Some(manager) = start_unit(&plain()) else { return };
    let (pid, before) = (manager.property("MainPID"), manager.unit_processes());
    plain().server(Server::named("new")).write(manager.place());
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);
    manager.wait_property("StatusText", "2 servers ready; no agents");
    manager.mcpd(&["call", "new__echo"]).expect_code(0);
    assert_eq!(manager.property("MainPID"), pid);
    assert!(before.iter().all(Process::is_alive));
}

#[test]
fn reload_of_an_invalid_configuration_fails_and_the_unit_keeps_serving() {
    let Some(manager) = start_unit(&plain()) else { return };
    let (pid, before) = (manager.property("MainPID"), manager.unit_processes());
    manager.place().write("config.toml", "[servers.plain]\ncomand = \"x\"\n");
    manager.systemctl(&["reload", "mcpd"]).expect_code(1);
    assert_eq!([manager.property("ActiveState"), manager.property("MainPID")], ["active".to_owned(), pid]);
    assert!(manager.log().contains("comand"), "{}", manager.log());
    assert!(before.iter().all(Process::is_alive));
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
}

#[test]
fn invalid_configuration_fails_the_start_at_once_with_its_place_and_is_read_again_until_it_holds() {
    let Some(manager) = UserManager::start(&plain().head("[deamon]")) else { return };
    manager.systemctl(&["start", "mcpd"]).expect_code(1);
    let has_reason = |text: String| text.contains("deamon") && text.contains("config.toml:1:2");
    assert!(has_reason(manager.log()));
    // A start in progress has none yet.
    until("the unit has the reason", || has_reason(manager.property("StatusText")).then_some(()));
    manager.wait_property("ExecMainStatus", "2");
    plain().write(manager.place());
    manager.wait_property("ActiveState", "active");
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
}

/// Case D6.
#[test]
fn unit_is_not_restarted_while_another_daemon_serves_in_its_directory() {
    let Some(manager) = start_unit(&plain()) else { return };
    let expect_failed = || {
        manager.wait_property("ActiveState", "failed");
        assert_eq!([manager.property("ExecMainStatus"), manager.property("NRestarts")], ["4", "0"]);
    };
    let send = |signal: &str| manager.systemctl(&["kill", signal, "--kill-whom=main", "mcpd"]).expect_code(0);
    send("--signal=STOP");
    fs::remove_dir_all(manager.place().path("xdg-run/mcpd")).expect("it is there");
    manager.shell(&format!("'{MCPD}' serve </dev/null >'{}' 2>&1 &", manager.place().path("second.log").display()));
    until("another daemon serves", || (manager.mcpd(&["status"]).code == Some(0)).then_some(()));
    send("--signal=CONT");
    expect_failed();
    manager.systemctl(&["start", "mcpd"]).expect_code(1);
    expect_failed();
    manager.mcpd(&["stop"]).expect_code(0);
}

/// Case E15.
#[test]
fn restart_keeps_the_main_process_of_the_unit_and_its_limits() {
    let Some(manager) = start_unit(&plain()) else { return };
    let (before, old) =
        (manager.property("MainPID"), manager.wait_row("plain", "is ready", |row| row["state"] == "ready"));
    for _ in 0..2 {
        manager.mcpd(&["restart"]).expect_code(0);
        let row = manager.wait_row("plain", "is ready", |row| row["state"] == "ready");
        assert_eq!(row["limits"], old["limits"]);
        manager.wait_property("SubState", "running");
        assert_eq!([manager.property("MainPID"), manager.property("ActiveState")], [before.as_str(), "active"]);
        assert_eq!(manager.property("NRestarts"), "0");
    }
    manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    manager.expect_nothing_left();
}
