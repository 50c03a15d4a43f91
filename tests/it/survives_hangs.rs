//! A server that lives but does not listen or speak costs its own calls and nothing else.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Server, Setup, arguments, code, resident_kib, result, signal, until};

/// A setup with a server that works beside those of the test.
fn beside(server: Server) -> Setup {
    Setup::with(server).server(Server::named("good"))
}

fn died(answer: &Value) -> bool {
    code(answer) == -31001 && answer["error"]["data"] == json!({"server": "a", "outcome": "unknown"})
}

#[test]
fn a_server_that_closes_its_stdout_is_replaced() {
    let daemon = beside(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let first = daemon.server_pid("a");
    assert!(died(&agent.call("a__close_stdout", &json!({}))));
    let answer = agent.call("a__echo", &json!({}));
    assert_ne!(result(&answer)["structuredContent"]["pid"], first);
    until("the old instance is gone", || {
        let old = daemon.place().processes(None).into_iter().find(|process| process.pid == first);
        old.is_none().then_some(())
    });
}

#[test]
fn a_server_that_stops_reading_holds_up_nobody() {
    let daemon = beside(Server::named("a").line("call_timeout = \"1500ms\"")).start();
    let mut agent = Agent::ready(&daemon);
    let stuck = agent.start_call("a__stop_reading", &json!({}));
    let text = "x".repeat(100_000);
    let calls: Vec<_> = (0..200).map(|_| agent.start_call("a__echo", &json!({"text": text}))).collect();
    for _ in 0..20 {
        arguments(&agent.call("good__echo", &json!({})));
    }
    for id in calls.iter().chain([&stuck]) {
        let answer = agent.answer(id);
        assert!([-31002, -31003, -31001, -31004].contains(&code(&answer)), "{answer}");
    }
    let resident = resident_kib(daemon.pid());
    assert!(resident < 100 << 10, "{resident} KiB");
}

#[test]
fn a_server_that_is_stopped_costs_its_own_calls_a_timeout_and_the_others_nothing() {
    let daemon = beside(Server::named("a").line("call_timeout = \"400ms\"")).start();
    let mut agent = Agent::ready(&daemon);
    let pid = daemon.server_pid("a");
    signal(pid, Signal::STOP);
    let call = agent.start_call("a__echo", &json!({}));
    arguments(&agent.call("good__echo", &json!({})));
    assert_eq!(code(&agent.answer(&call)), -31002);
    signal(pid, Signal::CONT);
    daemon.wait_row("a", "counts the late answer", |row| row["stray_responses"] == 1);
    arguments(&agent.call("a__echo", &json!({})));
}
