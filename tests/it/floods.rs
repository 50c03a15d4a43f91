//! Floods from one peer use bounded memory and do not stop service for others.

use serde_json::json;

use crate::support::{Agent, Daemon, Server, Setup, arguments, code, request, resident_kib, result};

/// Fails if the daemon holds more than so many MiB.
#[track_caller]
fn expect_at_most(daemon: &Daemon, mib: u64) {
    let resident = resident_kib(daemon.pid());
    assert!(resident < mib << 10, "{resident} KiB");
}

/// Case B2.
#[test]
fn endless_line_is_not_buffered_and_ends_its_call() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let begin = "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"x\":\"";
    let begun = agent.start_call("a__raw", &json!({"text": begin, "answer": false}));
    let flood = agent.start_call("a__raw", &json!({"text": "x".repeat(1 << 20), "times": 256, "answer": false}));
    let last = agent.start_call("a__raw", &json!({"text": "\"}}\n"}));
    for n in 0..20 {
        arguments(&other.call("good__echo", &json!({"n": n})));
        expect_at_most(&daemon, 100);
    }
    assert_eq!(code(&agent.answer(&begun)), -31006);
    arguments(&agent.answer(&last));
    expect_at_most(&daemon, 100);
    assert_eq!(daemon.row("a")["restarts"], 0);
    agent.cancel(&flood);
    agent.expect_quiet();
}

/// Case B2.
#[test]
fn flood_without_a_line_end_that_ends_with_its_server_fails_the_call_and_no_other() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("a__raw", &json!({"text": "x".repeat(1 << 20), "times": 64, "answer": false}));
    let last = agent.call("a__die", &json!({}));
    assert_eq!((code(&agent.answer(&call)), code(&last)), (-31001, -31001));
    arguments(&agent.call("good__echo", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case B3.
#[test]
fn response_just_below_the_limit_arrives_whole_and_blocks_no_others() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let size = (10 << 20) - (80 << 10);
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let large = agent.start_call("a__big", &json!({ "bytes": size }));
    for n in 0..20 {
        arguments(&other.call("good__echo", &json!({"n": n})));
    }
    let answer = agent.answer(&large);
    let text = result(&answer)["structuredContent"]["value"].as_str().expect("text");
    assert!(text.len() == size && text.bytes().all(|byte| byte == b'x'));
}

/// Case B15.
#[test]
fn notification_flood_reaches_no_agent_and_blocks_no_others() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    // With calls of both, nobody can know whose the messages are.
    let open = other.start_call("a__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("a", "60000");
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}"#;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    let lines = format!("{log}\n{progress}\n").repeat(100);
    let flood = agent.start_call("a__raw", &json!({"text": lines, "times": 1000}));
    let mut served = 0;
    while daemon.row("a")["in_flight"] != 1 {
        arguments(&other.call("good__echo", &json!({"n": served})));
        served += 1;
    }
    arguments(&agent.answer(&flood));
    expect_at_most(&daemon, 64);
    other.cancel(&open);
    agent.expect_quiet();
    other.expect_quiet();
}

/// Case C7.
#[test]
fn slow_large_message_of_an_agent_blocks_no_others_and_arrives_whole() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut slow, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let text = "x".repeat(9 << 20);
    let call = json!({"name": "a__echo", "arguments": {"text": text}});
    let line = request("slow", "tools/call", &call).to_string() + "\n";
    for (n, part) in line.as_bytes().chunks(64 << 10).enumerate() {
        slow.send_raw(part);
        if n % 8 == 0 {
            arguments(&other.call("a__echo", &json!({"n": n})));
        }
    }
    assert!(arguments(&slow.answer(&json!("slow")))["text"] == text);
    drop((slow, other));
    daemon.wait_status("counts no agent", |status| status["agents"] == json!([]));
}

/// Case F3.
#[test]
fn agent_that_calls_without_pause_does_not_starve_others() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut greedy, mut modest) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let mut calls = Vec::new();
    for n in 0..20 {
        // More than a server may have unanswered, whoever asks.
        calls.extend((0..500).map(|_| greedy.start_call("a__echo", &json!({}))));
        arguments(&modest.call("good__echo", &json!({"n": n})));
        arguments(&modest.call("a__echo", &json!({"n": n})));
    }
    for id in calls {
        let answer = greedy.answer(&id);
        assert!(answer["result"].is_object() || code(&answer) == -31003, "{answer}");
    }
    expect_at_most(&daemon, 64);
}

#[test]
fn agent_that_toggles_its_subscriptions_waits_for_the_servers_that_process_them() {
    let daemon = Setup::beside_good(Server::named("a").flags("--init-never").line("sharing = \"session\"")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let set = |level: &str| {
        let params = json!({ "level": level });
        format!("{}\n", request("x", "logging/setLevel", &params))
    };
    agent.send_raw((set("info") + &set("error")).repeat(100_000));
    (0..200_000).for_each(|_| drop(result(&agent.next()).clone()));
    // Answers that it has not read have 16 MiB of that; without a limit it was 250.
    expect_at_most(&daemon, 96);
    arguments(&other.call("good__echo", &json!({})));
}
