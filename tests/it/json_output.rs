//! Every member of `--json` output is documented in docs/internals/json.md.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::login::fixture::LoginFixture;
use crate::support::{Agent, Daemon, Place, Ran, SCRIPTED, Server, Setup};

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/internals/json.md")).expect("text")
}

/// What `heading` of the page says.
fn section(page: &str, heading: &str) -> String {
    let begin = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let text = &page[begin + 4..];
    text[..text.find("\n## ").unwrap_or(text.len())].to_owned()
}

/// Every key of an object, and of those in it.
fn keys(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(keys).collect(),
        Value::Object(all) => {
            all.iter().flat_map(|(key, value)| keys(value).into_iter().chain([key.clone()])).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Holds the objects that were printed to what the page says.
#[track_caller]
fn expect_documented(heading: &str, ran: &Ran) {
    let text = section(&page(), heading);
    let printed: Vec<Value> =
        serde_json::Deserializer::from_str(&ran.stdout).into_iter().map(|value| value.expect("JSON")).collect();
    assert!(!printed.is_empty(), "{heading}: {ran}");
    for object in printed {
        assert_eq!(object["format"], 1, "{heading}: {object}");
        for key in keys(&object) {
            assert!(text.contains(&format!("`{key}`")), "docs/internals/json.md does not have `{key}` in `{heading}`");
        }
    }
}

fn daemon() -> Daemon {
    let sick = Server::named("sick").flags("--exit-at-start 3");
    let own = Server::named("own").line("sharing = \"session\"\ndeny = [\"x*\"]\nlog_arguments = true");
    let limited = Server::named("plain").line("tasks_max = 900\nchanges = \"hold\"");
    Setup::with(sick).server(own).server(limited).start()
}

#[test]
fn every_member_printed_by_login_commands_is_documented() {
    let fixture = LoginFixture::new();
    let report = || expect_documented("mcpd login", &fixture.run(&["login", "--json"]));
    fixture.log_in().expect_code(0);
    report();
    fs::write(fixture.file(), "no login").expect("it is the test's own");
    report();
}

#[test]
fn every_member_that_commands_print_is_documented() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    agent.call("own__stderr", &json!({"text": "x"}));
    agent.call("own__fail", &json!({"code": -5}));
    agent.call("nothing__at_all", &json!({}));
    daemon.wait_row("sick", "shows its stderr", |row| !row["stderr"].is_null() && !row["reason"].is_null());
    let report = |heading, args: &[&str]| expect_documented(heading, &daemon.client(args));
    report("mcpd status", &["status", "--json"]);
    report("mcpd status", &["status", "--check", "--json"]);
    report("mcpd top", &["top", "--json"]);
    report("mcpd tools", &["tools", "--all", "--json"]);
    report("mcpd diff", &["diff", "--json"]);
    report("mcpd approve", &["approve", "plain", "--all", "--yes", "--json"]);
    report("mcpd calls", &["calls", "--json"]);
    report("mcpd logs", &["logs", "--json"]);
    let orders = "mcpd restart, enable, disable";
    report(orders, &["disable", "own", "--json"]);
    report(orders, &["enable", "own", "--json"]);
    report(orders, &["disable", "own/echo", "--json"]);
    report(orders, &["restart", "sick", "--json"]);
    report("mcpd status", &["status", "--json"]);
    report("mcpd reload", &["reload", "--json"]);
    report("mcpd reload --log-level", &["reload", "--log-level", "--json"]);
    report("mcpd doctor", &["doctor", "--json"]);
}

#[test]
fn configuration_edits_are_reported_as_json() {
    let place = Place::new();
    let other =
        json!({"mcpServers": {"files": {"command": SCRIPTED, "env": {"API_TOKEN": "sk-123456789012345678901234"}}}});
    let other = place.write("other.json", other.to_string()).display().to_string();
    let file = place.path("config.toml").display().to_string();
    let run = |args: &[&str]| place.mcpd(args).expect_code(0);
    let dry = run(&["import", "--from", &other, "--config", &file, "--dry-run", "--json"]);
    assert_eq!((dry.json()["written"].clone(), std::path::Path::new(&file).exists()), (json!(false), false));
    expect_documented("mcpd import", &dry);
    let import = run(&["import", "--from", &other, "--config", &file, "--yes", "--json"]);
    expect_documented("mcpd import", &import);
    let report = import.json();
    assert_eq!((&report["written"], &report["sources"][0]["servers"][0]["outcome"]), (&json!(true), &json!("added")));
    let add = run(&["add", "git", "--config", &file, "--json", "--", SCRIPTED]);
    expect_documented("mcpd add", &add);
    assert_eq!(add.json()["name"], "git");
    expect_documented("mcpd check", &run(&["check", &file, "--json"]));
    let remove = run(&["remove", "files", "--config", &file, "--json"]);
    expect_documented("mcpd remove", &remove);
    assert_eq!(remove.json()["secrets"].as_array().map(Vec::len), Some(1));
}

#[test]
fn failed_operator_command_is_reported_as_json_and_by_its_exit_code() {
    let daemon = Server::named("sick").flags("--exit-at-start 3").start();
    let report = daemon.client(&["restart", "sick", "--json"]).expect_code(1).json();
    assert_eq!((&report["server"], &report["done"]), (&json!("sick"), &json!(false)));
    assert!(report["reason"].as_str().is_some_and(|reason| reason.contains("code 3")), "{report}");
}
