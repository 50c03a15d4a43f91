//! Configurations of twelve clients are served unchanged and imported.

mod fixtures;
mod foreign_references;
mod projects;
mod refusals;
mod secrets;
mod web;

use std::fs;

use serde_json::json;

use self::fixtures::{FILES, Fixture, Shims, everything, place_of};
use self::web::Web;
use crate::support::{Agent, Daemon, Place, Setup};

/// Fails unless every server in `fixture` that can run here does, with the tools that its file leaves.
fn expect_work(daemon: &Daemon, fixture: &Fixture) {
    // Nobody has answered what this one asks for.
    let remote: Vec<_> = fixture.remote.iter().filter(|server| **server != "maps").collect();
    for server in fixture.local.iter().chain(remote.iter().copied()) {
        daemon.wait_row(server, "is ready", |row| row["state"] == "ready");
    }
    let mut agent = Agent::working_in(daemon, &daemon.place().path("work"));
    let tools = agent.tools();
    for server in fixture.local.iter().chain(fixture.by_workspace) {
        let shown: Vec<_> = tools.iter().filter(|tool| tool.starts_with(&format!("{server}__"))).collect();
        let expected = if fixture.only_echo { 1 } else { 2 };
        assert_eq!(shown.len(), expected, "{server}: {tools:?}");
        let answer = agent.call(&format!("{server}__echo"), &json!({"n": 1}));
        assert!(answer["result"].is_object(), "{server}: {answer}");
    }
    for server in remote {
        let answer = agent.call(&format!("{server}__echo"), &json!({"n": 1}));
        assert!(answer["result"].is_object(), "{server}: {answer}");
    }
    if fixture.remote.contains(&"maps") {
        assert_eq!(daemon.row("maps")["state"], "failed");
    }
}

#[test]
fn files_of_twelve_clients_are_served_as_they_are() {
    let place = Place::new();
    let shims = Shims::new(&place);
    let files = everything(&place);
    let setup = files.into_iter().fold(Setup::new(), Setup::config);
    let web = Web::new(&place);
    let daemon = web.on(shims.on_path(setup)).start_in(&place);
    for fixture in FILES {
        expect_work(&daemon, fixture);
    }
    for (server, name, value) in [
        ("tracker", "x-team", "blue"),
        ("search", "authorization", "Bearer none"),
        ("docs", "x-shelf", "all"),
        ("archive", "x-depth", "2"),
        ("archive", "x-host", "ledger"),
        ("library", "x-shelf", "ledger"),
        ("posters", "x-wall", "north"),
        ("parcels", "x-weight", "light"),
        ("stalls", "x-stall", "ledger"),
    ] {
        let seen = web.header(&format!("{server}.example.org"), name);
        assert!(!seen.is_empty() && seen.iter().all(|seen| seen.as_deref() == Some(value)), "{server}: {seen:?}");
    }
    let maps = daemon.row("maps");
    assert!(
        maps.to_string().contains("`${input:maps-key}` has no value: run `mcpd import`, which prompts for it"),
        "{maps}"
    );
    assert_eq!(shims.seen("ledger-server", "LEDGER_YEAR").as_deref(), Some("2026"));
    assert_eq!(shims.seen("charts-server", "CHARTS_HOME"), place.path("home").to_str().map(str::to_owned));
    assert!(shims.arguments("ledger-server").contains("${literally}"));
    assert!(shims.arguments("atlas-server").ends_with("--host=ledger"));
    assert_eq!(shims.seen("atlas-server", "ATLAS_SCALE").as_deref(), Some("ledger"));
    assert!(shims.arguments("sketches-server").starts_with("-y"));
    assert_eq!(shims.seen("sketches-server", "SKETCHES_USER").as_deref(), Some("ledger"));
    assert!(shims.arguments("errands-server").ends_with("--host=ledger"));
    assert_eq!(shims.seen("errands-server", "ERRANDS_HOST").as_deref(), Some("ledger"));
    assert_eq!(shims.seen("errands-server", "ERRANDS_PLACE").as_deref(), Some("here"));
    assert!(shims.arguments("orchard-server").ends_with("--trees=${LEDGER_HOST}"));
    assert_eq!(shims.seen("orchard-server", "ORCHARD_ROWS").as_deref(), Some("12"));
    assert_eq!(shims.seen("orchard-server", "LEDGER_HOST").as_deref(), Some("ledger"));
    let root = place.path("work").display().to_string();
    assert!(shims.arguments("code-server").contains(&root), "{}", shims.arguments("code-server"));
}

