//! A unit with a broken configuration reports the reason to every client, and runs again after the repair.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::support::{Ran, Server, Setup, UserManager, initialize, notification, request, until, wait_exit};

/// The beginning of the error, and its place.
const REASON: [&str; 2] = ["unknown key `deamon`", "config.toml:1:2"];

/// One that is installed, with its socket or without.
fn install() -> Option<UserManager> {
    UserManager::installed(&Setup::with(Server::named("plain")))
}

/// Breaks the configuration; returns what it was.
fn break_configuration(manager: &UserManager) -> String {
    let file = manager.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("text");
    manager.place().write("config.toml", format!("[deamon]\n{text}"));
    text
}

#[track_caller]
fn expect_reason(text: &str, ran: &Ran) {
    for part in REASON {
        assert!(text.contains(part), "{part}: {ran}");
    }
}

#[test]
fn agents_of_a_broken_configuration_receive_file_and_line_as_often_as_they_come() {
    let Some(manager) = install() else { return };
    manager.systemctl(&["stop", "mcpd.service"]).expect_code(0);
    let text = break_configuration(&manager);
    for _ in 0..3 {
        let ran = manager.connect().expect_code(3);
        expect_reason(&ran.stderr, &ran);
        expect_reason(&ran.stdout, &ran);
        assert!(ran.stdout.contains("-31004") && ran.stdout.contains("not_sent"), "{ran}");
    }
    manager.place().write("config.toml", text);
    assert!(manager.connect().stdout.contains("\"result\""));
    manager.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn agent_whose_daemon_does_not_return_receives_the_reason() {
    let Some(manager) = install() else { return };
    let mut agent = manager.agent();
    let mut stdin = agent.stdin.take().expect("a piped stream");
    let mut stdout = BufReader::new(agent.stdout.take().expect("a piped stream"));
    let mut next = || {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("text");
        line
    };
    writeln!(stdin, "{}\n{}", initialize("2025-06-18"), notification("notifications/initialized", &Value::Null))
        .expect("it reads");
    assert!(next().contains("\"result\""));

    let text = break_configuration(&manager);
    manager.systemctl(&["restart", "mcpd.service"]);
    writeln!(stdin, "{}", request(2, "tools/list", &Value::Null)).expect("it reads");
    let answer = loop {
        let line = next();
        assert!(!line.is_empty(), "it has ended");
        if line.contains("\"id\":2") {
            break line;
        }
    };
    assert!(answer.contains("-31004") && REASON.iter().all(|part| answer.contains(part)), "{answer}");
    manager.place().write("config.toml", text);
    manager.mcpd(&["start"]).expect_code(0);
    drop(stdin);
    assert!(wait_exit(&mut agent).success());
    manager.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn every_command_that_needs_the_unit_starts_it_once_the_configuration_is_repaired() {
    let Some(manager) = install() else { return };
    for command in [&["start"][..], &["reload"], &["service", "install", "--no-linger"]] {
        manager.mcpd(&["stop"]).expect_code(0);
        let text = break_configuration(&manager);
        assert_ne!(manager.systemctl(&["start", "mcpd.service"]).code, Some(0));
        let ran = manager.mcpd(command);
        assert_ne!(ran.code, Some(0), "{ran}");
        expect_reason(&ran.stderr, &ran);
        manager.place().write("config.toml", text);
        manager.mcpd(command).expect_code(0);
        manager.mcpd(&["call", "plain__echo"]).expect_code(0);
    }
}

/// Case E11.
#[test]
fn agent_that_waits_at_the_socket_through_many_failed_starts_is_served_after_the_repair() {
    let Some(manager) = install() else { return };
    // Sooner than the unit has it.
    manager.place().write("xdg-config/systemd/user/mcpd.service.d/soon.conf", "[Service]\nRestartSec=100ms\n");
    manager.systemctl(&["daemon-reload"]).expect_code(0);
    manager.systemctl(&["stop", "mcpd.service"]).expect_code(0);
    let text = break_configuration(&manager);
    let mut agent = UnixStream::connect(manager.agent_socket()).expect("the socket listens");
    writeln!(agent, "{}", initialize("2025-06-18")).expect("it is sent");
    until("systemd has started it 20 times", || (manager.log().matches(REASON[0]).count() >= 20).then_some(()));
    manager.systemctl(&["is-active", "mcpd.socket"]).expect_code(0);
    manager.place().write("config.toml", text);
    let mut answer = String::new();
    BufReader::new(&agent).read_line(&mut answer).expect("an answer");
    assert!(answer.contains("\"result\""), "{answer}");
    drop(agent);
    manager.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn status_without_a_daemon_shows_the_unit_and_the_remedy() {
    let Some(manager) = install() else { return };
    let status = |state: &str, command: &str| {
        let ran = manager.mcpd(&["status"]).expect_code(3);
        assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{ran}");
        assert!(ran.stderr.contains(&format!("mcpd.service is {state}")) && ran.stderr.contains(command), "{ran}");
        ran
    };
    manager.systemctl(&["stop", "mcpd.service"]).expect_code(0);
    status("installed and socket-activated", "`mcpd start`");
    manager.mcpd(&["stop"]).expect_code(0);
    status("installed and stopped", "`mcpd start`");
    let text = break_configuration(&manager);
    let ran = status("installed and stopped", "`mcpd check`");
    expect_reason(&ran.stderr, &ran);
    manager.mcpd(&["start"]).expect_code(2);
    let ran = status("installed and has failed", "`mcpd check`");
    expect_reason(&ran.stderr, &ran);
    manager.place().write("config.toml", text);
    manager.mcpd(&["service", "uninstall"]).expect_code(0);
    let ran = manager.mcpd(&["status"]).expect_code(3);
    assert!(ran.stderr.contains("help: `mcpd start` starts it") && !ran.stderr.contains("installed"), "{ran}");
}
