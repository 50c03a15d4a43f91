//! Every end of a server request: the server and the agent are always notified.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, Server, Setup, arguments, code, content, initialize_params, request, result, until, wait_exit,
};

const SAMPLE: &str = "sampling/createMessage";

fn start(change: impl FnOnce(Server) -> Server) -> Daemon {
    Setup::with(change(Server::named("s"))).server(Server::named("idle")).start()
}

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::with_capabilities(daemon, &json!({"sampling": {}}))
}

/// Has the server ask its client; the call, and what the agent is asked.
fn requested_call(agent: &mut Agent) -> (Value, Value) {
    let call = agent.start_call("s__send_request", &json!({ "method": SAMPLE }));
    (call, agent.expect_request(SAMPLE))
}

fn expect_cancelled(agent: &mut Agent, question: &Value) {
    let cancelled = agent.expect_notification("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
}

/// The error code that the server got for its question.
fn refusal(daemon: &Daemon) -> i64 {
    let line = daemon.wait_journal("s", "\"id\":\"ask-");
    code(&serde_json::from_str(&line).expect("JSON"))
}

#[track_caller]
fn strays(daemon: &Daemon) -> Value {
    daemon.status()["agents"][0]["stray_responses"].clone()
}

#[test]
fn agent_is_notified_when_a_server_cancels_its_request() {
    let daemon = start(|server| server);
    let mut agent = capable_agent(&daemon);
    let (call, question) = requested_call(&mut agent);
    let params = r#""params":{"x":1.10,"requestId":ID,"reason":"changed my mind"}}"#;
    let withdrawal = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled",{params}"#);
    let text = withdrawal.replace("ID", "\"ask-2\"") + "\n";
    let saying_so = agent.start_call("s__raw", &json!({ "text": text }));
    assert_eq!(agent.next_line().expect("a line").trim_end(), withdrawal.replace("ID", &question["id"].to_string()));
    arguments(&agent.answer(&saying_so));
    agent.respond(&question, &json!({"too": "late"}));
    agent.cancel(&call);
    agent.expect_quiet();
    daemon.wait_journal("s", "notifications/cancelled");
    assert_eq!(strays(&daemon), 1);
    assert!(!daemon.journal("s").iter().any(|line| line.contains("late") || line.contains("\"id\":\"ask-2\"")));
}

#[test]
fn request_cancelled_before_its_agent_is_ready_takes_no_slot() {
    let daemon = start(|server| server);
    let mut agent = Agent::connect(&daemon);
    result(&agent.request("initialize", &initialize_params("2025-11-25", &json!({"sampling": {}}))));
    let question = |id: &str| format!("{}\n", request(id, SAMPLE, &json!({})));
    let withdrawal = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"early"}}"#;
    let text = question("early") + withdrawal + "\n";
    arguments(&agent.call("s__raw", &json!({ "text": text, "times": 100 })));
    arguments(&agent.call("s__raw", &json!({ "text": question("late") })));
    agent.notify("notifications/initialized", &Value::Null);
    let requested_call = agent.expect_request(SAMPLE);
    agent.respond(&requested_call, &json!({"n": 1}));
    let response_line = daemon.wait_journal("s", "\"id\":\"late\"");
    assert_eq!(result(&serde_json::from_str(&response_line).expect("JSON")), &json!({"n": 1}));
    agent.expect_quiet();
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"id\":\"early\"")));
}

/// Case C14.
#[test]
fn unexpected_response_of_an_agent_is_counted_and_reaches_no_server() {
    let daemon = start(|server| server);
    let [mut one, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let (call, question) = requested_call(&mut other);
    for id in [question["id"].clone(), json!("1"), json!(99)] {
        one.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"not": "yours"}}));
    }
    one.expect_quiet();
    assert_eq!(strays(&daemon), 3);
    other.respond(&question, &json!({"n": 1}));
    assert_eq!(content(&other.answer(&call))["result"], json!({"n": 1}));
    other.respond(&question, &json!({"n": 2}));
    other.expect_quiet();
    assert!(!daemon.journal("s").iter().any(|line| line.contains("yours") || line.contains("\"n\":2")));
}

#[test]
fn cancelling_a_call_cancels_the_server_requests_of_that_call() {
    for sharing in ["shared", "session"] {
        let daemon = start(|server| server.line(format!("sharing = \"{sharing}\"")));
        let mut agent = capable_agent(&daemon);
        let (call, question) = requested_call(&mut agent);
        agent.cancel(&call);
        expect_cancelled(&mut agent, &question);
        daemon.wait_journal("s", "notifications/cancelled");
        assert_eq!(refusal(&daemon), -31001);
        agent.expect_quiet();
    }
}

/// Case C14.
#[test]
fn unanswered_server_request_times_out_for_server_and_agent() {
    let daemon = start(|server| server.line("call_timeout = \"5s\""));
    let mut agent = capable_agent(&daemon);
    let (call, question) = requested_call(&mut agent);
    assert_eq!(code(&agent.answer(&call)), -31002);
    expect_cancelled(&mut agent, &question);
    daemon.wait_journal("s", "notifications/cancelled");
    assert_eq!(refusal(&daemon), -31002);
}

