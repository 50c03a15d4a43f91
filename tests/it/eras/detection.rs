//! Detection of a server's era by a probe, whatever the server answers.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Server, Setup, arguments, until};

/// A server whose first instance is asked for its era before it is sent `initialize`.
fn probed(name: &str) -> Server {
    Server::named(name).line("sharing = \"pool\"")
}

/// What a scripted server was asked since its last start, until its first list.
fn opening(daemon: &Daemon, server: &str) -> Vec<String> {
    let journal = daemon.journal(server);
    let start = journal.iter().rposition(|line| line.starts_with("# start")).expect("it has started");
    let method = |line: &String| -> Option<String> {
        Some(serde_json::from_str::<Value>(line).ok()?["method"].as_str()?.to_owned())
    };
    let methods = journal[start..].iter().filter_map(method);
    methods.take_while(|method| !method.ends_with("/list")).collect()
}

const PROBE: &str = "server/discover";
const LEGACY: [&str; 2] = ["initialize", "notifications/initialized"];
const PROBED: [&str; 3] = [PROBE, LEGACY[0], LEGACY[1]];

#[track_caller]
pub(super) fn expect_served(daemon: &Daemon, server: &str, protocol: &str) {
    let row = daemon.wait_row(server, "is ready", |row| row["state"] == "ready");
    assert_eq!(row["protocol"], protocol, "{row}");
    for era in Era::BOTH {
        let mut agent = era.agent(daemon, &json!({}));
        arguments(&agent.call(&format!("{server}__echo"), &json!({})));
    }
}

/// Case J1.
#[test]
fn any_error_except_a_modern_one_means_legacy() {
    let codes = [-32601, -32602, -32600, -32603, -32700, -32000, -32002, -32042, 0, 5];
    let name = |code: i32| format!("s{}", code.unsigned_abs());
    let server = |code: i32| probed(&name(code)).arg(format!("--discover-error={code}"));
    let daemon = codes.iter().fold(Setup::new(), |setup, code| setup.server(server(*code))).start();
    for code in codes {
        expect_served(&daemon, &name(code), "2025-11-25");
        assert_eq!(opening(&daemon, &name(code)), PROBED, "{code}");
        assert_eq!(daemon.row(&name(code))["restarts"], 0);
    }
}

/// Case J1.
#[test]
fn meaningless_probe_response_means_that_the_server_is_legacy() {
    let daemon = Setup::with(probed("s").flags("--probe garbage")).start();
    expect_served(&daemon, "s", "2025-11-25");
    assert_eq!(opening(&daemon, "s"), PROBED);
}

/// Case J2.
#[test]
fn servers_that_do_not_answer_the_probe_are_served_concurrently() {
    let names: Vec<String> = (0..5).map(|n| format!("s{n}")).collect();
    let server = |name: &String| probed(name).flags("--probe silent");
    let daemon = names.iter().fold(Setup::new(), |setup, name| setup.server(server(name))).start();
    for name in &names {
        daemon.wait_row(name, "is ready", |row| row["state"] == "ready");
        assert_eq!(opening(&daemon, name), PROBED);
    }
    daemon.expect_side_by_side();
    expect_served(&daemon, "s0", "2025-11-25");
}

/// Case J3.
#[test]
fn server_that_exits_on_the_probe_is_restarted_without_it() {
    let daemon = Setup::with(probed("s").flags("--probe fatal")).start();
    expect_served(&daemon, "s", "2025-11-25");
    assert_eq!(opening(&daemon, "s"), LEGACY);
    assert_eq!(daemon.count_starts("s"), 2);
}

/// Case J4.
#[test]
fn detected_era_is_remembered_while_the_definition_is_unchanged() {
    for flags in ["", "--probe silent", "--probe garbage"] {
        let daemon = Setup::with(probed("s").flags(flags)).start();
        daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
        until("it was asked", || (opening(&daemon, "s") == PROBED).then_some(()));
        let crash = Agent::ready(&daemon).call("s__die", &json!({"how": "kill"}));
        assert_eq!(crash["error"]["code"], -31001);
        daemon.wait_row("s", "is up again", |row| row["state"] == "ready" && row["restarts"] == 1);
        until("it was not asked again", || (opening(&daemon, "s") == LEGACY).then_some(()));
    }
}

