//! `requestState` is valid once, on its profile, for its call.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, inputs, request, result, state};

const SAMPLE: &str = "sampling/createMessage";

fn start() -> Daemon {
    Setup::with(Server::named("s")).head("[profiles.other]").start()
}

fn asking() -> Value {
    json!({"method": SAMPLE, "params": {}})
}

fn make_capable(agent: Agent) -> Agent {
    let mut agent = agent;
    agent.speak_modern(&json!({"sampling": {}, "elicitation": {}}));
    agent
}

/// An agent, and the answer that asks it for something.
fn require_input(daemon: &Daemon) -> (Agent, Value) {
    let mut agent = make_capable(Agent::connect(daemon));
    let required = agent.call("s__send_request", &asking());
    assert_eq!(inputs(&required).len(), 1);
    (agent, required)
}

fn responses(required: &Value) -> Value {
    inputs(required).keys().map(|key| (key.clone(), json!({"model": "m"}))).collect()
}

fn come_back(agent: &mut Agent, tool: &str, required: &Value) -> Value {
    agent.retry_call(tool, &asking(), required, &responses(required))
}

fn with_state(required: &Value, state: &str) -> Value {
    let mut required = required.clone();
    required["result"]["requestState"] = json!(state);
    required
}

/// Case J12.
#[test]
fn state_is_valid_only_on_its_profile() {
    let daemon = start();
    let (mut agent, required) = require_input(&daemon);
    let mut other = make_capable(Agent::connect_to(&daemon.profile_socket("other")));
    assert_eq!(code(&come_back(&mut other, "s__send_request", &required)), -32602);
    let answer = come_back(&mut agent, "s__send_request", &required);
    assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}));
}

/// Case J12.
#[test]
fn altered_state_is_refused() {
    let daemon = start();
    let (mut agent, required) = require_input(&daemon);
    let good = state(&required).to_owned();
    let flipped = |at: usize| -> String {
        let swap = |(place, letter): (usize, char)| match letter {
            'A' if place == at => 'B',
            _ if place == at => 'A',
            _ => letter,
        };
        good.chars().enumerate().map(swap).collect()
    };
    let count = good.chars().count();
    let mut wrong: Vec<String> =
        (0..count).step_by(count.div_ceil(16)).map(flipped).filter(|state| *state != good).collect();
    wrong.extend([String::new(), good[..good.len() / 2].to_owned(), format!("{good}A"), "x".repeat(100_000)]);
    for state in &wrong {
        let answer = come_back(&mut agent, "s__send_request", &with_state(&required, state));
        assert_eq!(code(&answer), -32602, "{state:.99}: {answer:.999}");
    }
    let answer = come_back(&mut agent, "s__send_request", &required);
    assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}), "the good one is still good");
    assert_eq!(daemon.count_journal("s", "tools/call"), 1);
}

/// Case J12.
#[test]
fn state_is_valid_only_for_its_call() {
    let daemon = start();
    let (mut agent, required) = require_input(&daemon);
    assert_eq!(code(&come_back(&mut agent, "s__echo", &required)), -32602);
    let other = agent.retry_call("s__send_request", &json!({"method": "x"}), &required, &responses(&required));
    assert_eq!(code(&other), -32602, "other arguments are another call");
    result(&come_back(&mut agent, "s__send_request", &required));
}

/// Case J12.
#[test]
fn malformed_input_responses_are_refused_before_the_server_is_called() {
    let daemon = start();
    let mut agent = make_capable(Agent::connect(&daemon));
    for responses in [json!(null), json!([]), json!({"1": 12345})] {
        let params = json!({"name": "s__echo", "arguments": {}, "inputResponses": responses});
        let refused = agent.request("tools/call", &params);
        assert_eq!(code(&refused), -32602, "{responses}: {refused}");
    }
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tools/call")));
}

#[test]
fn malformed_input_responses_with_a_state_are_refused_and_the_state_stays_valid() {
    let daemon = start();
    let (mut agent, required) = require_input(&daemon);
    for responses in [json!(null), json!([]), json!({"1": 12345})] {
        let refused = agent.retry_call("s__send_request", &asking(), &required, &responses);
        assert_eq!(code(&refused), -32602, "{responses}: {refused}");
    }
    let answer = come_back(&mut agent, "s__send_request", &required);
    assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}));
    assert_eq!(daemon.count_journal("s", "tools/call"), 1);
}

/// Case J12.
#[test]
fn state_is_valid_once() {
    let daemon = start();
    let (mut agent, required) = require_input(&daemon);
    result(&come_back(&mut agent, "s__send_request", &required));
    let twice = come_back(&mut agent, "s__send_request", &required);
    assert_eq!(code(&twice), -32602, "{twice}");
    let calls = daemon.count_journal("s", "tools/call");
    assert_eq!(calls, 1, "nothing was done again");
}

