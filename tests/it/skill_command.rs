//! `mcpd skill`: each command line and each exit code that the skill states.

use serde_json::json;

use crate::support::{Daemon, MCPD, Place, Ran, Server, Setup, Terminal, quoted, run};

/// A server with the tool of the examples, one that fails, and a file with arguments.
fn daemon() -> Daemon {
    let place = Place::new();
    let path = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    let read = json!({ "name": "read_file", "description": "Reads a file", "inputSchema": path });
    let refuse = json!({ "name": "refuse", "inputSchema": { "type": "object" } });
    let file = place.write("listing", json!({ "tools": [read, refuse] }).to_string());
    place.write("arguments.json", r#"{"path": "from a file"}"#);
    let server = Server::named("files").flags("--tool read_file --tool-list").arg(file);
    Setup::with(server).start_in(&place)
}

/// Runs a line in a shell in which `mcpd` is a client of this daemon.
fn shell(daemon: &Daemon, line: &str) -> Ran {
    let directory = quoted(daemon.place().runtime_dir());
    let script = format!("mcpd() {{ {} \"$@\" --runtime-dir {directory}; }}\n{line}", quoted(MCPD));
    run(daemon.place().command("sh").args(["-c", &script]))
}

#[test]
fn every_command_line_of_the_skill_works() {
    let daemon = daemon();
    let skill = daemon.place().mcpd(&["skill"]).expect_code(0);
    assert_eq!(skill.stderr, "");
    let (_, block) = skill.stdout.split_once("```sh\n").expect("a block of commands");
    let lines: Vec<_> = block.lines().take_while(|line| *line != "```").collect();
    let outputs: Vec<_> = lines.iter().map(|line| shell(&daemon, line).expect_code(0).stdout).collect();
    let expected = [
        "  files__read_file  Reads a file\n",
        "mcpd call files__read_file path=PATH\n",
        r#""arguments":{"path": "notes.md"}"#,
        r#""arguments":{"path": "from a file"}"#,
    ];
    assert_eq!(outputs.len(), expected.len(), "{skill}");
    for (output, expected) in outputs.iter().zip(expected) {
        assert!(output.contains(expected), "{output}");
    }
    assert_eq!(shell(&daemon, "mcpd tools files").expect_code(0).stdout.lines().count(), 3);
    for option in ["--json", "-o out/", "--timeout 60s"] {
        shell(&daemon, &format!("mcpd call files__read_file '{{\"path\": \"x\"}}' {option}")).expect_code(0);
    }
}

#[test]
fn exit_codes_are_those_of_the_skill() {
    let daemon = daemon();
    let failed = shell(&daemon, "mcpd call files__refuse '{}'").expect_code(1);
    assert_eq!((&*failed.stdout, &*failed.stderr), ("", "mcpd: no\n"), "{failed}");
    let wrong = shell(&daemon, "mcpd call files__read_file '{}'").expect_code(2);
    assert!(wrong.stderr.contains("missing `path`"), "{wrong}");
    assert_eq!(daemon.client(&["calls", "--json"]).expect_code(0).stdout.lines().count(), 1, "nothing was sent");
    let elsewhere = daemon.place().mcpd(&["call", "files__read_file", "{}"]).expect_code(3);
    assert!(elsewhere.stderr.contains("`mcpd start`"), "{elsewhere}");
}

#[test]
fn a_terminal_shows_where_to_save_the_skill() {
    let place = Place::new();
    let Some(terminal) = Terminal::open(&place, 200, 50) else { return };
    terminal.line(&format!("clear; {} skill", quoted(MCPD)));
    terminal.wait("mcpd: save it as ~/.claude/skills/mcpd/SKILL.md for Claude Code");
}
