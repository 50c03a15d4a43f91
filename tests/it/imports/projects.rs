//! Servers of projects, and servers that several files have.

use std::fs;

use serde_json::{Value, json};

use super::fixtures::place_of;
use crate::support::Place;

/// Files of a project, and the server in each as its client writes it.
const FILES: [(&str, &str, &str); 8] = [
    (
        ".mcp.json",
        "code",
        r#"{"mcpServers": {"code": {"type": "stdio", "command": "x", "args": ["code"], "env": {}}}}"#,
    ),
    (".cursor/mcp.json", "cursor", r#"{"mcpServers": {"cursor": {"command": "x", "args": ["cursor"]}}}"#),
    (
        ".vscode/mcp.json",
        "vs",
        r#"{"inputs": [], "servers": {"vs": {"type": "stdio", "command": "x", "args": ["vs"]}}}"#,
    ),
    (".vscode/settings.json", "older", r#"{"mcp": {"servers": {"older": {"command": "x", "args": ["older"]}}}}"#),
    (".gemini/settings.json", "gem", r#"{"mcpServers": {"gem": {"command": "x", "args": ["gem"], "trust": false}}}"#),
    (".codex/config.toml", "codex", "[mcp_servers.codex]\ncommand = 'x'\nargs = ['codex']\n"),
    ("opencode.json", "open", r#"{"mcp": {"open": {"type": "local", "command": ["x", "open"], "enabled": true}}}"#),
    (
        ".zed/settings.json",
        "zed",
        r#"{"context_servers": {"zed": {"source": "custom", "command": "x", "args": ["zed"]}}}"#,
    ),
];

/// A file of a client, with the servers in `mcpServers`.
fn servers(servers: &[(&str, &str)]) -> Value {
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|(name, command)| ((*name).to_owned(), json!({ "command": command }))).collect();
    json!({ "mcpServers": servers })
}

fn put(place: &Place, path: &str, text: impl ToString) {
    fs::create_dir_all(place.path(path).parent().expect("a directory")).expect("the test's own directory is writable");
    place.write(path, text.to_string());
}

#[test]
fn server_of_a_project_runs_in_the_directory_of_the_project() {
    let place = Place::new();
    for (path, _, text) in FILES {
        put(&place, path, text);
    }
    put(&place, "home/.cursor/mcp.json", servers(&[("everywhere", "y")]));
    put(&place, "elsewhere/.mcp.json", servers(&[("named", "z")]));
    let here = place.path("home").parent().expect("the place").display().to_string();
    let ran = place.mcpd(&["import", "--yes", "--json"]).expect_code(0);
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    for (path, name, _) in FILES {
        let written = format!("[servers.{name}]\ncommand = \"x\"\nargs = [\"{name}\"]\ncwd = \"{here}\"\n");
        assert!(config.contains(&written), "{path}: {config}");
        assert!(ran.stderr.contains(&format!("+ {name} (project {here})")), "{path}: {ran}");
    }
    assert!(config.contains("[servers.everywhere]\ncommand = \"y\"\n"), "{config}");
    let all = "note: all agents will see these servers of projects: code, codex, cursor, gem, open, vs, older, zed\n";
    assert!(ran.stderr.contains(all), "{ran}");
    let files = ran.json()["sources"].clone();
    let of_projects =
        files.as_array().expect("a list").iter().flat_map(|file| file["servers"].as_array().expect("a list"));
    assert_eq!(of_projects.filter(|server| server["project"] == *here && server["cwd"] == *here).count(), FILES.len());
    place.mcpd(&["import", "--yes", "elsewhere/.mcp.json"]).expect_code(0);
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    assert!(config.contains(&format!("[servers.named]\ncommand = \"z\"\ncwd = \"{here}/elsewhere\"\n")), "{config}");
}

#[test]
fn private_servers_of_projects_are_added_only_on_request() {
    let place = Place::new();
    let projects = json!({
        "/projects/shop": servers(&[("db", "shop-db"), ("web", "web")]),
        "/projects/blog": servers(&[("db", "blog-db")]),
    });
    let mut claude = servers(&[("everywhere", "web")]);
    claude["projects"] = projects;
    place.write("home/.claude.json", claude.to_string());
    let preview = place.mcpd(&["import", "--dry-run"]).expect_code(0);
    for line in [
        "  + everywhere, with sandbox `scope`: its command `web` is not found\n",
        "  - db is not added: its client starts it in one project only; `--projects` adds it for all agents (project /projects/blog)\n",
        "all agents (project /projects/shop)\n",
        "  = web is there already, as `everywhere` (project /projects/shop)\n",
    ] {
        assert!(preview.stderr.contains(line), "no {line:?}: {preview}");
    }
    assert!(!preview.stdout.contains("db") && !preview.stderr.contains("note:"), "{preview}");
    let json = place.mcpd(&["import", "--dry-run", "--json"]).expect_code(0).json();
    let outcomes = json["sources"][0]["servers"].as_array().expect("a list").iter().map(|one| one["outcome"].clone());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["added", "private", "private", "known"], "{json}");

    let done = place.mcpd(&["import", "--yes", "--projects"]).expect_code(0);
    for line in ["+ db (project /projects/blog), with", "+ db, as `db-2` (project /projects/shop), with"] {
        assert!(done.stderr.contains(line), "no {line}: {done}");
    }
    assert!(done.stderr.contains("note: all agents will see these servers of projects: db, db-2\n"), "{done}");
    for (name, command, directory) in [("db", "blog-db", "blog"), ("db-2", "shop-db", "shop")] {
        let written = format!("[servers.{name}]\ncommand = \"{command}\"\ncwd = \"/projects/{directory}\"\n");
        assert!(fs::read_to_string(place_of(&place)).expect("a configuration").contains(&written), "{name}: {done}");
    }
}

#[test]
fn preview_shows_the_working_directory_that_is_not_the_projects() {
    let place = Place::new();
    let web = json!({ "command": "node", "args": ["web"], "cwd": "./web" });
    place.write(".mcp.json", json!({ "mcpServers": { "web": web } }).to_string());
    let here = place.path("home").parent().expect("the place").display().to_string();
    let preview = place.mcpd(&["import", "--dry-run"]).expect_code(0);
    assert!(preview.stderr.contains(&format!("  + web (project {here}, cwd {here}/web)")), "{preview}");
}

#[test]
fn servers_of_one_name_in_several_files_are_renamed_and_equal_ones_are_one() {
    let place = Place::new();
    put(&place, "home/.cursor/mcp.json", servers(&[("a", "x"), ("b", "y")]));
    put(&place, "home/.codeium/windsurf/mcp_config.json", servers(&[("c", "x"), ("b", "z")]));
    put(&place, ".mcp.json", servers(&[("a", "x"), ("b", "y")]));
    let ran = place.mcpd(&["import", "--yes"]).expect_code(0);
    for line in
        ["+ a", "+ b", "= c is there already, as `a`", "+ b, as `b-2`", "= a is there already", "= b is there already"]
    {
        assert!(ran.stderr.contains(line), "no {line}: {ran}");
    }
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    let expected = "[servers.a]\ncommand = \"x\"\n\n[servers.b]\ncommand = \"y\"\n\n[servers.b-2]\ncommand = \"z\"\n";
    assert_eq!(config, expected);
    let again = place.mcpd(&["import", "--yes"]).expect_code(0);
    assert!(again.stdout.is_empty() && again.stderr.contains("= b is there already, as `b-2`"), "{again}");

    // What the user has written stays.
    put(&place, "home/.cursor/mcp.json", servers(&[("b", "none")]));
    let ran = place.mcpd(&["import", "--yes"]).expect_code(0);
    let kept = "! b is not added: there is another `b`, which stays as it is; `--rename` adds this one as `b-3`";
    assert!(ran.stderr.contains(kept), "{ran}");
    let ran = place.mcpd(&["import", "--yes", "--rename"]).expect_code(0);
    assert!(ran.stderr.contains("+ b, as `b-3`"), "{ran}");
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    assert_eq!(config, format!("{expected}\n[servers.b-3]\ncommand = \"none\"\n"));
}