/// A call that was answered with a question, and that its server has answered meanwhile.
fn answer_without_input(daemon: &Daemon) -> (Agent, Value, Value) {
    let mut agent = make_capable(Agent::connect(daemon));
    let arguments = json!({"method": SAMPLE, "params": {}, "hang": true});
    let required = agent.call("s__send_request", &arguments);
    let call: Value = serde_json::from_str(&daemon.wait_journal("s", "send_request")).expect("JSON");
    let answer =
        json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": [], "structuredContent": {"late": 1}}});
    result(&agent.call("s__raw", &json!({"text": format!("{answer}\n")})));
    (agent, arguments, required)
}

/// Case J12.
#[test]
fn response_that_arrives_before_the_retry_is_cached_for_it() {
    let daemon = start();
    let (mut agent, arguments, required) = answer_without_input(&daemon);
    let answer = agent.retry_call("s__send_request", &arguments, &required, &responses(&required));
    assert_eq!(result(&answer)["structuredContent"], json!({"late": 1}), "{answer}");
    let twice = agent.retry_call("s__send_request", &arguments, &required, &responses(&required));
    assert_eq!(twice["error"]["data"]["outcome"], "unknown", "{twice}");
    let calls = daemon.count_journal("s", "send_request");
    assert_eq!(calls, 1, "nothing was done again");
}

/// Case J12.
///
/// The server has answered the call, so it asks nothing more for it.
#[test]
fn answered_suspended_call_does_not_block_requests_to_other_agents() {
    let daemon = start();
    let (agent, ..) = answer_without_input(&daemon);
    drop(agent);
    let refused: Value = serde_json::from_str(&daemon.wait_journal("s", "has ended")).expect("JSON");
    assert_eq!(refused["error"]["code"], -31001, "what it had asked for that call is refused: {refused}");
    let (mut other, required) = require_input(&daemon);
    let answer = come_back(&mut other, "s__send_request", &required);
    assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}));
}

/// Case J12.
#[test]
fn state_of_an_earlier_daemon_is_refused() {
    let daemon = start();
    let (agent, required) = require_input(&daemon);
    drop(agent);
    let place = std::rc::Rc::clone(daemon.place());
    drop(daemon);
    let daemon = Setup::with(Server::named("s")).start_in(&place);
    let mut agent = make_capable(Agent::connect(&daemon));
    assert_eq!(code(&come_back(&mut agent, "s__send_request", &required)), -32602);
}

/// Case J12.
#[test]
fn two_suspended_calls_have_separate_states() {
    let daemon = Setup::with(Server::named("s").line("sharing = \"pool\"")).server(Server::named("t")).start();
    let mut one = make_capable(Agent::connect(&daemon));
    let mut other = make_capable(Agent::connect(&daemon));
    let first = one.call("s__send_request", &asking());
    let second = other.call("t__send_request", &asking());
    assert_ne!(state(&first), state(&second));
    assert_eq!(code(&come_back(&mut one, "s__send_request", &second)), -32602);
    for (agent, tool, required) in [(&mut other, "t__send_request", &second), (&mut one, "s__send_request", &first)] {
        assert_eq!(result(&come_back(agent, tool, required))["structuredContent"]["result"], json!({"model": "m"}));
    }
}

/// Case J11.
#[test]
fn state_expires_with_the_call_and_the_server_is_notified() {
    let daemon = Server::named("s").line("call_timeout = \"5s\"").start();
    let (mut agent, required) = require_input(&daemon);
    daemon.wait_journal("s", "notifications/cancelled");
    let response: Value = serde_json::from_str(&daemon.wait_journal("s", "\"ask-")).expect("JSON");
    assert!(response["error"]["code"].is_number(), "{response}");
    assert_eq!(code(&come_back(&mut agent, "s__send_request", &required)), -32602);
    agent.expect_quiet();
    assert_eq!(daemon.count_journal("s", "tools/call"), 1);
}

/// Case J11.
#[test]
fn server_that_answers_without_waiting_for_input_leaves_nothing_pending() {
    let daemon = start();
    let mut agent = make_capable(Agent::connect(&daemon));
    let question = request("q", SAMPLE, &json!({}));
    let arguments = json!({"text": format!("{question}\n")});
    let mut answer = agent.call("s__raw", &arguments);
    // Which of both the agent gets first is a matter of time.
    if result(&answer)["resultType"] == "input_required" {
        let responses = responses(&answer);
        answer = agent.retry_call("s__raw", &arguments, &answer, &responses);
    }
    assert!(answer["error"]["code"] == -32602 || answer["result"]["resultType"] == "complete", "{answer}");
    agent.expect_quiet();
    daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
}
