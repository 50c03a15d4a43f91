//! The call log and the daemon's log under floods and without readers: no call is delayed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, Place, Server, Setup, arguments, code, quoted, resident_kib, until, wait_exit,
};

/// `mcpd calls -f --json`, when the daemon knows of it; its output waits until it is read.
fn follow(daemon: &Daemon) -> Child {
    let mut command = daemon.place().command(MCPD);
    command.args(["calls", "-f", "--json", "-n", "1", "--runtime-dir"]).arg(daemon.place().runtime_dir());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The last call before it follows; asking byte by byte takes nothing else away.
    let (mut first, mut byte) = (Vec::new(), [0]);
    let stdout = child.stdout.as_mut().expect("a pipe");
    while byte != *b"\n" {
        stdout.read_exact(&mut byte).expect("a line");
        first.push(byte[0]);
    }
    assert!(String::from_utf8_lossy(&first).contains("before"), "{first:?}");
    child
}

/// Each line, as it comes.
fn lines_of(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let lines = BufReader::new(pipe.expect("a pipe")).lines();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line + "\n")));
    receiver
}

/// Calls `count` tools that do not exist, many at once, and has each answered.
fn call_in_vain(agent: &mut Agent, count: usize) {
    for _ in 0..count / 200 {
        let ids: Vec<_> = (0..200).map(|_| agent.start_call("no_such_tool", &json!({}))).collect();
        for id in ids {
            assert_eq!(code(&agent.answer(&id)), -32602);
        }
    }
}

/// How many calls a follower says it missed.
fn missed(stderr: &str) -> usize {
    let counts = stderr.lines().filter_map(|line| line.strip_prefix("mcpd: ")?.split_once(" calls are not shown"));
    counts.map(|(count, _)| count.parse::<usize>().expect("a number")).sum()
}

fn status_answers(daemon: &Daemon) {
    daemon.status();
}

#[test]
fn two_thousand_calls_at_once_are_all_answered_and_all_accounted_for() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let place = Place::new();
    let file = place.path("calls.jsonl");
    let setup = names.iter().fold(Setup::new(), |setup, name| setup.server(Server::named(name)));
    let daemon = setup.head(&format!("[daemon]\ncall_log = {}", quoted(&file))).start_in(&place);
    Agent::ready(&daemon).call("before", &json!({}));
    let mut follower = follow(&daemon);
    let (received, stderr) = (lines_of(follower.stdout.take()), lines_of(follower.stderr.take()));
    let mut agents: Vec<_> = names.iter().map(|_| Agent::ready(&daemon)).collect();
    let ids_by_agent: Vec<Vec<_>> = (agents.iter_mut().enumerate())
        .map(|(n, agent)| {
            let tool = |call: usize| format!("{}__sleep", names[(n + call) % names.len()]);
            (0..250).map(|call| agent.start_call(&tool(call), &json!({"ms": 300, "call": call}))).collect()
        })
        .collect();
    for (agent, ids) in agents.iter_mut().zip(&ids_by_agent) {
        for (call, id) in ids.iter().enumerate() {
            assert_eq!(arguments(&agent.answer(id))["call"], call);
        }
        agent.expect_quiet();
    }
    let entries = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    let unwritten = || {
        let stderr = daemon.client(&["calls", "-n", "0"]).expect_code(0).stderr;
        stderr
            .split_once(" calls are not in the file")
            .map_or(0, |(count, _)| count.trim_start_matches("mcpd: ").parse::<usize>().expect("a number"))
    };
    until("each is in the file or counted", || (entries() + unwritten() == 2001).then_some(()));
    let remembered = daemon.client(&["calls", "--json", "-n", "5000"]).expect_code(0);
    assert_eq!(remembered.stdout.lines().count(), 1000, "as many as by default");
    let (mut count, mut losses) = (0, String::new());
    until("the follower has each, or has counted it", || {
        count += received.try_iter().count();
        losses.extend(stderr.try_iter());
        (count + missed(&losses) == 2000).then_some(())
    });
    drop(agents);
    drop(daemon);
    wait_exit(&mut follower);
}

#[test]
fn follower_that_stops_reading_affects_no_others_and_learns_what_it_missed() {
    let mut daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("before", &json!({}));
    let mut follower = follow(&daemon);
    call_in_vain(&mut agent, 2000);
    let before = resident_kib(daemon.pid());
    call_in_vain(&mut agent, 8000);
    let after = resident_kib(daemon.pid());
    assert!(after < before + 4096, "it grew from {before} to {after} KiB");
    status_answers(&daemon);
    // It reads again. What comes after the last of the flood tells how much of that it missed.
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    let mut received = 0;
    while received < 1000 {
        received += usize::from(next()["tool"] == "no_such_tool");
    }
    agent.call("after", &json!({}));
    while next()["tool"] == "no_such_tool" {
        received += 1;
    }
    drop(agent);
    daemon.stop_in_order(Signal::TERM);
    wait_exit(&mut follower);
    let mut stderr = String::new();
    follower.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert!(received < 10_000 && received + missed(&stderr) == 10_000, "{received} received: {stderr}");
}

#[test]
fn unread_log_does_not_block_the_daemon_and_reports_its_losses() {
    let place = Place::new();
    let pipe = place.path("stderr");
    let shell = format!("mkfifo '{0}'; exec 2<>'{0}'", pipe.display());
    let daemon = Setup::with(Server::named("a")).after_shell(&shell).option("--log=trace").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    call_in_vain(&mut agent, 10_000);
    assert_eq!(arguments(&agent.call("a__echo", &json!({"n": 1}))), &json!({"n": 1}));
    status_answers(&daemon);
    let lines = BufReader::new(File::open(pipe).expect("it is there")).lines();
    let mut log = lines.map(|line| line.expect("text"));
    let lost = log.find(|line| line.contains("lost lines")).expect("the loss is logged");
    assert!(lost.contains("WARN") && lost.contains("lines="), "{lost}");
}