/// Case J4.
#[test]
fn modern_server_is_modern_after_a_restart() {
    let daemon = Server::named("s").flags("--era modern").start();
    expect_served(&daemon, "s", "2026-07-28");
    assert_eq!(Agent::ready(&daemon).call("s__die", &json!({"how": "kill"}))["error"]["code"], -31001);
    daemon.wait_row("s", "is up again", |row| row["restarts"] == 1);
    expect_served(&daemon, "s", "2026-07-28");
    assert_eq!(opening(&daemon, "s")[0], PROBE);
}

/// Case J4.
#[test]
fn server_that_became_modern_is_detected_after_a_change_of_its_configuration() {
    let place = Place::new();
    let setup = |flags: &str| Setup::with(Server::named("s").flags(flags));
    let daemon = setup("").start_in(&place);
    expect_served(&daemon, "s", "2025-11-25");
    setup("--era modern").write(&place);
    daemon.client(&["reload"]).expect_code(0);
    daemon.wait_row("s", "is the new one", |row| row["protocol"] == "2026-07-28");
    expect_served(&daemon, "s", "2026-07-28");
}

/// Case J4.
#[test]
fn server_that_became_modern_in_an_update_is_detected_when_it_refuses_initialize() {
    let place = Place::new();
    let script = place.write("flags", "");
    let command = format!("exec \"$0\" $(cat {}) \"$@\"", script.display());
    let server = Server::run_by("s", "sh").arg("-c").arg(command).arg(crate::support::SCRIPTED);
    let daemon = Setup::with(server.arg("--journal").arg(place.path("s.journal"))).start_in(&place);
    expect_served(&daemon, "s", "2025-11-25");
    place.write("flags", "--era modern");
    daemon.client(&["restart", "s"]).expect_code(0);
    expect_served(&daemon, "s", "2026-07-28");
}

/// Case J6.
#[test]
fn configured_era_is_not_probed() {
    let legacy = Server::named("a").line("era = \"legacy\"").flags("--era both");
    let modern = Server::named("b").line("era = \"modern\"").flags("--era both");
    let daemon = Setup::with(legacy).server(modern).start();
    expect_served(&daemon, "a", "2025-11-25");
    expect_served(&daemon, "b", "2026-07-28");
    assert_eq!(opening(&daemon, "a"), LEGACY);
    assert!(!daemon.journal("b").iter().any(|line| line.contains("\"initialize\"")));
}

/// Case J5.
#[test]
fn legacy_server_configured_as_modern_fails_with_the_reason() {
    let server = Server::named("s").line("era = \"modern\"").line("handshake_timeout = \"2s\"");
    let daemon = Setup::with(server).server(Server::named("other")).start();
    let row = daemon.wait_row("s", "has an error", |row| row["last_error"].is_string());
    let error = row["last_error"].as_str().expect("text");
    assert!(error.contains("server/discover") || error.contains("2026-07-28") || error.contains("modern"), "{error}");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"initialize\"")));
    expect_served(&daemon, "other", "2025-11-25");
}

/// Case J5.
#[test]
fn modern_server_with_unsupported_versions_fails_and_names_them() {
    let server =
        Server::named("s").flags("--era modern --supported-version 2027-01-01").line("handshake_timeout = \"2s\"");
    let daemon = Setup::with(server).spawn();
    daemon.wait_row("s", "has an error that names them", |row| row["last_error"].to_string().contains("2027-01-01"));
}

/// Case J2.
#[test]
fn late_probe_response_is_ignored() {
    let server = |era: &str| probed(era).flags(&format!("--era {era} --discover-delay 8000"));
    let daemon = Setup::with(server("legacy")).server(server("both")).start();
    for name in ["legacy", "both"] {
        expect_served(&daemon, name, "2025-11-25");
    }
    for name in ["legacy", "both"] {
        daemon.wait_row(name, "has been answered at last", |row| row["stray_responses"] == 1);
        expect_served(&daemon, name, "2025-11-25");
        assert_eq!(daemon.row(name)["restarts"], 0);
    }
}

/// Case J2.
#[test]
fn slow_probe_response_within_the_limit_counts() {
    let daemon = Setup::with(probed("s").flags("--era modern --discover-delay 300")).start();
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"initialize\"")));
    expect_served(&daemon, "s", "2026-07-28");
}
