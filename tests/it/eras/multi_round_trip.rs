//! Requests of a legacy server during a modern agent's call: the call returns `input_required` and resumes with the retry.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Server, arguments, code, content, inputs, request, result, state};

const SAMPLE: &str = "sampling/createMessage";
const ELICIT: &str = "elicitation/create";

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}}))
}

fn question(method: &str, params: &Value) -> Value {
    json!({"method": method, "params": params})
}

/// The one input that is asked for, with its key.
#[track_caller]
fn only(answer: &Value) -> (String, Value) {
    let inputs = inputs(answer);
    assert_eq!(inputs.len(), 1, "{answer}");
    inputs.iter().next().map(|(key, request)| (key.clone(), request.clone())).expect("one")
}

/// Comes back with this for the one input that was asked for.
fn come_back(agent: &mut Agent, arguments: &Value, required: &Value, response: &Value) -> Value {
    agent.retry_call("s__send_request", arguments, required, &json!({only(required).0: response}))
}

#[test]
fn call_returns_input_required_and_resumes_with_the_retry() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    for (method, params, response) in [
        (SAMPLE, json!({"maxTokens": 7, "messages": []}), json!({"model": "m", "role": "assistant", "content": {}})),
        (ELICIT, json!({"mode": "form", "message": "who?"}), json!({"action": "accept", "content": {"name": "x"}})),
        (ELICIT, json!({"message": "who?"}), json!({"action": "decline"})),
        (
            ELICIT,
            json!({"mode": "url", "url": "https://x", "elicitationId": "e", "message": "m"}),
            json!({"action": "accept"}),
        ),
    ] {
        let arguments = question(method, &params);
        let required = agent.call("s__send_request", &arguments);
        assert_eq!(only(&required).1, json!({"method": method, "params": params}));
        assert!(!state(&required).is_empty());
        let answer = come_back(&mut agent, &arguments, &required, &response);
        assert_eq!(result(&answer)["resultType"], "complete");
        assert_eq!(content(&answer)["result"], response, "as the server got it");
    }
    let calls = daemon.count_journal("s", "tools/call");
    assert_eq!(calls, 4, "the server hears of each call once");
    daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
    agent.expect_quiet();
}

#[test]
fn server_may_send_several_requests_during_one_call() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let mut arguments = question(SAMPLE, &json!({"n": 1.5}));
    arguments["times"] = json!(3);
    let (mut answer, mut answered) = (agent.call("s__send_request", &arguments), 0);
    // It asks at once; whether an answer asks for one or for several is a matter of time.
    while result(&answer)["resultType"] == "input_required" {
        let keys: Vec<_> = inputs(&answer).keys().cloned().collect();
        assert!(inputs(&answer).values().all(|input| *input == json!({"method": SAMPLE, "params": {"n": 1.5}})));
        answered += keys.len();
        let responses: Value = keys.into_iter().map(|key| (key, json!({"model": "m"}))).collect();
        answer = agent.retry_call("s__send_request", &arguments, &answer, &responses);
    }
    assert_eq!((answered, &content(&answer)["result"]), (3, &json!({"model": "m"})));
    agent.expect_quiet();
}

#[test]
fn retry_may_arrive_on_another_connection() {
    let daemon = Server::named("s").start();
    let mut one = capable_agent(&daemon);
    let arguments = question(ELICIT, &json!({"message": "who?"}));
    let required = one.call("s__send_request", &arguments);
    drop(one);
    let mut other = capable_agent(&daemon);
    let answer = come_back(&mut other, &arguments, &required, &json!({"action": "cancel"}));
    assert_eq!(content(&answer)["result"], json!({"action": "cancel"}));
}

