//! Every call ends exactly once: with its response, with an error that has an outcome, or by its cancellation.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Server, Setup, arguments, code, signal};

#[test]
fn slow_call_does_not_delay_others() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let slow = agent.start_call("a__sleep", &gate.arguments());
    for n in 0..20 {
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    agent.expect_quiet();
    gate.open();
    arguments(&agent.answer(&slow));
}

#[test]
fn progress_comes_in_order_with_the_token_the_agent_chose() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for token in [json!("é\"1"), json!(1), json!(9_007_199_254_740_993_i64)] {
        let params = json!({"name": "a__progress", "arguments": {"n": 3}, "_meta": {"progressToken": token}});
        let id = agent.start_request("tools/call", &params);
        for step in 1..=3 {
            let expected = json!({"progressToken": token, "progress": step, "total": 3});
            let message = agent.next();
            assert_eq!((&message["method"], &message["params"]), (&json!("notifications/progress"), &expected));
        }
        arguments(&agent.answer(&id));
    }
}

/// Case B15.
#[test]
fn agents_with_equal_progress_tokens_receive_progress_of_their_own_call_only() {
    let daemon = Server::named("a").start();
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    let calls: Vec<_> = agents
        .iter_mut()
        .zip([2, 4])
        .map(|(agent, n)| {
            let arguments = json!({"n": n, "every": 20});
            agent.start_request(
                "tools/call",
                &json!({"name": "a__progress", "arguments": arguments, "_meta": {"progressToken": 1}}),
            )
        })
        .collect();
    for ((agent, n), call) in agents.iter_mut().zip([2, 4]).zip(calls) {
        for _ in 0..n {
            let progress = agent.expect_notification("notifications/progress");
            assert_eq!((&progress["params"]["total"], &progress["params"]["progressToken"]), (&json!(n), &json!(1)));
        }
        arguments(&agent.answer(&call));
        agent.expect_quiet();
    }
}

#[test]
fn cancelled_call_is_cancelled_at_the_server_and_never_answered() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let id = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    let call: Value = serde_json::from_str(&daemon.wait_journal("a", "60000")).expect("JSON");
    agent.notify("notifications/cancelled", &json!({"requestId": id, "reason": "why"}));
    let cancel: Value = serde_json::from_str(&daemon.wait_journal("a", "notifications/cancelled")).expect("JSON");
    assert_eq!((&cancel["params"]["requestId"], &cancel["params"]["reason"]), (&call["id"], &json!("why")));
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    agent.expect_quiet();
}

/// Case B13.
#[test]
fn response_after_cancellation_is_dropped_and_counted() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let id = agent.start_call("a__sleep", &gate.stubborn_arguments());
    daemon.wait_at_gate("a", &gate);
    agent.cancel(&id);
    daemon.wait_journal("a", "notifications/cancelled");
    gate.open();
    daemon.wait_row("a", "counts the late answer", |row| row["stray_responses"] == 1);
    agent.expect_quiet();
}

#[test]
fn call_that_takes_too_long_times_out_and_is_cancelled_at_the_server() {
    let limits = "call_timeout = \"300ms\"\ntool_timeouts = { echo = \"10m\" }";
    let daemon = Server::named("a").line(limits).start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__sleep", &json!({"ms": 600_000}));
    assert_eq!((code(&answer), &answer["error"]["data"]), (-31002, &json!({"server": "a", "outcome": "unknown"})));
    daemon.wait_journal("a", "notifications/cancelled");
    arguments(&agent.call("a__echo", &json!({})));
}

#[test]
fn progress_keeps_a_long_call_alive() {
    // A pause in the progress is 20 times shorter than the limit, which ends before the last progress.
    let daemon = Server::named("a").line("call_timeout = \"8s\"").start();
    let mut agent = Agent::ready(&daemon);
    let params = json!({"name": "a__progress", "arguments": {"n": 25, "every": 400}, "_meta": {"progressToken": "t"}});
    let id = agent.start_request("tools/call", &params);
    for _ in 0..25 {
        agent.expect_notification("notifications/progress");
    }
    arguments(&agent.answer(&id));
}

/// Case C9.
#[test]
fn answer_and_a_cancellation_that_cross_end_their_call_once() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let calls: Vec<_> = (0..200).map(|n| agent.start_call("a__sleep", &json!({"ms": n % 7}))).collect();
    for id in calls.iter().skip(1).step_by(2) {
        agent.cancel(id);
    }
    let cancelled = agent.start_request("ping", &json!({}));
    let last = agent.start_call("a__sleep", &json!({"ms": 50}));
    let mut ended = Vec::new();
    while !ended.contains(&last) {
        ended.push(agent.next()["id"].clone());
    }
    // Once the ping behind them is answered, the cancellations have been taken.
    let crossed = ended.iter().position(|id| *id == cancelled).expect("the ping is answered");
    for (n, id) in calls.iter().enumerate() {
        let ends: Vec<_> = (0..ended.len()).filter(|at| ended[*at] == *id).collect();
        let is_right = match n % 2 {
            0 => ends.len() == 1,
            _ => ends.len() <= 1 && ends.iter().all(|at| *at < crossed),
        };
        assert!(is_right, "call {n} ended at {ends:?}, cancelled at {crossed}");
    }
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    agent.expect_quiet();
}

/// Unanswered requests of one connection: 256 that a server has, and 1,024 that wait.
const MAX_UNANSWERED: usize = 256 + 1024;

/// Case F2.
#[test]
fn burst_of_calls_is_queued_and_calls_over_the_bound_are_refused_at_once() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let pid = daemon.server_pid("a");
    signal(pid, Signal::STOP);
    let ids: Vec<_> = (0..MAX_UNANSWERED + 20).map(|n| agent.start_call("a__echo", &json!({ "n": n }))).collect();
    for id in &ids[MAX_UNANSWERED..] {
        let answer = agent.answer(id);
        assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31003, &json!("not_sent")));
    }
    assert_eq!(daemon.wait_row("a", "has its limit", |row| row["in_flight"] == 256)["calls"], MAX_UNANSWERED);
    arguments(&other.call("b__echo", &json!({})));
    let small = other.start_call("a__echo", &json!({}));
    signal(pid, Signal::CONT);
    arguments(&other.answer(&small));
    for (n, id) in ids[..MAX_UNANSWERED].iter().enumerate() {
        assert_eq!(arguments(&agent.answer(id)), &json!({ "n": n }));
    }
}

/// Case F3.
#[test]
fn one_agent_cannot_fill_every_server_at_once() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let pids = ["a", "b"].map(|name| daemon.server_pid(name));
    pids.into_iter().for_each(|pid| signal(pid, Signal::STOP));
    let call = |n: usize| ["a__echo", "b__echo"][n % 2];
    let ids: Vec<_> = (0..MAX_UNANSWERED + 20).map(|n| agent.start_call(call(n), &json!({}))).collect();
    for id in &ids[MAX_UNANSWERED..] {
        assert_eq!(code(&agent.answer(id)), -31003);
    }
    let small = other.start_call("a__echo", &json!({}));
    pids.into_iter().for_each(|pid| signal(pid, Signal::CONT));
    arguments(&other.answer(&small));
    for id in &ids[..MAX_UNANSWERED] {
        arguments(&agent.answer(id));
    }
}

#[test]
fn oversized_message_is_refused_and_the_connection_stays_open() {
    let daemon = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__echo", &json!({"text": "x".repeat(100_000)}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("not_sent")));
    arguments(&agent.call("a__echo", &json!({"text": "x".repeat(50_000)})));
    assert!(!daemon.journal("a").iter().any(|line| line.len() > 60_000));
}
