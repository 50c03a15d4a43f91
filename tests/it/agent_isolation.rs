//! One agent's requests, cancellations and stalls do not affect other agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Server, Setup, arguments, call_text, notification, request, resident_kib, result, signal, until,
};

/// Case C3.
#[test]
fn agents_with_the_same_ids_each_get_their_own_answers() {
    let daemon = Server::named("a").start();
    let mut agents: Vec<_> = (0..10).map(|_| Agent::ready(&daemon)).collect();
    let calls: Vec<Vec<_>> = agents
        .iter_mut()
        .enumerate()
        .map(|(number, agent)| {
            // Odd calls are slower, so that answers overtake each other.
            let call = |n: u32| json!({"agent": number, "n": n, "ms": n % 2 * 30});
            (0..20).map(|n| (agent.start_call("a__sleep", &call(n)), call(n))).collect()
        })
        .collect();
    for (agent, calls) in agents.iter_mut().zip(&calls) {
        for (id, sent) in calls {
            assert_eq!(arguments(&agent.answer(id)), sent);
        }
    }
    let pids = daemon.row("a");
    assert_eq!((&pids["calls"], &pids["restarts"]), (&json!(200), &json!(0)), "one copy serves them all");
}

/// Case C10.
#[test]
fn agent_that_has_finished_writing_still_receives_its_responses() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let ids: Vec<_> = (0..5).map(|n| agent.start_call("a__sleep", &json!({"ms": n * 100}))).collect();
    agent.shut_down_writing();
    for id in &ids {
        arguments(&agent.answer(id));
    }
    agent.expect_end();
}

/// Case C10.
///
/// Signals may interrupt each system call of the daemon.
#[test]
fn agent_that_has_finished_writing_gets_its_answers_while_the_daemon_is_sent_signals() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let id = agent.start_call("a__sleep", &gate.arguments());
    agent.shut_down_writing();
    (0..1_000_000).for_each(|_| signal(daemon.pid(), Signal::HUP));
    gate.open();
    arguments(&agent.answer(&id));
    agent.expect_end();
}

/// Case C1.
#[test]
fn calls_of_an_agent_that_goes_away_are_cancelled_at_the_server() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    (0..20).for_each(|n| drop(agent.start_call("a__sleep", &json!({"ms": 600_000, "n": n}))));
    let ids = |part: &str, id: fn(&Value) -> &Value| -> Vec<Value> {
        let lines = daemon.journal("a").into_iter().filter(|line| line.contains(part));
        lines.map(|line| id(&serde_json::from_str(&line).expect("JSON")).clone()).collect()
    };
    let calls = until("the server has them all", || {
        let ids = ids("60000", |call| &call["id"]);
        (ids.len() == 20).then_some(ids)
    });
    agent.disconnect();
    let mut cancelled = until("they are all cancelled", || {
        let ids = ids("notifications/cancelled", |line| &line["params"]["requestId"]);
        (ids.len() == 20).then_some(ids)
    });
    cancelled.sort_by_key(Value::as_u64);
    assert_eq!(cancelled, calls);
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
}

/// Case C8.
#[test]
fn no_agent_can_cancel_the_call_of_another() {
    let daemon = Server::named("a").start();
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let gate = daemon.gate();
    let id = one.start_call("a__sleep", &gate.arguments());
    other.cancel(&id);
    let call: Value = serde_json::from_str(&daemon.wait_at_gate("a", &gate)).expect("JSON");
    other.cancel(&call["id"]);
    other.expect_quiet();
    gate.open();
    arguments(&one.answer(&id));
    assert!(!daemon.journal("a").iter().any(|line| line.contains("cancelled")));
}

