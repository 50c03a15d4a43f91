//! Capabilities that mcpd declares to servers, roots, and completed URL elicitations.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, content, initialize_params, result};

const ELICIT: &str = "elicitation/create";

fn start(change: impl FnOnce(Server) -> Server) -> Daemon {
    Setup::with(change(Server::named("s"))).variable("DIR", "y").start()
}

/// The capabilities that its instances were told, in order, as they were spelled.
fn declared(daemon: &Daemon) -> Vec<String> {
    let lines = daemon.journal("s").into_iter().filter(|line| line.contains("\"initialize\""));
    let part = |line: String| -> Option<String> {
        let (_, rest) = line.split_once(r#""capabilities":"#)?;
        Some(rest.split_once(r#","clientInfo""#)?.0.to_owned())
    };
    lines.filter_map(part).collect()
}

#[track_caller]
fn roots(agent: &mut Agent) -> Value {
    content(&agent.call("s__send_request", &json!({"method": "roots/list"})))
}

const FOR_ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{"context":{},"tools":{}}}"#;

#[test]
fn shared_instance_receives_all_forwardable_capabilities_but_roots() {
    for sharing in ["shared", "pool", "workspace"] {
        let daemon = start(|server| server.line(format!("sharing = \"{sharing}\"")));
        let mut agent = Agent::with_capabilities(&daemon, &json!({"roots": {}}));
        assert_eq!(code(&roots(&mut agent)), -32601);
        assert!(declared(&daemon).iter().all(|declared| declared == FOR_ALL), "{sharing}: {:?}", declared(&daemon));
        agent.expect_quiet();
    }
}

#[test]
fn session_instance_receives_what_its_agent_and_version_support_except_tasks() {
    let daemon = start(|server| server.line("sharing = \"session\""));
    let own = r#"{"x-vendor":{"n":1.10},"tasks":{},"roots":{"listChanged":true},"elicitation":{}}"#;
    let without_tasks = r#"{"x-vendor":{"n":1.10},"roots":{"listChanged":true},"elicitation":{}}"#;
    let gated = r#"{"x-vendor":{"n":1.10},"roots":{"listChanged":true}}"#;
    for (version, expected) in [("2025-11-25", without_tasks), ("2025-03-26", gated)] {
        let mut agent = Agent::connect(&daemon);
        agent.send_raw(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{version}\",\"capabilities\":{own},\"clientInfo\":{{\"name\":\"a\",\"version\":\"1\"}}}}}}\n"
        ));
        result(&agent.answer(&json!("i")));
        agent.notify("notifications/initialized", &Value::Null);
        result(&agent.call("s__echo", &json!({})));
        assert_eq!(declared(&daemon).last().map(String::as_str), Some(expected));
    }
    assert_eq!(declared(&daemon)[0], FOR_ALL, "the one that only lists");
}

#[test]
fn configured_roots_are_returned_at_once() {
    let daemon = start(|server| {
        server.line("roots = [\"/data/my notes\", \"file:///x/${DIR}\"]").flags("--ask-at-start roots/list")
    });
    let expected = json!({"roots": [
        {"uri": "file:///data/my%20notes", "name": "my notes"}, {"uri": "file:///x/y", "name": "y"},
    ]});
    let notification: Value = serde_json::from_str(&daemon.wait_journal("s", "\"at start\"")).expect("JSON");
    assert_eq!(notification["result"], expected);
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let gate = daemon.gate();
    let busy = other.start_call("s__sleep", &gate.arguments());
    assert_eq!(roots(&mut one)["result"], expected);
    gate.open();
    result(&other.answer(&busy));
    assert!(declared(&daemon)[0].contains(r#""roots":{}"#));
}

#[test]
fn roots_of_a_workspace_are_its_directory() {
    let daemon = start(|server| server.line("sharing = \"workspace\"").line("roots = [\"${agent:cwd}\"]"));
    let mut agent = Agent::connect(&daemon);
    result(&agent.initialize_with("2025-11-25", &json!({}), &json!({"mcpd/cwd": "/"})));
    assert_eq!(roots(&mut agent)["result"]["roots"], json!([{"uri": "file:///", "name": "/"}]));
}

#[test]
fn session_instance_reads_roots_of_its_agent_and_is_notified_of_changes() {
    let daemon = start(|server| server.line("sharing = \"session\"").flags("--ask-at-start roots/list"));
    let capabilities = json!({"roots": {"listChanged": true}});
    let mut agent = Agent::connect(&daemon);
    result(&agent.request("initialize", &initialize_params("2025-11-25", &capabilities)));
    daemon.wait_row("s", "has its instance", |row| row["instances"][1]["state"] == "ready");
    agent.expect_quiet();
    agent.notify("notifications/initialized", &Value::Null);
    let question = agent.expect_request("roots/list");
    agent.respond(&question, &json!({"roots": ["mine"]}));
    daemon.wait_journal("s", "mine");
    let mut other = Agent::with_capabilities(&daemon, &json!({"sampling": {}}));
    let changed = r#"{"method":"notifications/roots/list_changed", "jsonrpc":"2.0"}"#;
    for agent in [&mut other, &mut agent] {
        agent.send_raw(format!("{changed}\n"));
        result(&agent.call("s__echo", &json!({})));
    }
    let notified = daemon.journal("s").iter().filter(|line| *line == changed).count();
    assert_eq!(notified, 1, "one has declared no roots");
}

#[test]
fn roots_changes_are_not_sent_to_shared_servers() {
    let daemon = start(|server| server.line("roots = [\"/x\"]"));
    let mut agent = Agent::with_capabilities(&daemon, &json!({"roots": {"listChanged": true}}));
    agent.notify("notifications/roots/list_changed", &Value::Null);
    result(&agent.call("s__echo", &json!({})));
    assert!(!daemon.journal("s").iter().any(|line| line.contains("roots/list_changed")));
}

fn complete(agent: &mut Agent, id: &str) {
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\"params\":{{\"x\":1.10,\"elicitationId\":\"{id}\"}}}}\n"
    );
    result(&agent.call("s__raw", &json!({ "text": line })));
}

#[test]
fn completed_url_elicitation_is_sent_only_to_the_agent_that_received_the_url() {
    let daemon = start(|server| server);
    let capabilities = json!({"elicitation": {"url": {}}});
    let mut supporting = Agent::with_capabilities(&daemon, &capabilities);
    let mut refused = Agent::with_capabilities(&daemon, &capabilities);
    let mut other = Agent::with_capabilities(&daemon, &capabilities);
    let params = json!({"mode": "url", "elicitationId": "e1", "url": "https://x", "message": "go"});
    let call = supporting.start_call("s__send_request", &json!({"method": ELICIT, "params": params}));
    let question = supporting.expect_request(ELICIT);
    assert_eq!(question["params"], params);
    supporting.respond(&question, &json!({"action": "accept"}));
    content(&supporting.answer(&call));
    // By the error of a call.
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"go","data":{"elicitations":[{"mode":"url","elicitationId":"e2","url":"https://y"}]}}}"#;
    let answer = refused.call("s__raw", &json!({"text": format!("{error}\n"), "answer": false}));
    assert_eq!((code(&answer), &answer["error"]["data"]["elicitations"][0]["elicitationId"]), (-32042, &json!("e2")));
    for id in ["e1", "e2", "e1", "unknown"] {
        complete(&mut other, id);
    }
    for (agent, id) in [(&mut supporting, "e1"), (&mut refused, "e2")] {
        let notification = agent.expect_notification("notifications/elicitation/complete");
        assert_eq!(notification["params"], json!({"x": 1.1, "elicitationId": id}));
        agent.expect_quiet();
    }
    other.expect_quiet();
}

#[test]
fn agent_whose_version_lacks_url_elicitation_is_not_notified_of_its_completion() {
    let daemon = start(|server| server);
    let mut agent = Agent::connect(&daemon);
    result(&agent.initialize("2025-06-18"));
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"go","data":{"elicitations":[{"elicitationId":"e"}]}}}"#;
    assert_eq!(code(&agent.call("s__raw", &json!({"text": format!("{error}\n"), "answer": false}))), -32042);
    complete(&mut agent, "e");
    agent.expect_quiet();
}
