//! Task-only tools of a modern server, called by legacy agents without tasks: mcpd follows the task.

use serde_json::{Value, json};

use super::modern_tasks::{ELICIT, RELATED, ask, capable_agent, finish, listed, request_count, start};
use crate::support::{Agent, Daemon, arguments, code, result, until};

/// Calls a tool that the server runs as a task only, the task being `id`; the id of the request.
fn start_plainly(agent: &mut Agent, id: &str, more: &Value) -> Value {
    let mut arguments = json!({"as_task": "always", "id": id});
    arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    agent.start_call("s__echo", &arguments)
}

fn wait_followed(daemon: &Daemon, id: &str) {
    until("it is looked at", || (request_count(daemon, "tasks/get", id) > 1).then_some(()));
}

#[test]
fn task_only_tool_can_be_called_by_any_agent() {
    let daemon = start();
    let mut operator = Agent::ready(&daemon);
    let calls = || daemon.journal("s").iter().filter(|line| line.contains("\"as_task\"")).count();
    for (version, id, sent) in [("2025-06-18", "t", 2), ("2025-11-25", "u", 3)] {
        let mut agent = Agent::connect(&daemon);
        result(&agent.initialize(version));
        let call = start_plainly(&mut agent, id, &json!({"n": 1.5}));
        wait_followed(&daemon, id);
        finish(&mut operator, id, "completed");
        let answer = agent.answer(&call);
        assert_eq!(arguments(&answer)["n"], 1.5);
        assert_eq!((&result(&answer)["_meta"][RELATED], &result(&answer)["resultType"]), (&Value::Null, &Value::Null));
        assert_eq!(calls(), sent, "once it is known nothing is refused");
        agent.expect_quiet();
    }
    assert!(listed(&mut operator).is_empty());
    let mut agent = Agent::ready(&daemon);
    for (id, status, more) in [("v", "failed", json!({})), ("w", "cancelled", json!({}))] {
        let call = start_plainly(&mut agent, id, &more);
        wait_followed(&daemon, id);
        finish(&mut operator, id, status);
        assert_eq!(code(&agent.answer(&call)), if status == "failed" { -32050 } else { -32603 });
    }
    let call = start_plainly(&mut agent, "x", &json!({"fail": true}));
    wait_followed(&daemon, "x");
    finish(&mut operator, "x", "completed");
    assert_eq!(result(&agent.answer(&call))["isError"], true);
    assert!(listed(&mut agent).is_empty(), "its agent has asked for none");
    assert_eq!(code(&ask(&mut agent, "get", &json!("x"))), -32602);
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tasks/cancel")));
}

#[test]
fn input_request_of_a_task_only_tool_reaches_its_agent() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    let call = start_plainly(&mut agent, "t", &json!({"ask": true}));
    let question = agent.expect_request(ELICIT);
    assert_eq!(question["params"], json!({"message": "Who?"}), "it knows of no task");
    agent.respond(&question, &json!({"action": "accept"}));
    assert_eq!(result(&agent.answer(&call))["structuredContent"], json!({"who": {"action": "accept"}}));
    let call = start_plainly(&mut agent, "u", &json!({"ask": true}));
    let question = agent.expect_request(ELICIT);
    agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}));
    assert_eq!(code(&agent.answer(&call)), -32603);
    until("nobody waits for it", || (request_count(&daemon, "tasks/cancel", "u") == 1).then_some(()));
    agent.expect_quiet();
}

#[test]
fn cancelled_call_cancels_the_task_behind_it() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    let call = start_plainly(&mut agent, "t", &json!({}));
    wait_followed(&daemon, "t");
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}));
    until("it is cancelled", || (request_count(&daemon, "tasks/cancel", "t") == 1).then_some(()));
    agent.expect_quiet();
    start_plainly(&mut agent, "u", &json!({}));
    wait_followed(&daemon, "u");
    agent.disconnect();
    until("it is cancelled", || (request_count(&daemon, "tasks/cancel", "u") == 1).then_some(()));
    daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
}
