//! Servers of one era are served whatever they do with the first request of the other era.

use serde_json::Value;

use super::openings;
use crate::eras::detection::expect_served;
use crate::support::{Daemon, Place, Server, Setup, until};

fn restart(daemon: &Daemon) {
    let before = openings(daemon).len();
    daemon.client(&["restart", "s"]).expect_code(0);
    until("it has started again", || (openings(daemon).len() > before).then_some(()));
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
}

/// Case J1.
#[test]
fn modern_server_that_refuses_initialize_receives_it_once() {
    for refusal in ["", "--init-error=-32601", "--init-error=-32602", "--init-error=-32000"] {
        let daemon = Server::named("s").flags("--era modern").flags(refusal).start();
        expect_served(&daemon, "s", "2026-07-28");
        assert_eq!(daemon.row("s")["restarts"], 0);
        restart(&daemon);
        assert_eq!(openings(&daemon), ["initialize", "server/discover"], "{refusal}");
    }
}

/// Case J1.
#[test]
fn modern_server_that_answers_initialize_with_an_unknown_version_is_served() {
    let server = Server::named("s").flags("--era both --protocol 2026-07-28");
    expect_served(&server.start(), "s", "2026-07-28");
}

/// Case J2.
#[test]
fn modern_server_that_leaves_initialize_unanswered_is_served() {
    let daemon = Server::named("s").flags("--era modern --init-never").start();
    expect_served(&daemon, "s", "2026-07-28");
    restart(&daemon);
    assert_eq!(openings(&daemon), ["initialize", "server/discover"]);
}

/// Case J3.
#[test]
fn modern_server_that_exits_on_initialize_is_restarted_at_once() {
    let daemon = Server::named("s").flags("--era modern --init-fatal").start();
    expect_served(&daemon, "s", "2026-07-28");
    assert_eq!(openings(&daemon), ["initialize", "server/discover"]);
    // Once may have been chance.
    restart(&daemon);
    restart(&daemon);
    let (dies, lives) = ("initialize", "server/discover");
    assert_eq!(openings(&daemon), [dies, lives, dies, lives, lives]);
}

#[test]
fn legacy_server_that_refuses_initialize_fails_with_its_own_reason() {
    for probe in ["", "--probe silent", "--probe garbage"] {
        let daemon = Setup::with(Server::named("s").flags("--init-error=-32099").flags(probe)).spawn();
        let row = daemon.wait_row("s", "says why", |row| row["last_error"].is_string());
        assert!(row["last_error"].to_string().contains("-32099"), "{probe}: {row}");
    }
}

#[test]
fn legacy_server_that_has_become_modern_is_served_after_its_restart() {
    let place = Place::new();
    let script = place.write("flags", "");
    let command = format!("exec \"$0\" $(cat {}) \"$@\"", script.display());
    let server = Server::run_by("s", "sh").arg("-c").arg(command).arg(crate::support::SCRIPTED);
    let daemon = Setup::with(server.arg("--journal").arg(place.path("s.journal"))).start_in(&place);
    expect_served(&daemon, "s", "2025-11-25");
    place.write("flags", "--era modern --init-error=-32601");
    restart(&daemon);
    expect_served(&daemon, "s", "2026-07-28");
}

#[test]
fn legacy_server_receives_only_initialize() {
    let daemon = Server::named("s").start();
    expect_served(&daemon, "s", "2025-11-25");
    let methods: Vec<_> = daemon
        .journal("s")
        .iter()
        .filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["method"].as_str()?.to_owned()))
        .take(2)
        .collect();
    assert_eq!(methods, ["initialize", "notifications/initialized"]);
}
