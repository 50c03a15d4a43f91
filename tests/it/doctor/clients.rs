//! Findings about other clients and the servers that they start.

use std::fs;

use serde_json::{Value, json};

use super::{doctor, expect, expect_healthy, findings};
use crate::support::{Agent, Daemon, MCPD, SCRIPTED, Server, run};

fn daemon() -> Daemon {
    Server::named("one").flags("--bare --tool x").start()
}

/// Has Cursor be configured with these servers.
fn cursor(daemon: &Daemon, servers: &Value) {
    fs::create_dir_all(daemon.place().path("home/.cursor")).expect("the test's own");
    daemon.place().write("home/.cursor/mcp.json", json!({ "mcpServers": servers }).to_string());
}

fn pointed(daemon: &Daemon) -> Value {
    json!({"command": MCPD, "args": ["connect", "--runtime-dir", daemon.place().runtime_dir()]})
}

/// The server that the daemon has, as a client would write it.
fn copied(daemon: &Daemon) -> Value {
    let place = daemon.place();
    let args = json!(["--bare", "--tool", "x", "--journal", place.path("one.journal")]);
    json!({"command": SCRIPTED, "args": args, "env": {"MCPD_TEST_TAG": place.tag()}})
}

#[test]
fn client_that_comes_to_mcpd_is_well() {
    let daemon = daemon();
    cursor(&daemon, &json!({"mcpd": pointed(&daemon)}));
    let ran = doctor(&daemon);
    assert!(
        findings(&ran).iter().any(|one| one.get("about") == "Cursor" && one.get("found").contains("connects to mcpd")),
        "{ran}"
    );
    expect_healthy(ran);
}

/// There its file for the user is its file for the project as well.
#[test]
fn client_is_named_once_in_the_home_directory() {
    let daemon = daemon();
    cursor(&daemon, &json!({"mcpd": pointed(&daemon)}));
    let place = daemon.place();
    let mut command = place.command(MCPD);
    command.args(["doctor", "--json", "--runtime-dir"]).arg(place.runtime_dir()).current_dir(place.path("home"));
    let ran = run(&mut command);
    let named = findings(&ran).iter().filter(|one| one.get("about") == "Cursor").count();
    assert_eq!(named, 1, "{ran}");
}

/// `mcpd import` leaves it out.
#[test]
fn private_server_of_a_project_is_not_recommended_for_import() {
    let daemon = daemon();
    let shop = json!({"mcpServers": {"db": {"command": "cat"}}});
    let claude = json!({"mcpServers": {"mcpd": pointed(&daemon)}, "projects": {"/projects/shop": shop}});
    daemon.place().write("home/.claude.json", claude.to_string());
    let ran = doctor(&daemon);
    let of_client = findings(&ran).iter().filter(|one| one.get("about") == "Claude Code").count();
    assert_eq!(of_client, 1, "{ran}");
    expect_healthy(ran);
}

#[test]
fn server_that_a_client_starts_beside_mcpd_is_reported() {
    let daemon = daemon();
    cursor(&daemon, &json!({"mine": copied(&daemon), "other": {"command": "cat"}, "mcpd": pointed(&daemon)}));
    let finding = expect(doctor(&daemon), "warning", "Cursor", "starts its own copy of servers that mcpd has");
    assert!(
        finding.get("found").ends_with(": one") && finding.get("advice").starts_with("remove them from "),
        "{finding:?}"
    );
    cursor(&daemon, &json!({"mine": copied(&daemon)}));
    let finding = expect(doctor(&daemon), "warning", "Cursor", "starts its own copy of servers that mcpd has");
    assert!(finding.get("advice").contains("`mcpd connect --print cursor --runtime-dir "), "{finding:?}");
    cursor(&daemon, &json!({"other": {"command": "cat"}}));
    expect_healthy(doctor(&daemon));
}

#[test]
fn client_entry_with_a_missing_program_is_a_problem() {
    let daemon = daemon();
    cursor(&daemon, &json!({"mcpd": {"command": "/nowhere/bin/mcpd", "args": ["connect"]}}));
    let finding = expect(doctor(&daemon), "problem", "Cursor", "`/nowhere/bin/mcpd`, which does not exist");
    assert!(finding.get("advice").contains("`mcpd connect --print cursor --runtime-dir "), "{finding:?}");
    cursor(&daemon, &json!({"mcpd": {"command": MCPD, "args": ["connect", "--runtime-dir=/elsewhere"]}}));
    expect(doctor(&daemon), "warning", "Cursor", "connects to a daemon in /elsewhere");
    cursor(&daemon, &json!({"mcpd": {"command": MCPD, "args": ["connect", "--profile", "none"]}}));
    expect(doctor(&daemon), "problem", "Cursor", "the profile `none`, which the daemon does not have");
    daemon.place().write("home/.cursor/mcp.json", "{\"mcpServers\": {");
    expect(doctor(&daemon), "warning", "Cursor", "has errors");
}

#[test]
fn agents_that_are_connected_are_named() {
    let daemon = daemon();
    let _agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    let ran = doctor(&daemon);
    let is_reported = |one: &super::Finding| one.get("found").starts_with("2 agents are connected: ");
    assert!(findings(&ran).iter().any(|one| one.get("about") == "connected" && is_reported(one)), "{ran}");
    expect_healthy(ran);
}