/// Case J10.
#[test]
fn undeclared_capability_is_refused_to_the_server_at_once() {
    let daemon = Server::named("s").start();
    let url = json!({"mode": "url", "elicitationId": "e", "url": "https://x"});
    for (capabilities, can) in [
        (json!({}), [false, false, false]),
        (json!({"sampling": {}}), [true, false, false]),
        (json!({"elicitation": {}}), [false, true, false]),
        (json!({"elicitation": {"url": {}}}), [false, false, true]),
    ] {
        let mut agent = Agent::modern(&daemon, &capabilities);
        for ((method, params), can) in [(SAMPLE, json!({})), (ELICIT, json!({})), (ELICIT, url.clone())].iter().zip(can)
        {
            let arguments = question(method, params);
            let answer = agent.call("s__send_request", &arguments);
            if can {
                let answer = come_back(&mut agent, &arguments, &answer, &json!({"x": 1}));
                assert_eq!(content(&answer)["result"], json!({"x": 1}));
            } else {
                let refused = &content(&answer)["error"];
                assert!(refused["code"].is_number(), "{capabilities} {method} {params}: {answer}");
            }
        }
        agent.expect_quiet();
    }
}

/// Case J10.
#[test]
fn tool_that_fails_without_an_undeclared_capability_ends_with_the_required_one() {
    let daemon = Server::named("s").start();
    for (declared, method, params, required) in [
        (json!({}), SAMPLE, json!({}), json!({"sampling": {}})),
        (json!({"sampling": {}}), ELICIT, json!({}), json!({"elicitation": {}})),
        (
            json!({"elicitation": {"form": {}}}),
            ELICIT,
            json!({"mode": "url", "elicitationId": "e", "url": "https://x"}),
            json!({"elicitation": {"url": {}}}),
        ),
    ] {
        let mut agent = Agent::modern(&daemon, &declared);
        let mut arguments = question(method, &params);
        arguments["fail"] = json!(true);
        let error = &agent.call("s__send_request", &arguments)["error"];
        assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &required), "{error}");
        // Nothing is left of it.
        let fine = agent.call("s__send_request", &question(method, &params));
        assert!(content(&fine)["error"]["code"].is_number(), "{fine}");
    }
}

/// Case J10.
#[test]
fn session_instance_may_request_what_the_current_request_declares() {
    let daemon = Server::named("s").line("sharing = \"session\"").start();
    let mut agent = Agent::modern(&daemon, &json!({}));
    assert!(agent.tools().contains(&"s__send_request".to_owned()), "its instance runs");
    let asking = question(SAMPLE, &json!({}));
    agent.speak_modern(&json!({"sampling": {}}));
    let required = agent.call("s__send_request", &asking);
    let answer = come_back(&mut agent, &asking, &required, &json!({"model": "m"}));
    assert_eq!(content(&answer)["result"], json!({"model": "m"}));
    let declared = |line: &String| line.contains("\"sampling\"") && line.contains("\"roots\"");
    let opened: Vec<_> = daemon.journal("s").into_iter().filter(|line| line.contains("\"initialize\"")).collect();
    assert!(opened.iter().any(declared), "{opened:?}");
    agent.speak_modern(&json!({}));
    assert!(content(&agent.call("s__send_request", &asking))["error"]["code"].is_number());
}

/// Case J10.
#[test]
fn request_of_uncertain_owner_is_refused_at_once() {
    let daemon = Server::named("s").start();
    for neighbour in Era::BOTH {
        let (mut one, mut other) = (capable_agent(&daemon), neighbour.agent(&daemon, &json!({"sampling": {}})));
        let busy = other.start_call("s__sleep", &json!({"ms": 600_000, "mark": format!("{neighbour:?}")}));
        daemon.wait_journal("s", &format!("\"mark\":\"{neighbour:?}\""));
        let answer = one.call("s__send_request", &question(SAMPLE, &json!({})));
        assert_eq!(content(&answer)["error"]["code"], -31004, "{answer}");
        other.cancel(&busy);
        daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
        one.expect_quiet();
    }
}

/// Case J10.
///
/// The question comes with the answer to the later call.
#[test]
fn agent_with_another_call_of_its_own_receives_the_request() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let busy = agent.start_call("s__sleep", &json!({"ms": 600_000, "mark": 1}));
    daemon.wait_journal("s", "\"mark\":1");
    let asking = question(SAMPLE, &json!({}));
    let required = agent.call("s__send_request", &asking);
    let answer = come_back(&mut agent, &asking, &required, &json!({"model": "m"}));
    assert_eq!(content(&answer)["result"], json!({"model": "m"}));
    agent.cancel(&busy);
    agent.expect_quiet();
}