#[test]
fn each_client_is_imported_by_its_word_and_its_servers_work() {
    for fixture in FILES {
        let place = Place::new();
        let shims = Shims::new(&place);
        let from = fixture.put(&place);
        let before = fs::read(&from).expect("a file");
        let ran = shims.mcpd(&place, &["import", "--from", fixture.word, "--yes", "--projects"]).expect_code(0);
        assert!(ran.stdout.contains(&format!("+[servers.{}]", fixture.any())), "{}: {ran}", fixture.file);
        assert_eq!(fs::read(&from).expect("a file"), before, "the client's own file stays as it is");
        let web = Web::new(&place);
        let daemon = web.on(shims.on_path(Setup::new().without_config())).start_in(&place);
        expect_work(&daemon, fixture);
        let again = place.mcpd(&["import", "--from", fixture.word, "--yes"]).expect_code(0);
        assert!(again.stdout.is_empty() && again.stderr.contains("nothing to add"), "{}: {again}", fixture.file);
    }
}

#[test]
fn next_steps_of_an_import_start_the_daemon_if_none_runs() {
    let place = Place::new();
    let start = "`mcpd start` applies the change";
    let import = |place: &Place, name: &str| {
        place.write("home/.claude.json", json!({ "mcpServers": { (name): { "command": name } } }).to_string());
        place.client(&["import", "--yes"]).expect_code(0).stderr
    };
    let output = import(&place, "one");
    assert!(output.contains(start), "{output}");
    let _daemon = Setup::new().start_in(&place);
    let output = import(&place, "two");
    assert!(!output.contains(start) && output.contains("the running daemon does not read"), "{output}");
}

#[test]
fn everything_on_this_machine_is_imported_at_once_and_only_once() {
    let place = Place::new();
    everything(&place);
    let ran = place.mcpd(&["import", "--yes", "--projects"]).expect_code(0);
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    for fixture in FILES {
        for server in fixture.local.iter().chain(fixture.by_workspace).chain(fixture.remote) {
            assert_eq!(config.matches(&format!("[servers.{server}]\n")).count(), 1, "{server}: {ran}\n{config}");
        }
    }
    assert!(!config.contains("asleep") && !config.contains("unwanted") && !config.contains("extension"), "{config}");
    let checked = place.mcpd(&["check"]).expect_code(0);
    assert!(checked.stdout.starts_with("30 servers: "), "{checked}");
    assert!(ran.stderr.contains("mcpd check") && ran.stderr.contains("mcpd connect"), "{ran}");
    let again = place.mcpd(&["import", "--yes"]).expect_code(0);
    assert!(again.stdout.is_empty() && again.stderr.contains("= weather is there already"), "{again}");
    assert_eq!(fs::read_to_string(place_of(&place)).expect("a configuration"), config);
}

#[test]
fn file_of_ours_keeps_every_byte_its_mode_and_its_link() {
    let place = Place::new();
    let text = "\u{feff}# mine\r\n[daemon] # all of it\r\nwatch   =  false\r\n\r\n[servers.z]\r\ncommand = 'z'";
    let real = place.write("dotfiles.toml", text);
    fs::create_dir_all(place.path("xdg-config/mcpd")).expect("a directory");
    std::os::unix::fs::symlink(&real, place_of(&place)).expect("a link");
    std::os::unix::fs::chown(&real, None, None).expect("one's own file");
    fs::set_permissions(&real, std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("one's own file");
    place.write("home/.claude.json", r#"{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#);
    place.mcpd(&["import", "--yes"]).expect_code(0);
    let expected = format!("{text}\r\n\r\n[servers.a]\r\ncommand = \"x\"\r\nargs = [\"y\"]");
    assert_eq!(fs::read_to_string(&real).expect("a file"), expected);
    assert!(fs::symlink_metadata(place_of(&place)).expect("a link").is_symlink());
    assert_eq!(secrets::mode(&real), 0o640);
    assert!(!place.path("xdg-config/mcpd/secrets").exists(), "there is no secret");
}

#[test]
fn running_daemon_applies_imported_servers_at_once_or_on_reload() {
    let place = Place::new();
    let shims = Shims::new(&place);
    let daemon = shims.on_path(Setup::new().without_config()).start_in(&place);
    place.write(".mcp.json", r#"{"mcpServers": {"a": {"command": "npx", "args": ["a-server"]}}}"#);
    let ran = shims.mcpd(&place, &["import", "--yes", "--no-reload"]).expect_code(0);
    assert!(ran.stderr.contains("mcpd reload"), "{ran}");
    place.write(".mcp.json", r#"{"mcpServers": {"b": {"command": "npx", "args": ["b-server"]}}}"#);
    let ran = shims.mcpd(&place, &["import", "--yes"]).expect_code(0);
    assert!(ran.stdout.contains("added        a, b"), "{ran}");
    for server in ["a", "b"] {
        daemon.wait_row(server, "is ready", |row| row["state"] == "ready");
    }
}
