//! Servers that stop reading or writing affect only their own calls.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Era, Server, Setup, arguments, code, expect_died, resident_kib, result, signal, until,
};

/// Case A12.
#[test]
fn server_that_closes_its_stdout_is_replaced() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let first = daemon.server_pid("a");
    expect_died(&agent.call("a__close_stdout", &json!({})));
    let answer = agent.call("a__echo", &json!({}));
    assert_ne!(result(&answer)["structuredContent"]["pid"], first);
    until("the old instance is gone", || {
        let old = daemon.place().processes(None).into_iter().find(|process| process.pid == first);
        old.is_none().then_some(())
    });
}

/// Has the server close its stdin. Gives its process id, and the id of the call that did it.
fn close_stdin(daemon: &Daemon, agent: &mut Agent) -> (u32, Value) {
    let first = daemon.server_pid("a");
    let closing = agent.start_call("a__close_stdin", &json!({}));
    daemon.wait_journal("a", "close_stdin");
    // Until then, what is written there has been sent as far as can be known. It is another program from then on: what reads for
    // the first one does so beyond the end of its descriptor.
    let cmdline = format!("/proc/{first}/cmdline");
    let lingers = || std::fs::read_to_string(&cmdline).is_ok_and(|args| args.contains("--stay-alive"));
    until("its stdin is closed", || lingers().then_some(()));
    (first, closing)
}

/// Case A12.
#[test]
fn server_that_closes_its_stdin_is_replaced_and_the_next_instance_answers_the_call() {
    let daemon = Setup::beside_good(Server::named("a").flags("--tool close_stdin")).start();
    let mut agent = Agent::ready(&daemon);
    let (first, closing) = close_stdin(&daemon, &mut agent);
    // As its agent has written it: under its own id, and with its own token.
    let params = json!({"name": "a__progress", "arguments": {"n": 1}, "_meta": {"progressToken": "mine"}});
    let call = agent.start_request("tools/call", &params);
    let progress = agent.expect_notification("notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
    assert!(agent.answer(&call)["error"].is_null());
    expect_died(&agent.answer(&closing));
    assert_ne!(result(&agent.call("a__echo", &json!({})))["structuredContent"]["pid"], first);
    arguments(&agent.call("good__echo", &json!({})));
}

/// Case A12.
#[test]
fn unsent_call_of_an_agent_of_the_other_era_is_answered_by_the_next_instance() {
    let daemon = Setup::beside_good(Server::named("a").flags("--tool close_stdin")).start();
    let mut agent = Era::Modern.agent(&daemon, &json!({}));
    let (first, closing) = close_stdin(&daemon, &mut agent);
    let answer = agent.call("a__echo", &json!({"n": 1}));
    assert_eq!(arguments(&answer), &json!({"n": 1}));
    assert_ne!(result(&answer)["structuredContent"]["pid"], first);
    expect_died(&agent.answer(&closing));
}

/// Case B8.
#[test]
fn rest_of_a_message_may_arrive_late_and_blocks_no_others() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let half = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#;
    let call = agent.start_call("a__raw", &json!({"text": half, "answer": false}));
    daemon.wait_journal("a", "content");
    for n in 0..20 {
        arguments(&other.call("good__echo", &json!({"n": n})));
    }
    arguments(&other.call("a__raw", &json!({"text": "]}}\n"})));
    assert_eq!(result(&agent.answer(&call)), &json!({"content": []}));
}

/// Case A14.
#[test]
fn server_that_stops_reading_blocks_no_others() {
    let daemon = Setup::beside_good(Server::named("a").line("call_timeout = \"1500ms\"")).start();
    let mut agent = Agent::ready(&daemon);
    let stuck = agent.start_call("a__stop_reading", &json!({}));
    let text = "x".repeat(100_000);
    let calls: Vec<_> = (0..200).map(|_| agent.start_call("a__echo", &json!({"text": text}))).collect();
    for _ in 0..20 {
        arguments(&agent.call("good__echo", &json!({})));
    }
    for id in calls.iter().chain([&stuck]) {
        let answer = agent.answer(id);
        // A call that was not sent may be answered by an instance that has replaced it meanwhile.
        let is_answered = answer["result"].is_object();
        assert!(is_answered || [-31002, -31003, -31001, -31004].contains(&code(&answer)), "{answer}");
    }
    let resident = resident_kib(daemon.pid());
    assert!(resident < 100 << 10, "{resident} KiB");
}

/// Cases A7 and B13.
#[test]
fn suspended_server_times_out_its_own_calls_only() {
    let daemon = Setup::beside_good(Server::named("a").line("tool_timeouts = { sleep = \"400ms\" }")).start();
    let mut agent = Agent::ready(&daemon);
    let pid = daemon.server_pid("a");
    signal(pid, Signal::STOP);
    let call = agent.start_call("a__sleep", &json!({"ignore_cancel": true}));
    arguments(&agent.call("good__echo", &json!({})));
    assert_eq!(code(&agent.answer(&call)), -31002);
    signal(pid, Signal::CONT);
    daemon.wait_row("a", "counts the late answer", |row| row["stray_responses"] == 1);
    arguments(&agent.call("a__echo", &json!({})));
}
