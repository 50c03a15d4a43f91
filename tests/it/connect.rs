//! `mcpd connect` relays the daemon's socket on stdin and stdout.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, MCPD, Place, Server, arguments, call_text, signal, until, wait_exit};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"shim","version":"1"}}}"#;

/// A running `mcpd connect`.
struct Shim {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Shim {
    fn start(daemon: &Daemon) -> Self {
        let mut command = daemon.place().command(MCPD);
        command.arg("connect").arg("--runtime-dir").arg(daemon.place().runtime_dir());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcpd starts");
        let stdout = BufReader::new(child.stdout.take().expect("a piped stream"));
        Self { stdin: child.stdin.take(), child, stdout }
    }

    fn ready(daemon: &Daemon) -> Self {
        let mut shim = Self::start(daemon);
        assert!(shim.ask(HELLO).contains("\"id\":\"hello\""));
        shim
    }

    fn send_line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("not closed yet"), "{line}").expect("it reads");
    }

    fn ask(&mut self, line: &str) -> String {
        self.send_line(line);
        self.next_line()
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        line
    }
}

#[test]
fn connect_passes_bytes_unchanged_in_both_directions() {
    let daemon = Server::named("a").start();
    let mut shim = Shim::ready(&daemon);
    let awkward = r#"{"zeta":1.10,  "alpha":12345678901234567890123,"s":"\u00e9é\/"}"#;
    let call = call_text("7", "a__echo", awkward);
    let answer = shim.ask(&call);
    assert!(answer.contains(awkward), "{answer}");
    assert_eq!(daemon.status()["agents"][0]["client"], "shim 1");
    drop(shim.stdin.take());
    assert!(wait_exit(&mut shim.child).success());
}

#[test]
fn answers_still_come_after_its_stdin_has_ended() {
    let daemon = Server::named("a").start();
    let mut shim = Shim::ready(&daemon);
    shim.send_line(&call_text("7", "a__sleep", r#"{"ms":300}"#));
    drop(shim.stdin.take());
    assert!(shim.next_line().contains("\"id\":7"));
    assert_eq!(shim.next_line(), "");
    assert!(wait_exit(&mut shim.child).success());
}

#[test]
fn large_messages_pass_in_both_directions() {
    let daemon = Server::named("a").start();
    let mut shim = Shim::ready(&daemon);
    let text = "x".repeat(2 << 20);
    let call = call_text("7", "a__echo", &format!(r#"{{"t":"{text}"}}"#));
    assert!(shim.ask(&call).contains(&text));
    drop(shim.stdin.take());
    wait_exit(&mut shim.child);
}

#[test]
fn client_that_is_ended_by_a_signal_leaves_the_daemon_in_order() {
    let daemon = Server::named("a").start();
    for how in [Signal::TERM, Signal::KILL] {
        let mut shim = Shim::ready(&daemon);
        shim.send_line(&call_text("7", "a__sleep", r#"{"ms":60000}"#));
        daemon.wait_row("a", "has the call in flight", |row| row["in_flight"] == 1);
        signal(shim.child.id(), how);
        wait_exit(&mut shim.child);
        daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    }
    daemon.wait_status("counts no agent", |status| status["agents"] == json!([]));
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    daemon.wait_journal_count("a", "notifications/cancelled", 2);
}

#[test]
fn connect_reports_that_no_daemon_runs_in_a_given_runtime_directory() {
    let place = Place::new();
    let ran = place.client(&["connect"]).expect_code(3);
    assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{ran}");
}

/// Ctrl-C in a script's terminal reaches the whole process group.
#[test]
fn interrupt_is_ignored_until_the_agent_has_closed_its_output() {
    let daemon = Server::named("a").start();
    let mut shim = Shim::ready(&daemon);
    for n in 0..3 {
        signal(shim.child.id(), Signal::INT);
        let answer = shim.ask(&format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"ping"}}"#));
        assert!(answer.contains("\"result\""), "{answer}");
    }
    shim.send_line(&call_text("9", "a__sleep", r#"{"ms":600000}"#));
    daemon.wait_journal("a", "600000");
    drop(shim.stdin.take());
    let status = until("it is interrupted", || {
        signal(shim.child.id(), Signal::INT);
        shim.child.try_wait().expect("a status")
    });
    assert_eq!(status.code(), None, "the signal has ended it");
}
