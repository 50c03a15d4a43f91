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

/// Runs the command that a finding names, and confirms it.
fn follow_yes(daemon: &Daemon, finding: &super::Finding) {
    let words = finding.command();
    let words: Vec<_> = words.split(' ').skip(1).chain(["--yes"]).collect();
    daemon.place().mcpd(&words).expect_code(0);
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
        finding.get("found").contains(": one (") && finding.command().starts_with("mcpd link cursor --take-over"),
        "{finding:?}"
    );
    follow_yes(&daemon, &finding);
    expect_healthy(doctor(&daemon));
    cursor(&daemon, &json!({"mine": copied(&daemon)}));
    let finding = expect(doctor(&daemon), "warning", "Cursor", "starts its own copy of servers that mcpd has");
    follow_yes(&daemon, &finding);
    expect_healthy(doctor(&daemon));
    let text = fs::read_to_string(daemon.place().path("home/.cursor/mcp.json")).expect("text");
    assert!(text.contains("connect") && !text.contains("--bare"), "{text}");
    cursor(&daemon, &json!({"other": {"command": "cat"}}));
    expect_healthy(doctor(&daemon));
}

#[test]
fn client_entry_with_a_missing_program_is_a_problem() {
    let daemon = daemon();
    cursor(&daemon, &json!({"mcpd": {"command": "/nowhere/bin/mcpd", "args": ["connect"]}}));
    let finding = expect(doctor(&daemon), "problem", "Cursor", "`/nowhere/bin/mcpd`, which does not exist");
    follow_yes(&daemon, &finding);
    expect_healthy(doctor(&daemon));
    cursor(&daemon, &json!({"gate": {"command": "/nowhere/bin/mcpd", "args": ["connect"]}}));
    let finding = expect(doctor(&daemon), "problem", "Cursor", "`/nowhere/bin/mcpd`, which does not exist");
    assert_eq!(finding.command(), "mcpd unlink cursor");
    cursor(&daemon, &json!({"mcpd": {"command": MCPD, "args": ["connect", "--runtime-dir=/elsewhere"]}}));
    let finding = expect(doctor(&daemon), "problem", "Cursor", "connects to /elsewhere, where no daemon runs");
    follow_yes(&daemon, &finding);
    expect_healthy(doctor(&daemon));
    cursor(&daemon, &json!({"mcpd": {"command": MCPD, "args": ["connect", "--profile", "none"]}}));
    expect(doctor(&daemon), "problem", "Cursor", "the profile `none`, which the daemon does not have");
    daemon.place().write("home/.cursor/mcp.json", "{\"mcpServers\": {");
    expect(doctor(&daemon), "warning", "Cursor", "has errors");
}

#[test]
fn client_that_is_linked_to_another_daemon_is_reported() {
    let (daemon, other) = (daemon(), Server::named("two").start());
    cursor(
        &daemon,
        &json!({"mcpd": {"command": MCPD, "args": ["connect", "--runtime-dir", other.place().runtime_dir()]}}),
    );
    let finding = expect(doctor(&daemon), "warning", "Cursor", "connects to a daemon in ");
    assert!(finding.command().starts_with("mcpd link cursor"), "{finding:?}");
}

#[test]
fn client_that_is_linked_by_a_url_of_a_profile_that_is_gone_is_a_problem() {
    let daemon = daemon();
    daemon.client(&["link", "vscode", "--http", "--profile", "none", "--yes"]).expect_code(0);
    let finding = expect(doctor(&daemon), "problem", "VS Code", "the profile `none`, which the daemon does not have");
    follow_yes(&daemon, &finding);
    expect_healthy(doctor(&daemon));
    daemon.client(&["link", "vscode", "--http", "--yes"]).expect_code(0);
    super::expect_any(&doctor(&daemon), "VS Code", "connects to mcpd by a URL");
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
