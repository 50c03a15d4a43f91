//! `mcpd demo` serves without configuration and leaves no files or processes.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{MCPD, Place, initialize, notification, request, run};

#[test]
fn demo_shows_the_main_job_and_leaves_nothing() {
    let place = Place::new();
    let ran = place.mcpd(&["demo"]).expect_code(0);
    for shown in ["demo__", "Unknown tool", "mcp.sock", "ready"] {
        assert!(ran.stdout.contains(shown), "no {shown:?}: {ran}");
    }
    assert!(place.processes(None).is_empty(), "{:#?}", place.processes(None));
    for dir in ["home", "xdg-run", "xdg-config", "tmp"] {
        let left: Vec<_> = fs::read_dir(place.path(dir)).expect("the test's own").flatten().collect();
        assert!(left.is_empty(), "{dir}: {left:?}");
    }
}

/// The words of a text, without numbers and paths, which differ in each run.
fn stable_words(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit() || c == '/')).collect()
}

#[test]
fn readme_shows_what_the_demo_prints() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("text");
    let shown = readme.split("```text\n").find(|block| block.starts_with("── a daemon")).expect("a block");
    let shown = shown.split("```").next().expect("the beginning");
    let ran = Place::new().mcpd(&["demo"]).expect_code(0);
    assert_eq!(stable_words(&ran.stdout), stable_words(shown));
}

/// In a container the leader of a process's session is often outside, and its number is then 0.
#[test]
fn demo_works_where_the_session_leader_cannot_be_seen() {
    let place = Place::new();
    let namespace = ["--user", "--map-current-user", "--pid", "--fork", "--mount-proc"];
    let probe = place.command("unshare").args(namespace).arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: no new namespaces can be made here");
        return;
    }
    let ran = run(place.command("unshare").args(namespace).args([MCPD, "demo"])).expect_code(0);
    assert!(ran.stdout.contains("processes left: none"), "{ran}");
    assert!(!ran.stderr.contains("panicked"), "{ran}");
}

#[test]
fn demo_does_not_touch_a_daemon_that_runs() {
    let daemon = crate::support::Setup::new().start();
    daemon.place().mcpd(&["demo"]).expect_code(0);
    assert_eq!(daemon.status()["pid"], daemon.pid());
}

#[test]
fn demo_server_works_without_the_daemon() {
    let place = Place::new();
    let mut command = place.command(MCPD);
    let mut child =
        command.arg("demo-server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcpd starts");
    let mut stdin = child.stdin.take().expect("a piped stream");
    for message in [
        initialize("2025-06-18"),
        notification("notifications/initialized", &Value::Null),
        request(2, "tools/list", &Value::Null),
    ] {
        writeln!(stdin, "{message}").expect("it reads");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends with its stdin");
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["result"]["protocolVersion"], "2025-06-18");
    assert!(!lines[1]["result"]["tools"].as_array().expect("tools").is_empty());
}