/// Case C2.
#[test]
fn agent_that_reads_nothing_does_not_affect_others() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut deaf = Agent::ready(&daemon);
    let mut agent = Agent::ready(&daemon);
    for _ in 0..100 {
        deaf.start_call("a__big", &json!({"bytes": 1 << 20}));
    }
    for n in 0..20 {
        assert_eq!(arguments(&agent.call("b__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    arguments(&agent.call("a__echo", &json!({})));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 64 << 10, "{resident} KiB for an agent that reads nothing");
    deaf.disconnect();
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
}

/// Case C7.
#[test]
fn agent_that_stops_in_the_middle_of_a_line_does_not_affect_others() {
    let daemon = Server::named("a").start();
    let mut half = Agent::ready(&daemon);
    half.send_raw(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo","#);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    half.send_raw("\"arguments\":{\"late\":true}}}\n");
    assert_eq!(arguments(&half.answer(&json!(1))), &json!({"late": true}));
}

/// Case C7.
#[test]
fn agent_with_an_unfinished_line_is_disconnected_but_a_slow_or_silent_agent_is_not() {
    let daemon = Setup::with(Server::named("a")).line_timeout(5_000).start();
    let [mut pace, mut silent, mut slow, mut half, mut endless] = [(); 5].map(|()| Agent::ready(&daemon));
    let call = call_text("1", "a__echo", "{}");
    half.send_raw(&call[..40]);
    endless.send_raw("x".repeat(17 << 20));
    let pieces: Vec<_> = call.as_bytes().chunks(8).map(|piece| str::from_utf8(piece).expect("ASCII")).collect();
    for piece in &pieces {
        slow.send_raw(piece);
        arguments(&pace.call("a__sleep", &json!({"ms": 600})));
    }
    slow.send_raw("\n");
    arguments(&slow.answer(&json!(1)));
    half.expect_end();
    endless.expect_end();
    arguments(&silent.call("a__echo", &json!({})));
}

/// Case C7.
#[test]
fn single_bytes_of_two_agents_are_taken_slowly_and_their_calls_arrive_whole() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("good")).start();
    let mut other = Agent::ready(&daemon);
    let begin = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__echo","arguments":{"text":""#;
    let is_over = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let senders = [(); 2].map(|()| {
        let (mut agent, is_over) = (Agent::ready(&daemon), Arc::clone(&is_over));
        agent.send_raw(begin);
        thread::spawn(move || {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) && agent.try_send_raw(b"x") {
                sent += 1;
            }
            (agent, sent)
        })
    });
    for _ in 0..10 {
        arguments(&other.call("good__sleep", &json!({"ms": 200})));
    }
    is_over.store(true, Ordering::Relaxed);
    for sender in senders {
        let (mut agent, sent) = sender.join().expect("it does not panic");
        // A socket buffer has room for some 300 single bytes, and is emptied once in 32 ms. A slow machine sends fewer.
        let (most, elapsed) = (8_192 + start.elapsed().as_millis() * 32, start.elapsed());
        assert!(sent as u128 <= most, "{sent} bytes in {elapsed:?}");
        agent.send_raw("\"}}}\n");
        let answer = agent.answer(&json!(1));
        let text = arguments(&answer)["text"].as_str().expect("text");
        assert!(text.len() == sent && text.bytes().all(|byte| byte == b'x'), "{} of {sent}", text.len());
    }
}

/// Case C9.
#[test]
fn large_call_is_overtaken_neither_by_its_cancellation_nor_by_a_small_call() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let call = |id, tool, arguments| request(id, "tools/call", &json!({"name": tool, "arguments": arguments}));
    let ones = vec![1; 500_000];
    let messages = [
        call("cancelled", "a__sleep", json!({"ms": 600_000, "ones": ones})),
        notification("notifications/cancelled", &json!({"requestId": "cancelled"})),
        call("large", "a__echo", json!({"size": "large", "ones": ones})),
        call("small", "a__echo", json!({"size": "small"})),
    ];
    agent.send_raw(messages.map(|message| format!("{message}\n")).concat());
    assert_eq!(arguments(&agent.answer(&json!("small"))), &json!({"size": "small"}));
    assert_eq!(arguments(&agent.answer(&json!("large")))["size"], "large");
    let journal = daemon.journal("a");
    let place = |text: &str| journal.iter().position(|line| line.contains(text));
    assert!(place("large").expect("it was called") < place("small").expect("it was called"));
    // A cancellation that comes before its call does nothing, and the call would run.
    agent.expect_quiet();
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    assert!(place("600000") <= place("notifications/cancelled"), "a call that was sent is cancelled behind it");
}

/// Case C10.
#[test]
fn agents_that_come_and_go_leave_nothing_in_the_daemon() {
    let daemon = Server::named("a").start();
    let descriptors = || daemon.open_files().len();
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    let before = descriptors();
    for round in 0..2000 {
        let mut agent = Agent::connect(&daemon);
        match round % 4 {
            0 => {}
            1 => drop(agent.start_request("ping", &json!({}))),
            2 => drop(result(&agent.initialize("2025-11-25")).clone()),
            _ => agent.send_raw("{\"half"),
        }
        agent.disconnect();
    }
    until("the descriptors are those of the start", || (descriptors() <= before).then_some(()));
    let status = daemon.wait_status("counts no agent", |status| status["agents"] == json!([]));
    assert_eq!(status["servers"][0]["in_flight"], 0);
}

#[test]
fn fifty_agents_are_served_at_once() {
    let daemon = Server::named("a").start();
    let mut agents: Vec<_> = (0..50).map(|_| Agent::ready(&daemon)).collect();
    let ids: Vec<_> = agents.iter_mut().map(|agent| agent.start_call("a__sleep", &json!({"ms": 200}))).collect();
    for (agent, id) in agents.iter_mut().zip(&ids) {
        arguments(&agent.answer(id));
    }
}

/// Case B15.
#[test]
fn progress_flood_for_an_agent_that_does_not_read_affects_no_others() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let (mut deaf, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let token = "t".repeat(1000);
    let params = json!({"name": "a__progress", "arguments": {"n": 50_000}, "_meta": {"progressToken": token}});
    deaf.start_request("tools/call", &params);
    for n in 0..20 {
        arguments(&agent.call("b__echo", &json!({"n": n})));
    }
    arguments(&agent.call("a__echo", &json!({})));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 64 << 10, "{resident} KiB for an agent that reads nothing");
    deaf.disconnect();
}

/// Case C2.
#[test]
fn agent_that_sends_requests_and_never_reads_is_eventually_not_read_from() {
    let daemon = Server::named("a").start();
    let (mut deaf, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    // The answer repeats the method, so it is as long as the question.
    let question = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(100_000));
    let taken = deaf.send_until_blocked(&question, 200 << 20);
    assert!(taken < 64 << 20, "{taken} bytes were taken");
    arguments(&agent.call("a__echo", &json!({})));
    let resident = resident_kib(daemon.pid());
    assert!(resident < 64 << 10, "{resident} KiB for an agent that reads nothing");
    deaf.disconnect();
}
