//! Exit codes and streams of the command line: results on stdout, everything else on stderr.

use serde_json::json;

use crate::support::{Daemon, Place, Server};

fn daemon() -> Daemon {
    Server::named("a").flags("--bare --tool echo --tool refuse --tool fail").start()
}

#[test]
fn tools_are_listed_for_people_and_for_programs() {
    let daemon = daemon();
    let table = daemon.client(&["tools"]).expect_code(0);
    for name in ["a__echo", "a__refuse", "a__fail"] {
        assert!(table.stdout.lines().any(|line| line.contains(name)), "{table}");
    }
    let json = daemon.client(&["tools", "--json"]).expect_code(0).json();
    let list = json.as_array().or(json["tools"].as_array()).expect("an array of tools").clone();
    let names: Vec<_> = list.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["a__echo", "a__refuse", "a__fail"]);
    assert_eq!(list[0]["inputSchema"]["type"], "object");
}

#[test]
fn a_call_prints_its_result_and_nothing_else() {
    let daemon = daemon();
    let ran = daemon.client(&["call", "a__echo", r#"{"n": 1.10}"#, "--json"]).expect_code(0);
    assert_eq!(ran.json()["structuredContent"]["params"]["arguments"], json!({"n": 1.1}));
    assert!(ran.stdout.contains("1.10"), "numbers stay as they are: {ran}");
    assert_eq!(ran.stderr, "");
    let plain = daemon.client(&["call", "a__echo"]).expect_code(0);
    assert!(plain.stdout.contains("\"params\""), "structured content is shown if there is nothing else: {plain}");
}

#[test]
fn call_that_fails_ends_with_one() {
    let daemon = daemon();
    let refused = daemon.client(&["call", "a__refuse", "{}", "--json"]).expect_code(1);
    assert_eq!(refused.json()["isError"], true, "it is a result all the same");
    let failed = daemon.client(&["call", "a__fail", r#"{"code": -5, "message": "no way"}"#]).expect_code(1);
    assert!(failed.stderr.contains("no way") && failed.stdout.is_empty(), "{failed}");
    let unknown = daemon.client(&["call", "a__nothing", "{}"]).expect_code(1);
    assert!(unknown.stderr.contains("Unknown tool: a__nothing"), "{unknown}");
}

#[test]
fn usage_error_exits_with_2_and_prints_the_usage() {
    let daemon = daemon();
    for args in [
        &["call", "a__echo", "{not json"][..],
        &["call", "a__echo", "[1]"],
        &["call"],
        &["status", "--jsonn"],
        &["stattus"],
        &[],
    ] {
        let ran = daemon.place().mcpd(args).expect_code(2);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
    assert!(!daemon.journal("a").iter().any(|line| line.contains("tools/call")));
}

/// The commands that an overview lists.
fn list_commands(overview: &str) -> Vec<&str> {
    let commands = overview.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  mcpd"));
    commands.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn help_shows_twelve_commands_and_help_all_every_command() {
    const DAILY: &str = "setup import link add status tools call logs doctor start stop restart";
    const OTHERS: &str = "try edit unlink connect remove check lock service login logout token demo completions schema skill diff calls top dashboard metrics tap bugreport sandbox approve reject reload enable disable serve";
    let place = Place::new();
    let sorted = |text: &str| {
        let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let shown = |args: &[&str]| {
        let ran = place.mcpd(args).expect_code(0);
        assert_eq!(ran.stderr, "", "{args:?}");
        sorted(&list_commands(&ran.stdout).join(" "))
    };
    for args in [&["--help"][..], &["-h"], &["help"]] {
        assert_eq!(shown(args), sorted(DAILY), "{args:?}");
    }
    for args in [&["help", "--all"][..], &["help", "-a"], &["--help", "--all"]] {
        assert_eq!(shown(args), sorted(&format!("{DAILY} {OTHERS}")), "{args:?}");
    }
    for command in format!("{DAILY} {OTHERS}").split(' ') {
        let by_word = place.mcpd(&["help", command]).expect_code(0);
        assert_eq!(by_word.stdout, place.mcpd(&[command, "--help"]).expect_code(0).stdout, "{command}");
        assert!(by_word.stdout.contains("Usage: mcpd"), "{by_word}");
    }
}

#[test]
fn version_is_printed_for_each_usual_word() {
    for word in ["--version", "-V", "-v", "version"] {
        let ran = Place::new().mcpd(&[word]).expect_code(0);
        assert_eq!(ran.stdout.trim(), concat!("mcpd ", env!("CARGO_PKG_VERSION")), "{word}");
    }
}

#[test]
fn commands_without_a_daemon_refuse_a_runtime_directory() {
    let place = Place::new();
    for command in [&["completions", "bash"][..], &["schema"], &["demo"], &["service", "status"]] {
        for args in [[&["--runtime-dir", "x"], command].concat(), [command, &["--runtime-dir", "x"]].concat()] {
            let ran = place.mcpd(&args).expect_code(2);
            let message = format!("`mcpd {}` does not accept `--runtime-dir`: ", command[0]);
            assert!(ran.stderr.contains(&message) && ran.stdout.is_empty(), "{args:?}: {ran}");
        }
        let help = place.mcpd(&[command[0], "--help"]).expect_code(0);
        assert!(!help.stdout.contains("--runtime-dir"), "{help}");
    }
    assert!(place.mcpd(&["add", "--help"]).expect_code(0).stdout.contains("--runtime-dir"));
}

#[test]
fn every_command_without_a_daemon_prints_the_same_text_and_what_to_type() {
    let place = Place::new();
    for command in [
        &["status"][..],
        &["tools"],
        &["call", "x"],
        &["top"],
        &["metrics"],
        &["dashboard"],
        &["calls"],
        &["logs"],
        &["tap"],
        &["diff"],
        &["approve", "x", "--all"],
        &["restart"],
        &["restart", "x"],
        &["restart", "--all"],
        &["enable", "x"],
        &["disable", "x"],
        &["reload"],
        &["reload", "--log-level"],
        &["stop"],
        &["connect"],
    ] {
        let ran = place.client(command).expect_code(3);
        let (first, rest) = ran.stderr.split_once('\n').unwrap_or_default();
        let socket =
            first.strip_prefix("mcpd: not running: no daemon at ").unwrap_or_else(|| panic!("{command:?}: {ran}"));
        assert!(socket.starts_with(&*place.runtime_dir().to_string_lossy()) && socket.ends_with(".sock"), "{ran}");
        let help = format!("  help: `mcpd start --runtime-dir {}` starts it\n", place.runtime_dir().display());
        assert_eq!((rest, &*ran.stdout), (&*help, ""), "{command:?}");
    }
    let ran = place.mcpd(&["tools"]).expect_code(3);
    assert!(ran.stderr.ends_with("\n  help: `mcpd start` starts it\n"), "{ran}");
}

#[test]
fn closed_stdout_causes_no_panic() {
    let daemon = daemon();
    let script = "\"$0\" tools --json --runtime-dir \"$1\" | true; \"$0\" status --runtime-dir \"$1\" 2>&1 >/dev/full";
    let mut command = daemon.place().command("sh");
    command.args(["-c", script, crate::support::MCPD]).arg(daemon.place().runtime_dir());
    let ran = crate::support::run(&mut command);
    assert!(!format!("{ran}").contains("panicked"), "{ran}");
}

/// Diagnostics are paged: the code is for scripts even then.
#[test]
fn exit_code_is_the_same_when_stderr_is_closed() {
    let place = Place::new();
    let bad = place.write("bad.toml", "[servers.a]\ncomand = 'x'\n").display().to_string();
    for (args, code) in [(&["check", &bad][..], 2), (&["status"], 3), (&["add", "a__b", "--", "x"], 2)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = place.command(crate::support::MCPD);
        let mut child = command.args(args).stderr(writer).spawn().expect("it is there");
        assert_eq!(crate::support::wait_exit(&mut child).code(), Some(code), "{args:?}");
    }
}
