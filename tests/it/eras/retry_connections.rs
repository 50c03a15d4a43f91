//! A retry on another connection moves the call to that connection, in whichever instance it is suspended.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, inputs, result};

const SAMPLE: &str = "sampling/createMessage";

fn start(sharing: &str) -> Daemon {
    Server::named("s").line(format!("sharing = \"{sharing}\"")).start()
}

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &json!({"sampling": {}}))
}

/// Those who are there for `sharing = "session"`, each with an instance of its own.
fn connect_two(daemon: &Daemon) -> [Agent; 2] {
    [capable_agent(daemon), capable_agent(daemon)].map(|mut agent| {
        agent.tools();
        agent
    })
}

fn responses(required: &Value, model: &str) -> Value {
    inputs(required).keys().map(|key| (key.clone(), json!({ "model": model }))).collect()
}

/// Comes back, and does not wait.
fn start_again(agent: &mut Agent, arguments: &Value, required: &Value) -> Value {
    let params = json!({"name": "s__send_request", "arguments": arguments});
    agent.start_retry("tools/call", &params, required, &responses(required, "m"))
}

/// Case B16.
#[test]
fn retry_on_another_connection_receives_the_next_request_there() {
    for sharing in ["shared", "session", "pool"] {
        let daemon = start(sharing);
        let [mut one, mut other] = connect_two(&daemon);
        let arguments = json!({"method": SAMPLE, "params": {}, "again": 1});
        let required = one.call("s__send_request", &arguments);
        let again = other.retry_call("s__send_request", &arguments, &required, &responses(&required, "first"));
        assert_eq!(inputs(&again).len(), 1, "{sharing}: {again}");
        let answer = other.retry_call("s__send_request", &arguments, &again, &responses(&again, "second"));
        assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "second"}), "{sharing}");
        assert_eq!(daemon.count_journal("s", "tools/call"), 1, "{sharing}");
        one.expect_quiet();
        other.expect_quiet();
    }
}

#[test]
fn request_is_refused_while_both_connections_have_a_call_at_the_instance() {
    let daemon = start("session");
    let [mut one, mut other] = connect_two(&daemon);
    let arguments = json!({"method": SAMPLE, "params": {}, "again": 1});
    let required = one.call("s__send_request", &arguments);
    let busy = one.start_call("s__sleep", &json!({"ms": 600_000, "mark": 1}));
    daemon.wait_journal("s", "\"mark\":1");
    let id = start_again(&mut other, &arguments, &required);
    let answer = other.answer(&id);
    assert_eq!(result(&answer)["structuredContent"]["error"]["code"], -31004, "{answer}");
    one.cancel(&busy);
    one.expect_quiet();
}

#[test]
fn its_end_there_reaches_the_server() {
    for hangs_up in [false, true] {
        let daemon = start("session");
        let [mut one, mut other] = connect_two(&daemon);
        let arguments = json!({"method": SAMPLE, "params": {}, "hang": true});
        let required = one.call("s__send_request", &arguments);
        let id = start_again(&mut other, &arguments, &required);
        daemon.wait_journal("s", "\"model\":\"m\"");
        if hangs_up {
            other.disconnect();
        } else {
            let params = json!({ "requestId": id });
            other.notify("notifications/cancelled", &params);
        }
        daemon.wait_journal("s", "notifications/cancelled");
        daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
        one.expect_quiet();
    }
}

#[test]
fn call_of_a_closed_connection_stays_suspended_for_its_retry() {
    let daemon = start("session");
    let [mut one, mut other] = connect_two(&daemon);
    let arguments = json!({"method": SAMPLE, "params": {}});
    let required = one.call("s__send_request", &arguments);
    one.disconnect();
    daemon.wait_status("one has gone", |status| status["agents"].as_array().is_some_and(|all| all.len() == 1));
    let answer = other.retry_call("s__send_request", &arguments, &required, &responses(&required, "m"));
    assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}), "{answer}");
    assert_eq!(daemon.count_journal("s", "tools/call"), 1, "nothing is done again");
    // The one for modern agents that have none yet is there, too.
    let gone = |row: &Value| row["instances"].as_array().is_some_and(|all| all.len() == 2);
    daemon.wait_row("s", "has no instance of the one that has gone", gone);
}
