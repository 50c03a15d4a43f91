//! The entries that `mcpd connect --print` prints for each client, tried as the client would use them.

use std::iter;
use std::path::Path;
use std::process::Command;

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item};

use crate::support::{MCPD, Place, Server, run};

const CLIENTS: [(&str, &str, &str); 12] = [
    ("claude-code", "mcpServers", "home/.claude.json"),
    ("claude-desktop", "mcpServers", "xdg-config/Claude/claude_desktop_config.json"),
    ("cline", "mcpServers", "home/.cline/data/settings/cline_mcp_settings.json"),
    ("codex", "mcp_servers", "home/.codex/config.toml"),
    ("copilot", "mcpServers", "home/.copilot/mcp-config.json"),
    ("cursor", "mcpServers", "home/.cursor/mcp.json"),
    ("gemini", "mcpServers", "home/.gemini/settings.json"),
    ("goose", "extensions", "xdg-config/goose/config.yaml"),
    ("opencode", "mcp", "xdg-config/opencode/opencode.json"),
    ("vscode", "servers", "xdg-config/Code/User/mcp.json"),
    ("windsurf", "mcpServers", "home/.codeium/windsurf/mcp_config.json"),
    ("zed", "context_servers", "xdg-config/zed/settings.json"),
];

/// The entry in what is printed for a client.
fn entry(client: &str, table: &str, printed: &str) -> Value {
    let file = match client {
        "codex" => toml_value(printed.parse::<DocumentMut>().expect("TOML").as_item()),
        "goose" => {
            let mut events = Parser::new_from_str(printed).map(|event| event.expect("YAML").0);
            events.find(|event| matches!(event, Event::DocumentStart(_))).expect("a document");
            yaml_value(&mut events).expect("a value")
        }
        _ => serde_json::from_str(printed).expect("JSON"),
    };
    file[table]["mcpd"].clone()
}

fn toml_value(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table.iter().map(|(key, item)| (key.to_owned(), toml_value(item))).collect();
    }
    match item.as_array() {
        Some(items) => items.iter().map(|item| item.as_str().expect("text")).collect(),
        None => item.as_str().expect("text").into(),
    }
}

/// The next value. `None` at the end of a list or table.
fn yaml_value<'t>(events: &mut impl Iterator<Item = Event<'t>>) -> Option<Value> {
    match events.next().expect("an event") {
        Event::Scalar(text, ..) => Some(text.into()),
        Event::SequenceStart(..) => Some(iter::from_fn(|| yaml_value(events)).collect()),
        Event::MappingStart(..) => {
            let mut table = Map::new();
            while let Some(key) = yaml_value(events) {
                table.insert(key.as_str().expect("text").to_owned(), yaml_value(events).expect("a value"));
            }
            Some(table.into())
        }
        _ => None,
    }
}

/// The command line that an entry has a client run.
fn launch(client: &str, table: &str, printed: &str) -> Vec<String> {
    let entry = entry(client, table, printed);
    let words: Vec<_> = if client == "opencode" {
        assert_eq!(entry["type"], "local");
        entry["command"].as_array().expect("a command line").iter().collect()
    } else {
        let command = if client == "goose" { "cmd" } else { "command" };
        [&entry[command]].into_iter().chain(entry["args"].as_array().expect("arguments")).collect()
    };
    words.into_iter().map(|word| word.as_str().expect("text").to_owned()).collect()
}

#[test]
fn connect_prints_the_command_and_the_file_for_each_client() {
    let daemon = Server::named("s").flags("--bare --tool one").start();
    let place = daemon.place();
    for (client, table, file) in CLIENTS {
        let ran = daemon.client(&["connect", "--print", client]).expect_code(0);
        let file = place.path(file).display().to_string();
        assert!(ran.stderr.starts_with(&format!("Add this entry to {file} (")), "{ran}");
        let words = launch(client, table, &ran.stdout);
        assert!(Path::new(&words[0]).is_absolute() && words[1] == "connect", "{words:?}");
        // It does what it says, wherever the client is.
        let mut command = place.command("sh");
        let question = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        command.args(["-c", "printf '%s\\n' \"$0\" | \"$@\"", question]).args(&words).current_dir("/");
        let answer = run(&mut command).expect_code(0);
        assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    }
}

#[test]
fn connect_prints_the_runtime_directory_for_clients_that_drop_it() {
    let place = Place::new();
    let session = place.path("xdg-run").display().to_string();
    for (client, table, _) in CLIENTS {
        let ran = place.mcpd(&["connect", "--print", client]).expect_code(0);
        let key = match client {
            "goose" => "envs",
            "opencode" => "environment",
            _ => "env",
        };
        assert_eq!(entry(client, table, &ran.stdout)[key], json!({"XDG_RUNTIME_DIR": session}), "{client}");
        let mut command = place.command(MCPD);
        let without = run(command.args(["connect", "--print", client]).env_remove("XDG_RUNTIME_DIR")).expect_code(0);
        assert!(!without.stdout.contains("XDG_RUNTIME_DIR"), "{without}");
    }
}