/// Case J10.
///
/// The server goes on with calls that were cancelled, so each counts as its work for a minute.
#[test]
fn agent_that_has_cancelled_another_call_receives_the_request() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    for answers in [true, false] {
        let gate = daemon.gate();
        let busy = agent.start_call("s__sleep", &gate.stubborn_arguments());
        daemon.wait_at_gate("s", &gate);
        agent.cancel(&busy);
        if answers {
            daemon.wait_journal("s", "notifications/cancelled");
            gate.open();
            daemon.wait_row("s", "has answered after all", |row| row["stray_responses"] == 1);
        }
    }
    let asking = question(SAMPLE, &json!({}));
    let required = agent.call("s__send_request", &asking);
    let answer = come_back(&mut agent, &asking, &required, &json!({"model": "m"}));
    assert_eq!(content(&answer)["result"], json!({"model": "m"}));
    agent.expect_quiet();
}

#[test]
fn concurrent_requests_of_one_call_are_bundled() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let required = |id: &str| request(id, SAMPLE, &json!({"for": id}));
    let arguments = json!({"text": format!("{}\n{}\n", required("q-1"), required("q-2")), "answer": false});
    let answer = agent.call("s__raw", &arguments);
    let inputs: Vec<_> = inputs(&answer).iter().map(|(key, input)| (key.clone(), input["params"].clone())).collect();
    assert_eq!(inputs.len(), 2, "{answer}");
    let responses: Value = inputs.into_iter().map(|(key, params)| (key, json!({ "model": params["for"] }))).collect();
    let params = json!({"name": "s__raw", "arguments": arguments});
    let id = agent.start_retry("tools/call", &params, &answer, &responses);
    for id in ["q-1", "q-2"] {
        let line: Value =
            serde_json::from_str(&daemon.wait_journal("s", &format!("\"model\":\"{id}\""))).expect("JSON");
        assert_eq!(line["id"], id, "{line}");
    }
    agent.cancel(&id);
    agent.expect_quiet();
}

#[test]
fn other_agents_may_call_the_server_while_a_call_is_suspended() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let asking = question(SAMPLE, &json!({}));
    let required = agent.call("s__send_request", &asking);
    for era in Era::BOTH {
        let mut other = era.agent(&daemon, &json!({}));
        assert_eq!(arguments(&other.call("s__echo", &json!({"n": 1}))), &json!({"n": 1}));
    }
    let answer = come_back(&mut agent, &asking, &required, &json!({"model": "m"}));
    assert_eq!(content(&answer)["result"], json!({"model": "m"}));
}

/// Case J11.
#[test]
fn agent_that_disconnects_before_its_request_leaves_nothing_pending() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    agent.start_call("s__sleep", &json!({"ms": 600_000, "mark": 1}));
    daemon.wait_journal("s", "\"mark\":1");
    agent.disconnect();
    daemon.wait_journal("s", "notifications/cancelled");
    daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
}

/// Case J11.
#[test]
fn death_of_a_server_with_a_pending_request_ends_the_call() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let asking = question(SAMPLE, &json!({}));
    let required = agent.call("s__send_request", &asking);
    assert_eq!(code(&agent.call("s__die", &json!({"how": "kill"}))), -31001);
    daemon.wait_row("s", "is up again", |row| row["state"] == "ready");
    let late = come_back(&mut agent, &asking, &required, &json!({"model": "m"}));
    assert!([-31001, -31004, -32602].contains(&code(&late)), "{late}");
    agent.expect_quiet();
}

/// Case J11.
#[test]
fn retry_without_input_responses_is_answered_and_does_not_hang() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let asking = question(SAMPLE, &json!({}));
    let required = agent.call("s__send_request", &asking);
    let again = agent.retry_call("s__send_request", &asking, &required, &json!({"no such": {}}));
    let again = if again["error"].is_null() { again } else { required };
    let answer = come_back(&mut agent, &asking, &again, &json!({"model": "m"}));
    assert_eq!(content(&answer)["result"], json!({"model": "m"}));
}
