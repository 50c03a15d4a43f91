//! Claude Code's file is edited by `claude mcp`, where that is installed. A stand-in behaves like it: it rewrites the whole file, and refuses a
//! name that is taken or missing.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{MCPD, Place, Ran, client_file, mcpd_at_home, run};

const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, sys
path = os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.environ["HOME"], ".claude.json")
with open(os.path.join(os.environ["HOME"], "calls"), "a") as calls:
    calls.write(" ".join(sys.argv[1:6]) + "\n")
if os.path.exists(os.path.join(os.environ["HOME"], "broken")):
    sys.exit("claude is out of order")
config = json.load(open(path)) if os.path.exists(path) else {}
mcp, command, option, scope, name = sys.argv[1:6]
assert (mcp, option) == ("mcp", "--scope"), sys.argv
if scope == "local":
    table = config.setdefault("projects", {}).setdefault(os.getcwd(), {}).setdefault("mcpServers", {})
else:
    assert scope == "user", scope
    table = config.setdefault("mcpServers", {})
if command == "add-json":
    if name in table:
        sys.exit(f"MCP server {name} already exists in {scope} config")
    table[name] = json.loads(sys.argv[6])
else:
    assert command == "remove", command
    if name not in table:
        sys.exit(f"No MCP server found with name: {name}")
    del table[name]
config["numStartups"] = config.get("numStartups", 0) + 1
with open(path + ".new", "w") as new:
    json.dump(config, new, indent=2)
os.rename(path + ".new", path)
"#;

/// A home directory with `claude`; `None` without Python.
fn with_claude() -> Option<std::rc::Rc<Place>> {
    if Command::new("python3").arg("--version").output().is_err() {
        crate::support::skipped("there is no python3");
        return None;
    }
    let place = Place::new();
    place.write_program("bin/claude", CLAUDE);
    client_file("claude-code").put(&place);
    Some(place)
}

fn mcpd(place: &Place, args: &[&str]) -> Ran {
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").expect("PATH is set"));
    run(mcpd_at_home(place, args).env("PATH", path))
}

fn config(place: &Place) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path("home/.claude.json")).expect("text")).expect("JSON")
}

#[test]
fn claude_edits_its_own_file_and_unlink_restores_the_bytes() {
    let Some(place) = with_claude() else { return };
    let before = fs::read(place.path("home/.claude.json")).expect("a file");
    mcpd(&place, &["link", "claude-code", "--yes"]).expect_code(0);
    let calls = fs::read_to_string(place.path("home/calls")).expect("it was called");
    assert_eq!(calls, "mcp add-json --scope user mcpd\n");
    assert_eq!(
        (&config(&place)["numStartups"], &config(&place)["mcpServers"]["mcpd"]["args"]),
        (&json!(13), &json!(["connect"]))
    );
    let ran = mcpd(&place, &["link", "claude-code", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("is linked already"), "{ran}");
    mcpd(&place, &["unlink", "claude-code", "--yes"]).expect_code(0);
    assert_eq!(fs::read(place.path("home/.claude.json")).expect("a file"), before);
}

#[test]
fn claude_itself_removes_the_entry_from_a_file_that_it_has_written_since() {
    let Some(place) = with_claude() else { return };
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    place.write(
        "home/.config/mcpd/config.toml",
        format!("[servers.notes]\ncommand = '{MCPD}'\nargs = ['demo-server']\n"),
    );
    let project = place.path("home/garden");
    fs::create_dir(&project).expect("a fresh home");
    let text = fs::read_to_string(place.path("home/.claude.json")).expect("text");
    place.write("home/.claude.json", text.replace("/nowhere", project.to_str().expect("text")));
    let before = config(&place);
    mcpd(&place, &["link", "claude-code", "--take-over", "--yes"]).expect_code(0);
    let linked = config(&place);
    assert_eq!(linked["mcpServers"].as_object().expect("a table").keys().collect::<Vec<_>>(), ["mcpd"]);
    assert_eq!(linked["projects"][project.to_str().expect("text")]["mcpServers"], json!({}));
    let mut running = linked;
    running["tipsHistory"] = json!({"tip": 1});
    place.write("home/.claude.json", running.to_string());
    mcpd(&place, &["unlink", "claude-code", "--yes"]).expect_code(0);
    let after = config(&place);
    assert_eq!((&after["mcpServers"], &after["projects"]), (&before["mcpServers"], &before["projects"]));
    assert_eq!(after["tipsHistory"], json!({"tip": 1}));
    let calls = fs::read_to_string(place.path("home/calls")).expect("it was called");
    assert!(
        calls.contains("mcp remove --scope user mcpd\n") && calls.contains("mcp add-json --scope local notes\n"),
        "{calls}"
    );
}

#[test]
fn failure_of_claude_is_reported_and_leaves_the_file_as_it_was() {
    let Some(place) = with_claude() else { return };
    place.write("home/broken", "");
    let before = fs::read(place.path("home/.claude.json")).expect("a file");
    let ran = mcpd(&place, &["link", "claude-code", "--yes"]).expect_code(1);
    let expected = "`claude mcp add-json --scope user mcpd` failed: claude is out of order";
    assert!(ran.stderr.contains(expected) && ran.stderr.contains("by hand"), "{ran}");
    assert_eq!(fs::read(place.path("home/.claude.json")).expect("a file"), before);
}
