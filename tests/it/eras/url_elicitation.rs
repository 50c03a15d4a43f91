//! URL elicitations of a legacy server (−32042) become input requests for a modern agent.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, arguments, inputs, result};

fn start() -> (Daemon, Agent) {
    let daemon = Server::named("s").start();
    let agent = Agent::modern(&daemon, &json!({"elicitation": {"url": {}}}));
    (daemon, agent)
}

/// A call that is always refused until two URLs are opened.
fn wants_urls() -> Value {
    let url = |id: &str| json!({"mode": "url", "elicitationId": id, "url": format!("https://{id}"), "message": "m"});
    let error = json!({"code": -32042, "message": "first", "data": {"elicitations": [url("a"), url("b")]}});
    let text = format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{error}}}"#) + "\n";
    json!({"text": text, "answer": false})
}

#[test]
fn declined_url_ends_the_call_with_the_declined_url() {
    let (daemon, mut agent) = start();
    let required = agent.call("s__raw", &wants_urls());
    assert_eq!(inputs(&required).keys().collect::<Vec<_>>(), ["url-1", "url-2"]);
    for (action, expected) in [("decline", "declined"), ("cancel", "cancelled")] {
        let responses = json!({"url-1": {"action": "accept"}, "url-2": {"action": action}});
        let answer = agent.retry_call("s__raw", &wants_urls(), &required, &responses);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}"));
        assert!(message.contains("url-2") && message.contains(expected), "{answer}");
        assert_eq!(answer["error"]["data"], json!({"server": "s", "outcome": "not_sent"}), "{answer}");
    }
    assert_eq!(daemon.count_journal("s", "tools/call"), 1, "it would only want the same again");
}

#[test]
fn after_all_were_opened_the_call_is_made_again() {
    let (daemon, mut agent) = start();
    let required = agent.call("s__raw", &wants_urls());
    let responses = json!({"url-1": {"action": "accept"}, "url-2": {"action": "accept"}});
    let again = agent.retry_call("s__raw", &wants_urls(), &required, &responses);
    assert_eq!(result(&again)["resultType"], "input_required");
    let params = json!({"name": "s__echo", "arguments": {"n": 1}, "inputResponses": responses});
    let done = agent.request("tools/call", &params);
    assert_eq!(arguments(&done), &json!({"n": 1}));
    assert_eq!(daemon.count_journal("s", "tools/call"), 3);
}
