//! Servers that support both eras, like those of the Python SDK: no agent loses features.

mod fallback;
mod several_instances;
mod shared_by_command;
mod shared_by_url;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, code, inputs, notification, result};

const SAMPLE: &str = "sampling/createMessage";
const ELICIT: &str = "elicitation/create";

fn all() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}}})
}

fn dual() -> Server {
    Server::named("s").flags("--era dual")
}

/// The first method that each process of the scripted server `s` received, oldest process first. For processes that run one after another.
fn openings(daemon: &Daemon) -> Vec<String> {
    let method = |line: &String| Some(serde_json::from_str::<Value>(line).ok()?["method"].as_str()?.to_owned());
    let journal = daemon.journal("s");
    let starts = journal.split(|line| line.starts_with("# start")).skip(1);
    starts.map(|life| life.iter().find_map(method).unwrap_or_default()).collect()
}

/// Whether the server got the call of an agent as one of the modern era.
#[track_caller]
fn was_modern(answer: &Value) -> bool {
    !result(answer)["structuredContent"]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null()
}

/// A legacy agent's calls reach the server as they are, and the server can send it requests.
#[track_caller]
fn expect_native_legacy(agent: &mut Agent) {
    assert!(!was_modern(&agent.call("s__echo", &json!({}))));
    for method in [SAMPLE, ELICIT] {
        let call = agent.start_call("s__send_request", &json!({"method": method, "params": {"mode": "form"}}));
        let question = agent.expect_request(method);
        agent.respond(&question, &json!({"n": 1}));
        assert_eq!(result(&agent.answer(&call))["structuredContent"]["result"], json!({"n": 1}));
    }
}

/// The agent receives what the server logs while a call of its own is unanswered. Another call has the server log it: behind a URL the
/// message and the response to that one come on two streams, in either order.
#[track_caller]
fn expect_logs(agent: &mut Agent) {
    let unanswered = agent.start_call("s__sleep", &json!({"ms": 600_000}));
    let log = notification("notifications/message", &json!({"level": "info", "data": "x"}));
    result(&agent.call("s__raw", &json!({"text": format!("{log}\n")})));
    agent.expect_notification("notifications/message");
    agent.cancel(&unanswered);
}

/// A modern agent's calls reach the server as they are, and the server's input requests keep the names that it gave them.
#[track_caller]
fn expect_native_modern(agent: &mut Agent) {
    assert!(was_modern(&agent.call("s__echo", &json!({}))));
    let rounds = json!([{"inputs": {"own_name": {"method": ELICIT, "params": {}}}, "state": "own state"}]);
    let required = agent.call("s__need_input", &json!({"rounds": rounds}));
    assert!(inputs(&required).contains_key("own_name"), "{required}");
    assert_eq!(result(&required)["requestState"], "own state");
    let log = agent.call("s__log", &json!({"messages": []}));
    assert!(was_modern(&log));
}

/// A call of a modern agent works at a legacy connection.
#[track_caller]
fn expect_bridged_modern(agent: &mut Agent) {
    assert!(!was_modern(&agent.call("s__echo", &json!({}))));
    let required =
        agent.call("s__send_request", &json!({"method": ELICIT, "params": {"mode": "form", "message": "who?"}}));
    assert_eq!(inputs(&required).len(), 1);
}

/// The versions in which each instance of `s` that runs is spoken to, by what it is for.
fn versions(daemon: &Daemon) -> Vec<(String, String)> {
    let row = daemon.row("s");
    let all = row["instances"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let running = all.iter().filter(|one| one["protocol"].is_string());
    running.map(|one| (text(&one["purpose"]), text(&one["protocol"]))).collect()
}

/// The version of one of them.
fn version(daemon: &Daemon, purpose: &str) -> Option<String> {
    versions(daemon).into_iter().find(|(own, _)| own.starts_with(purpose)).map(|(_, version)| version)
}

fn is_error(answer: &Value) -> bool {
    answer["error"].is_object() && code(answer) != 0
}
