//! A call that is reported as not sent never reaches its server.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, arguments, code, field, signal, until};

/// Stops the server in the middle of whatever it does, and waits until it has stopped.
fn stop(daemon: &Daemon) -> u32 {
    let pid = daemon.server_pid("a");
    signal(pid, Signal::STOP);
    until("the server is stopped", || field(pid, "State").starts_with('T').then_some(()));
    pid
}

/// Lets the server read again, and waits until it has read all there is.
fn resume(pid: u32, agent: &mut Agent) {
    signal(pid, Signal::CONT);
    arguments(&agent.call("a__echo", &json!({"n": "last"})));
}

/// More than a pipe holds, in lines of which several fit.
fn start_calls(agent: &mut Agent) -> Vec<Value> {
    let text = "x".repeat(100_000);
    (0..8).map(|n| agent.start_call("a__sleep", &json!({"n": n, "text": text}))).collect()
}

/// The requests in the server's journal, each with the number its arguments carry.
fn received_calls(daemon: &Daemon) -> Vec<(Value, Value)> {
    let calls = daemon.journal("a").into_iter().filter(|line| line.contains("tools/call"));
    let calls = calls.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
    calls.map(|call| (call["params"]["arguments"]["n"].clone(), call["id"].clone())).collect()
}

#[test]
fn call_that_timed_out_before_it_was_written_never_reaches_its_server() {
    let daemon = Server::named("a").line("tool_timeouts = { sleep = \"2s\" }").start();
    let mut agent = Agent::ready(&daemon);
    let pid = stop(&daemon);
    let calls = start_calls(&mut agent);
    let outcomes: Vec<_> = calls.iter().map(|id| agent.answer(id)).collect();
    resume(pid, &mut agent);
    let received_calls = received_calls(&daemon);
    for (n, answer) in outcomes.iter().enumerate() {
        assert_eq!(code(answer), -31002, "{answer}");
        let reached = received_calls.iter().any(|(number, _)| *number == n);
        let expected = if reached { "unknown" } else { "not_sent" };
        assert_eq!(answer["error"]["data"]["outcome"], expected, "call {n}");
    }
    let not_sent = outcomes.iter().filter(|answer| answer["error"]["data"]["outcome"] == "not_sent").count();
    assert!(0 < not_sent && not_sent < calls.len(), "{not_sent} of {} were not sent", calls.len());
    expect_cancelled(&daemon, &received_calls);
    agent.expect_quiet();
}

/// Fails unless the server was told that all calls but the last one it read are off, and of no other.
fn expect_cancelled(daemon: &Daemon, received_calls: &[(Value, Value)]) {
    let cancelled_ids = daemon.journal("a").into_iter().filter(|line| line.contains("notifications/cancelled"));
    let cancelled_ids =
        cancelled_ids.map(|line| serde_json::from_str::<Value>(&line).expect("JSON")["params"]["requestId"].clone());
    let off = received_calls.iter().filter(|(number, _)| *number != "last").map(|(_, id)| id.clone());
    let sorted = |ids: Vec<Value>| {
        let mut ids: Vec<_> = ids.iter().map(|id| id.as_u64().expect("a small integer")).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(cancelled_ids.collect()), sorted(off.collect()));
}

#[test]
fn call_that_was_cancelled_before_it_was_written_never_reaches_its_server() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let pid = stop(&daemon);
    let calls = start_calls(&mut agent);
    agent.expect_quiet();
    for id in &calls {
        agent.cancel(id);
    }
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    resume(pid, &mut agent);
    let received_calls = received_calls(&daemon);
    assert!(received_calls.len() < calls.len(), "the server heard of {} calls", received_calls.len() - 1);
    expect_cancelled(&daemon, &received_calls);
    agent.expect_quiet();
}
