//! A server that never comes up is tried again, says why, and costs the others nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Agent, Place, Server, Setup, arguments, until};

/// A setup with a server that works beside those of the test.
fn beside(server: Server) -> Setup {
    Setup::with(server).server(Server::named("good"))
}

/// Case A2.
#[test]
fn a_server_that_leaves_at_once_is_tried_again_ever_more_slowly_until_it_is_repaired() {
    let place = Place::new();
    let permit = place.path("permit");
    let daemon = beside(Server::named("a").arg("--exit-unless").arg(&permit)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(!agent.tools().contains(&"a__echo".to_owned()));
    arguments(&agent.call("good__echo", &json!({})));
    let row = daemon
        .wait_row("a", "has been tried again", |row| row["state"] == "backoff" && row["restarts"].as_u64() >= Some(3));
    assert!(row["stderr"].to_string().contains("cannot start: exit code 3"), "{row}");
    assert!(row["last_error"].to_string().contains('3'), "the exit code is named: {row}");
    let starts = daemon.journal("a").iter().filter(|line| line.starts_with("# start")).count();
    assert!(starts < 12, "{starts} starts without a pause");
    place.write("permit", "");
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    agent.expect_notification("notifications/tools/list_changed");
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case A1.
#[test]
fn a_command_that_cannot_be_run_is_said_with_its_reason_and_the_rest_works() {
    let place = Place::new();
    let plain = place.write("plain-file", "no program");
    let nonsense = place.write("nonsense", "echo no program either\n");
    fs::set_permissions(&nonsense, fs::Permissions::from_mode(0o755)).expect("the test's own file");
    let setup = beside(Server::run_by("missing", "no-such-command-anywhere"))
        .server(Server::run_by("nonsense", nonsense))
        .server(Server::run_by("gone", "/no/such/file"))
        .server(Server::run_by("plain", plain))
        .server(Server::named("nowhere").line("cwd = \"/no/such/directory\""));
    let daemon = setup.start_in(&place);
    let reason = |name: &str| {
        let row = daemon.wait_row(name, "tells why it does not run", |row| row["reason"].is_string());
        row["reason"].as_str().expect("text").to_owned()
    };
    let missing = reason("missing");
    let path = std::env::var("PATH").expect("PATH is set");
    assert!(missing.contains("no-such-command-anywhere") && missing.contains(&path), "{missing}");
    assert!(reason("gone").contains("/no/such/file"), "{}", reason("gone"));
    assert!(reason("plain").to_lowercase().contains("permission denied"), "{}", reason("plain"));
    assert!(reason("nonsense").contains("Exec format error"), "{}", reason("nonsense"));
    assert!(reason("nowhere").contains("/no/such/directory"), "{}", reason("nowhere"));
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
}

/// Case A5.
#[test]
fn a_server_that_never_answers_the_handshake_holds_up_nobody_and_leaks_nothing() {
    let daemon = beside(Server::named("a").flags("--init-never").line("handshake_timeout = \"150ms\"")).spawn();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("good__echo", &json!({})));
    let count = || fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("the daemon runs").count();
    let waiting = |restarts: u64| {
        daemon.wait_row("a", "waits for another attempt", |row| {
            row["state"] == "backoff" && row["restarts"].as_u64() >= Some(restarts)
        })
    };
    waiting(1);
    let before = count();
    let row = waiting(3);
    assert!(row["reason"].to_string().contains("initialize"), "{row}");
    until("no descriptor is left behind", || (count() <= before).then_some(()));
}

/// Case B20.
#[test]
fn a_server_with_another_idea_of_the_handshake_is_failed_and_the_rest_works() {
    let setup = beside(Server::named("garbage").flags("--init-garbage"))
        .server(Server::named("ancient").flags("--protocol 1999-01-01"))
        .server(Server::named("older").flags("--protocol 2024-11-05"));
    let daemon = setup.start();
    for (name, oddity) in [("garbage", "initialize"), ("ancient", "1999-01-01")] {
        daemon.wait_row(name, "tells why it does not run", |row| row["reason"].to_string().contains(oddity));
    }
    assert_eq!(daemon.row("older")["protocol"], "2024-11-05");
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
}

/// Case A18.
#[test]
fn servers_are_started_side_by_side() {
    let slow = |number: u32| Server::named(&format!("s{number}")).flags("--bare --tool echo --init-delay 800");
    let daemon = (0..10).fold(Setup::new(), |setup, number| setup.server(slow(number))).start();
    assert_eq!(Agent::ready(&daemon).tools().len(), 10);
    daemon.expect_side_by_side();
}