#[test]
fn progress_of_an_agent_extends_the_call_of_the_request() {
    let daemon = start(|server| server.line("call_timeout = \"10s\""));
    let mut agent = capable_agent(&daemon);
    let params = json!({"_meta": {"progressToken": 7}});
    let call = agent.start_call("s__send_request", &json!({"method": SAMPLE, "params": params}));
    let question = agent.expect_request(SAMPLE);
    let progress_text = |n: i64| format!("\"progress\":{n}");
    for n in 1..=2 {
        // Waits for most of the time that the call has.
        arguments(&agent.call("idle__sleep", &json!({"ms": 6000})));
        let params = json!({"progressToken": question["params"]["_meta"]["progressToken"], "progress": n});
        agent.notify("notifications/progress", &params);
        daemon.wait_journal("s", &progress_text(n));
    }
    agent.respond(&question, &json!({}));
    content(&agent.answer(&call));
}

/// Case C14.
#[test]
fn disconnect_of_an_agent_refuses_its_pending_requests() {
    let daemon = start(|server| server);
    let mut agent = capable_agent(&daemon);
    requested_call(&mut agent);
    agent.disconnect();
    assert_eq!(refusal(&daemon), -31001);
}

/// Case C14.
#[test]
fn agent_that_has_finished_writing_ends_requests_and_still_receives_its_response() {
    let daemon = start(|server| server);
    let mut agent = capable_agent(&daemon);
    let (call, _) = requested_call(&mut agent);
    agent.shut_down_writing();
    assert_eq!(content(&agent.answer(&call))["error"]["code"], -31001);
    agent.expect_end();
}

#[test]
fn death_of_a_server_cancels_its_request_at_the_agent() {
    for sharing in ["shared", "session"] {
        let daemon = start(|server| server.line(format!("sharing = \"{sharing}\"")));
        let mut agent = capable_agent(&daemon);
        let (call, question) = requested_call(&mut agent);
        let death = agent.start_call("s__die", &json!({"how": "kill"}));
        [call, death].iter().for_each(|id| assert_eq!(code(&agent.answer(id)), -31001));
        expect_cancelled(&mut agent, &question);
        agent.respond(&question, &json!({}));
        agent.expect_quiet();
    }
}

#[test]
fn stop_of_a_server_cancels_its_request_at_the_agent() {
    let daemon = start(|server| server.flags("--leave-delay 3000"));
    let mut agent = capable_agent(&daemon);
    let (call, question) = requested_call(&mut agent);
    let place = daemon.place();
    let mut disable = place.command(MCPD);
    disable.args(["disable", "--stop", "s", "--runtime-dir"]).arg(place.runtime_dir());
    let mut disabling = disable.stdout(Stdio::null()).spawn().expect("spawn");
    assert_eq!(code(&agent.answer(&call)), -31005);
    expect_cancelled(&mut agent, &question);
    assert!(daemon.journal("s").iter().all(|line| line != "# left"), "before the server has gone");
    assert!(wait_exit(&mut disabling).success());
}

/// Case C14.
#[test]
fn malformed_or_oversized_response_of_an_agent_is_an_error_for_the_server() {
    let daemon = Setup::with(Server::named("s")).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = capable_agent(&daemon);
    let (call, question) = requested_call(&mut agent);
    agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": 1, "error": {}}));
    assert_eq!(content(&agent.answer(&call))["error"]["code"], -32603);
    let (call, question) = requested_call(&mut agent);
    agent.respond(&question, &json!("x".repeat(100_000)));
    assert_eq!(content(&agent.answer(&call))["error"]["code"], -31006);
    agent.expect_quiet();
}

/// Case B21.
#[test]
fn server_with_too_many_requests_is_refused_without_affecting_others() {
    let daemon = start(|server| server.line("call_timeout = \"15s\""));
    let [mut agent, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let call = agent.start_call("s__send_request", &json!({"method": SAMPLE, "times": 1000}));
    let questions: Vec<_> = (0..64).map(|_| agent.expect_request(SAMPLE)).collect();
    let refused = || daemon.count_journal("s", "-31003");
    until("the others are refused", || (refused() == 936).then_some(()));
    arguments(&other.call("idle__echo", &json!({})));
    agent.respond(&questions[0], &json!({}));
    assert_eq!(code(&agent.answer(&call)), -31002);
    let mut cancelled: Vec<_> = (1..64).map(|_| agent.expect_notification("notifications/cancelled")).collect();
    cancelled.sort_by_key(|cancelled| cancelled["params"]["requestId"].as_u64());
    for (cancelled, question) in cancelled.iter().zip(&questions[1..]) {
        assert_eq!(cancelled["params"]["requestId"], question["id"]);
    }
    agent.expect_quiet();
    arguments(&agent.call("s__echo", &json!({})));
}

/// Case B15.
#[test]
fn request_to_an_agent_that_does_not_read_is_refused() {
    let daemon = Setup::with(Server::named("s")).head("[daemon]\nmax_message = \"256KiB\"").start();
    let mut agent = capable_agent(&daemon);
    let call = |id: usize, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        format!("{}\n", request(id, "tools/call", &params))
    };
    // More than the socket holds, and less than an agent is cut off for; all at once, for then it is not read from.
    let large: String = (10..14).map(|id| call(id, "s__big", json!({"bytes": 200_000}))).collect();
    agent.send_raw(large + &call(14, "s__send_request", json!({ "method": SAMPLE })));
    let refused = refusal(&daemon);
    (10..14).for_each(|id| drop(result(&agent.answer(&json!(id))).clone()));
    assert_eq!((refused, content(&agent.answer(&json!(14)))["error"]["code"].clone()), (-31003, json!(-31003)));
    agent.expect_quiet();
}