#[test]
fn command_line_that_is_offered_is_one_for_a_shell() {
    let place = Place::new();
    let ran = place.mcpd(&["connect", "--print", "claude-code", "--runtime-dir", "it's here"]).expect_code(0);
    let line = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("Or run this command, which adds the entry: "))
        .expect("one is offered");
    place.write("claude", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let mut command = place.command("sh");
    command.args(["-c", &format!("chmod +x claude; PATH=.:$PATH; {line}")]);
    let output = run(&mut command).expect_code(0).stdout;
    let output: Vec<_> = output.lines().collect();
    assert_eq!(output[..6], ["mcp", "add", "--scope", "user", "mcpd", "--"]);
    let here = place.path("it's here");
    assert_eq!(output[7..], ["connect", "--runtime-dir", here.to_str().expect("text")]);
    assert!(output[6].ends_with("/mcpd"), "{output:?}");
}

#[test]
fn printed_path_survives_a_package_upgrade() {
    let place = Place::new();
    let bin = place.path("bin");
    std::fs::create_dir(&bin).expect("a fresh directory");
    std::os::unix::fs::symlink(MCPD, bin.join("mcpd")).expect("a link");
    let run_with = |path: &Path| {
        let mut command: Command = place.command(bin.join("mcpd"));
        let ran = run(command.args(["connect", "--print", "cursor"]).env("PATH", path)).expect_code(0);
        launch("cursor", "mcpServers", &ran.stdout)[0].clone()
    };
    assert_eq!(Path::new(&run_with(&bin)), bin.join("mcpd"));
    assert_eq!(Path::new(&run_with(Path::new("/nowhere"))), Path::new(MCPD).canonicalize().expect("it is there"));
}

#[test]
fn unknown_client_is_refused_with_the_known_ones() {
    let ran = Place::new().mcpd(&["connect", "--print", "emacs"]).expect_code(2);
    assert!(ran.stdout.is_empty() && CLIENTS.iter().all(|(client, ..)| ran.stderr.contains(client)), "{ran}");
}

/// Old entries are removed by the same command everywhere.
#[test]
fn every_client_step_names_the_command_that_removes_old_entries() {
    let place = Place::new();
    place.write("home/.claude.json", r#"{"mcpServers": {"notes": {"command": "notes-server"}}}"#);
    let printed = place.mcpd(&["connect", "--print", "cursor"]).expect_code(0).stderr;
    let imported = place.mcpd(&["import", "--yes"]).expect_code(0).stderr;
    let page = |name: &str| {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name));
        text.expect("text")
    };
    assert!(printed.contains("`mcpd link cursor --take-over`"), "{printed}");
    for text in [imported, page("import.md"), page("agents.md")] {
        assert!(text.contains("`mcpd link --take-over`"), "{text}");
    }
}

#[test]
fn clients_page_shows_the_file_and_the_command_of_each_client() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/agents.md")).expect("text");
    let place = Place::new();
    let home = place.path("home").display().to_string();
    for (client, table, _) in CLIENTS {
        let mut command = place.command(MCPD);
        command.args(["connect", "--print", client]).env_remove("XDG_CONFIG_HOME").env_remove("XDG_RUNTIME_DIR");
        let ran = run(&mut command).expect_code(0);
        let own = launch(client, table, &ran.stdout).swap_remove(0);
        let shown = |text: &str| text.replace(&own, "/home/you/.cargo/bin/mcpd").replace(&home, "~");
        let output = shown(&ran.stderr);
        let (file, rest) =
            output.strip_prefix("Add this entry to ").and_then(|output| output.split_once(" (")).expect("a file");
        let title = rest.split(')').next().expect("a client");
        let row = page.lines().find(|line| line.starts_with(&format!("| {title} |")));
        let row = row.unwrap_or_else(|| panic!("no row for {title}"));
        let command =
            output.lines().filter_map(|line| line.strip_prefix("Or run this command, which adds the entry: "));
        for part in command.chain([file]) {
            assert!(row.contains(&format!("`{part}`")), "{part}\nis not in\n{row}");
        }
    }
}

#[test]
fn entry_for_a_profile_that_nobody_has_configured_is_printed_with_a_warning() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("xdg-config/mcpd")).expect("the test's own");
    place.write("xdg-config/mcpd/config.toml", "[profiles.reader]\n");
    let print = |profile: &str| place.mcpd(&["connect", "cursor", "--profile", profile]).expect_code(0).stderr;
    let warning = "warning: the configuration has no profile `raeder`; it has: default, reader\n";
    assert!(print("raeder").ends_with(warning), "{}", print("raeder"));
    assert!(!print("reader").contains("warning"), "{}", print("reader"));
}
