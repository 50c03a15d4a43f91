//! Entries that are not imported, and files that an import leaves unchanged.

use std::fs;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::fixtures::{everything, place_of};
use crate::support::Place;

const GOOD: &str = r#"{"mcpServers": {"good": {"command": "x"}}}"#;

#[test]
fn without_consent_nothing_is_written() {
    let place = Place::new();
    everything(&place);
    let files = || walk(&place);
    let before = files();
    let dry = place.mcpd(&["import", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.starts_with("--- /dev/null\n+++ ") && dry.stdout.contains("+[servers.memory]\n"), "{dry}");
    let unasked = place.mcpd(&["import"]).expect_code(2);
    assert!(unasked.stderr.contains("nothing is written") && unasked.stderr.contains("--yes"), "{unasked}");
    assert_eq!(unasked.stdout, dry.stdout, "it is shown what would be");
    assert_eq!(files(), before);
}

/// Every file of the place but for what the harness writes.
fn walk(place: &Place) -> Vec<String> {
    let (mut waiting, mut found) =
        (vec![place.path("home"), place.path("xdg-config"), place.path(".vscode")], Vec::new());
    while let Some(next) = waiting.pop() {
        for path in fs::read_dir(next).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            found.push(path.display().to_string());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn broken_file_is_reported_and_the_others_are_imported() {
    let place = Place::new();
    for directory in ["home/.cursor", "home/.codeium/windsurf", "home/.gemini/settings.json", "home/.codex", ".vscode"]
    {
        fs::create_dir_all(place.path(directory)).expect("a directory");
    }
    place.write(".mcp.json", GOOD);
    place.write("home/.claude.json", "{\"mcpServers\": {");
    mknodat(CWD, place.path("home/.cursor/mcp.json"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    place.write("home/.codeium/windsurf/mcp_config.json", "{\"a\":".repeat(200_000));
    place.write("home/.codex/config.toml", [b"a = \"", &[0xff, 0xfe][..], b"\"\n"].concat());
    let many: String = (0..32_000).map(|n| format!("\"s{n}\": {{\"command\": \"c{n}\"}},")).collect();
    place.write(".vscode/mcp.json", format!("{{\"servers\": {{{many}}}}}"));
    let ran = place.mcpd(&["import", "--yes"]).expect_code(1);
    for part in [
        ".claude.json",
        "unterminated object",
        ".cursor/mcp.json (Cursor)\n  cannot be read: it is no regular file",
        "maximum nesting depth",
        "settings.json (Gemini CLI)\n  cannot be read: it is no regular file",
        "line 1, column 6: byte 0xff is not UTF-8",
        "31800 further servers are left out",
        "+ good",
    ] {
        assert!(ran.stderr.contains(part), "no {part:?}: {:.4000}", ran.stderr);
    }
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    assert!(config.starts_with("[servers.good]\ncommand = \"x\"\n"), "{config:.200}");
}

#[test]
fn server_requested_by_name_must_exist() {
    let place = Place::new();
    let ran = place.mcpd(&["import"]).expect_code(0);
    assert!(ran.stderr.contains("no MCP servers are in the files of "), "{ran}");
    place.mcpd(&["import", "--from", "cursor"]).expect_code(0);
    let ran = place.mcpd(&["import", "--from", "notepad"]).expect_code(2);
    assert!(ran.stderr.contains("the clients are claude-code, claude-desktop, cline, codex, copilot"), "{ran}");
    let file = place.write("mine.json", GOOD);
    let ran = place.mcpd(&["import", "--yes", "--from", "mine.json", "--config", "ours.toml"]).expect_code(0);
    assert!(ran.stderr.contains(file.to_str().expect("text")), "{ran}");
    assert_eq!(fs::read_to_string(place.path("ours.toml")).expect("a file"), "[servers.good]\ncommand = \"x\"\n");
    let ran = place.mcpd(&["import", "--from", "ours.toml"]).expect_code(0);
    assert!(ran.stderr.contains("mcpd's own"), "{ran}");
}

#[test]
fn configuration_with_errors_is_not_added_to() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg-config/mcpd")).expect("a directory");
    let text = "[servers.a]\ncomand = 'x'\n";
    fs::write(place_of(&place), text).expect("one's own file");
    place.write(".mcp.json", GOOD);
    let ran = place.mcpd(&["import", "--yes"]).expect_code(2);
    assert!(ran.stderr.contains("config.toml:2:1") && ran.stdout.is_empty(), "{ran}");
    assert_eq!(fs::read_to_string(place_of(&place)).expect("a file"), text);
}
