//! Kinds of files that `mcpd connect` can have as stdin and stdout.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::rc::Rc;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use super::start;
use crate::support::{Daemon, Place, Server, Setup, Shim, arguments, initialize, request, until, wait_exit};

const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn call(id: usize, arguments: &Value) -> String {
    let params = json!({"name": "a__echo", "arguments": arguments});
    request(id, "tools/call", &params).to_string()
}

fn is_nonblocking(descriptor: impl std::os::fd::AsFd) -> bool {
    rustix::fs::fcntl_getfl(descriptor).expect("its flags").contains(OFlags::NONBLOCK)
}

#[test]
fn files_do() {
    let place = Place::new();
    let daemon = start(&place);
    let input = place.write("in", [&*initialize("2025-11-25").to_string(), READY, &call(2, &json!({})), ""].join("\n"));
    let output = File::create(place.path("out")).expect("the test's own directory is writable");
    let mut command = Shim::command(&place);
    let mut child = command.stdin(File::open(input).expect("it is there")).stdout(output).spawn().expect("mcpd starts");
    assert!(wait_exit(&mut child).success());
    let output = fs::read_to_string(place.path("out")).expect("text");
    let ids: Vec<_> =
        output.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()).collect();
    assert_eq!(ids, [1, 2], "{output}");
    drop(daemon);
}

#[test]
fn terminal_works_as_stdin_and_keeps_its_settings() {
    let place = Place::new();
    let daemon = start(&place);
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("one's own terminal");
    let path = ptsname(&controller, Vec::new()).expect("its name").into_string().expect("text");
    let terminal = File::options().read(true).write(true).open(path).expect("one's own terminal");
    let [input, output] = [(); 2].map(|()| terminal.try_clone().expect("a descriptor"));
    let mut child = Shim::command(&place).stdin(input).stdout(output).spawn().expect("mcpd starts");
    let mut person = File::from(controller);
    // Two lines at once, of which a terminal gives one for each read.
    writeln!(person, "{}\n{READY}", initialize("2025-11-25")).expect("it is read");
    let mut lines = BufReader::new(person.try_clone().expect("a descriptor")).lines();
    let mut answer = |id: usize| {
        let is_it = |line: &String| line.contains(&format!("\"id\":{id}")) && !line.contains("\"method\"");
        lines.by_ref().map(|line| line.expect("text")).find(is_it).expect("an answer")
    };
    assert!(answer(1).contains("serverInfo"));
    writeln!(person, "{}\n{}", call(2, &json!({})), call(3, &json!({"pad": 100_000}))).expect("it is read");
    assert!(answer(2).contains("result"));
    assert!(answer(3).len() > 100_000, "more than a terminal takes at once");
    assert!(!is_nonblocking(&terminal));
    // Control-D.
    person.write_all(&[4]).expect("it is read");
    assert!(wait_exit(&mut child).success());
    drop(daemon);
}

#[test]
fn socket_and_a_pipe_that_others_have_too_stay_as_they_were() {
    let place = Place::new();
    let daemon = start(&place);
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let copies = (theirs.try_clone().expect("a descriptor"), writer.try_clone().expect("a descriptor"));
    let mut command = Shim::command(&place);
    let mut child = command.stdin(OwnedFd::from(theirs)).stdout(writer).spawn().expect("mcpd starts");
    drop(command);
    writeln!(&ours, "{}\n{READY}\n{}", initialize("2025-11-25"), call(2, &json!({"pad": 1 << 20})))
        .expect("it is read");
    let mut answers = BufReader::new(reader).lines();
    assert!(answers.next().is_some_and(|line| line.is_ok_and(|line| line.contains("serverInfo"))));
    assert!(answers.next().is_some_and(|line| line.is_ok_and(|line| line.len() > 1 << 20)));
    assert!(!is_nonblocking(&copies.0) && !is_nonblocking(&copies.1));
    ours.shutdown(std::net::Shutdown::Write).expect("it is connected");
    assert!(wait_exit(&mut child).success());
    drop(daemon);
}

#[test]
fn agent_that_does_not_read_can_still_write() {
    let place = Place::new();
    let daemon = start(&place);
    let mut child = Shim::command(&place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcpd starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    writeln!(stdin, "{}\n{READY}", initialize("2025-11-25")).expect("it is read");
    for id in 2..12 {
        writeln!(stdin, "{}", call(id, &json!({"pad": 200_000}))).expect("it is read");
    }
    writeln!(stdin, "{}", call(12, &json!({"last": true}))).expect("it is read");
    daemon.wait_journal("a", "\"last\":true");
    let mut ids: Vec<_> = BufReader::new(stdout)
        .lines()
        .take(12)
        .map(|line| {
            serde_json::from_str::<Value>(&line.expect("text")).expect("JSON")["id"].as_u64().expect("a number")
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
    drop(stdin);
    assert!(wait_exit(&mut child).success());
}

#[test]
fn closed_stdout_counts_as_disconnect() {
    let place = Place::new();
    let daemon = start(&place);
    let mut child = Shim::command(&place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcpd starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    writeln!(stdin, "{}\n{READY}", initialize("2025-11-25")).expect("it is read");
    daemon.wait_status("has the agent", |status| status["agents"][0]["client"] == "test-agent 7");
    drop(stdout);
    let _ = writeln!(stdin, "{}", call(2, &json!({})));
    assert!(wait_exit(&mut child).success());
    daemon.wait_status("has no agent", |status| status["agents"] == json!([]));
}

#[test]
fn message_over_the_retention_limit_passes_while_a_daemon_accepts_it() {
    let place = Place::new();
    let setup = Setup::with(Server::named("a"));
    let daemon = setup.head("[daemon]\nmax_message = \"64MiB\"").start_in(&place);
    let mut shim = Shim::ready(&place);
    let text = "x".repeat(20 << 20);
    assert_eq!(arguments(&shim.call("a__echo", &json!({ "text": text })))["text"], *text);
    let small = start_small(&place, daemon);
    let answer = shim.call("a__echo", &json!({ "text": text }));
    assert_eq!(answer["error"]["code"], -31006, "of the daemon");
    shim.expect_quiet();
    drop(small);
}

/// Another daemon, with the usual cap.
fn start_small(place: &Rc<Place>, mut daemon: Daemon) -> Daemon {
    daemon.kill9();
    drop(daemon);
    start(place)
}

#[test]
fn half_an_answer_reaches_no_agent() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shim = Shim::ready(&place);
    // It reads nothing, so that the answer is on its way when the daemon dies.
    let call = shim.start_call("a__echo", &json!({"pad": 8 << 20}));
    until("the server has answered", || daemon.row("a")["in_flight"].as_u64().filter(|calls| *calls == 0));
    daemon.kill9();
    let answer = shim.answer(&call);
    assert!(answer["error"]["code"] == -31005 || answer["result"].is_object(), "{answer:.200}");
    shim.shut_down_writing();
    shim.expect_end();
    assert!(shim.wait_exit().success());
}

#[test]
fn agent_that_closes_both_streams_has_its_calls_cancelled() {
    let place = Place::new();
    let daemon = start(&place);
    let mut child = Shim::command(&place).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcpd starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let params = json!({"name": "a__sleep", "arguments": {"ms": 60000}});
    let call = request(2, "tools/call", &params);
    writeln!(stdin, "{}\n{READY}\n{call}", initialize("2025-11-25")).expect("it is read");
    daemon.wait_row("a", "has the call", |row| row["in_flight"] == 1);
    drop((stdin, stdout));
    assert!(wait_exit(&mut child).success());
    daemon.wait_journal("a", "notifications/cancelled");
}
