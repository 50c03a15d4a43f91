//! A shared stdio server of both eras is initialized in the legacy era, for agents of both eras.

use serde_json::json;

use super::{all, dual, expect_bridged_modern, expect_logs, expect_native_legacy, expect_native_modern, openings};
use crate::support::{Agent, Setup, until};

/// Case J6.
#[test]
fn legacy_agent_gets_elicitation_sampling_and_logs() {
    let daemon = Setup::with(dual()).start();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    expect_native_legacy(&mut agent);
    expect_logs(&mut agent);
    assert_eq!(openings(&daemon), ["initialize"]);
    assert!(!daemon.journal("s").iter().any(|line| line.contains("server/discover")));
}

#[test]
fn modern_agent_is_served_on_the_legacy_connection() {
    let daemon = Setup::with(dual()).start();
    expect_bridged_modern(&mut Agent::modern(&daemon, &all()));
    assert_eq!(openings(&daemon), ["initialize"]);
}

#[test]
fn configured_era_overrides_detection() {
    let daemon = Setup::with(dual().line("era = \"modern\"")).start();
    expect_native_modern(&mut Agent::modern(&daemon, &all()));
    assert_eq!(openings(&daemon), ["server/discover"]);
}

#[test]
fn status_shows_the_era_of_each_server() {
    let daemon = Setup::with(dual()).server(crate::support::Server::named("new").flags("--era modern")).start();
    for (server, version, era) in [("s", "2025-11-25", "legacy"), ("new", "2026-07-28", "modern")] {
        let row = daemon.row(server);
        assert_eq!((&row["protocol"], &row["eras"]), (&json!(version), &json!([era])), "{row}");
    }
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(status.contains("2025-11-25") && status.contains("2026-07-28"), "{status}");
}

#[test]
fn slow_server_of_both_eras_is_used_in_the_legacy_era() {
    // Two seconds after `initialize` it is sent `server/discover` as well, which it refuses.
    let daemon = Setup::with(dual().flags("--init-delay 4000")).start();
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    let has_both = || daemon.journal("s").iter().any(|line| line.contains("server/discover"));
    until("it has received both openings", || has_both().then_some(()));
    expect_native_legacy(&mut Agent::with_capabilities(&daemon, &all()));
    assert_eq!(daemon.row("s")["restarts"], 0);
}

#[test]
fn era_is_the_same_after_a_restart() {
    let daemon = Setup::with(dual()).start();
    assert_eq!(openings(&daemon).len(), 1);
    daemon.client(&["restart", "s"]).expect_code(0);
    until("it has started again", || (openings(&daemon).len() == 2).then_some(()));
    expect_native_legacy(&mut Agent::with_capabilities(&daemon, &all()));
    assert_eq!(openings(&daemon), ["initialize", "initialize"]);
}
