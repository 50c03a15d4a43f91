//! Input requests of a modern server: translated for legacy agents, passed unchanged to modern agents.

use serde_json::{Value, json};

use super::full;
use crate::support::{Agent, Daemon, Era, Place, Setup, code, inputs, result};

const SAMPLE: &str = "sampling/createMessage";
const ELICIT: &str = "elicitation/create";
const ROOTS: &str = "roots/list";

fn start() -> Daemon {
    Setup::with(Era::Modern.server("s")).start()
}

fn all() -> Value {
    json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}})
}

fn input(method: &str, params: &Value) -> Value {
    json!({"method": method, "params": params})
}

/// The params of the last request of a call, as the server got them.
#[track_caller]
fn received(answer: &Value) -> &Value {
    &result(answer)["structuredContent"]["params"]
}

/// Starts a call for which the server needs this, round after round.
fn start_call(agent: &mut Agent, rounds: &Value) -> Value {
    agent.start_call("s__need_input", &json!({ "rounds": rounds }))
}

#[test]
fn input_of_a_legacy_agent_continues_the_modern_call() {
    let daemon = start();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    for (method, params, response) in [
        (SAMPLE, json!({"maxTokens": 7, "messages": []}), json!({"model": "m"})),
        (
            ELICIT,
            json!({"mode": "form", "message": "who?", "zeta": 1.5}),
            json!({"action": "accept", "content": {"n": 1.5}}),
        ),
        (ROOTS, json!({}), json!({"roots": [{"uri": "file:///x"}]})),
    ] {
        let call =
            start_call(&mut agent, &json!([{"inputs": {"q": input(method, &params)}, "state": "opaque \u{e9}"}]));
        let question = agent.expect_request(method);
        assert_eq!(question["params"], params);
        agent.respond(&question, &response);
        let answer = agent.answer(&call);
        assert_eq!(
            (&received(&answer)["inputResponses"], &received(&answer)["requestState"]),
            (&json!({"q": response}), &json!("opaque é"))
        );
        assert_eq!(result(&answer)["resultType"], Value::Null);
    }
    agent.expect_quiet();
}

#[test]
fn input_rounds_form_one_call_for_a_legacy_agent() {
    let daemon = start();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    let sample = |n: u32| input(SAMPLE, &json!({"n": n}));
    let rounds = json!([
        {"inputs": {"a": sample(1), "b": input(ELICIT, &json!({"message": "2"}))}},
        {"state": "only a state"},
        {"inputs": {"c": sample(3)}, "state": "third"},
    ]);
    let call = start_call(&mut agent, &rounds);
    let (first, second) = (agent.expect_request(SAMPLE), agent.expect_request(ELICIT));
    assert_ne!(first["id"], second["id"]);
    agent.respond(&second, &json!({"action": "decline"}));
    agent.respond(&first, &json!({"model": "1"}));
    let third = agent.expect_request(SAMPLE);
    assert_eq!(third["params"], json!({"n": 3}));
    agent.respond(&third, &json!({"model": "3"}));
    let answer = agent.answer(&call);
    assert_eq!(received(&answer)["inputResponses"], json!({"c": {"model": "3"}}), "of the last round alone");
    assert_eq!(received(&answer)["requestState"], "third");
    assert_eq!(daemon.count_journal("s", "tools/call"), 4);
    let lines = daemon.journal("s");
    let both = lines.iter().find(|line| line.contains("inputResponses")).expect("it was told");
    let both: Value = serde_json::from_str(both).expect("JSON");
    assert_eq!(both["params"]["inputResponses"], json!({"a": {"model": "1"}, "b": {"action": "decline"}}));
    assert_eq!(both["params"]["requestState"], Value::Null, "none was given");
    agent.expect_quiet();
}

#[test]
fn url_elicitation_gets_an_id_for_a_legacy_agent() {
    let daemon = start();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    let params = json!({"mode": "url", "url": "https://x", "message": "open it"});
    let call = start_call(&mut agent, &json!([{"inputs": {"q": input(ELICIT, &params)}}]));
    let mut question = agent.expect_request(ELICIT);
    let id = question["params"].as_object_mut().expect("an object").remove("elicitationId");
    assert!(id.is_some_and(|id| id.is_string()), "{question}");
    assert_eq!(question["params"], params);
    agent.respond(&question, &json!({"action": "accept"}));
    assert_eq!(received(&agent.answer(&call))["inputResponses"], json!({"q": {"action": "accept"}}));
}

/// Case J10.
#[test]
fn legacy_agent_receives_no_input_request_that_it_has_not_declared() {
    let daemon = start();
    for (capabilities, method) in
        [(json!({}), SAMPLE), (json!({"sampling": {}}), ELICIT), (json!({"elicitation": {}}), ROOTS)]
    {
        let mut agent = Agent::with_capabilities(&daemon, &capabilities);
        for unchecked in [false, true] {
            let rounds = json!([{"inputs": {"q": input(method, &json!({}))}, "unchecked": unchecked}]);
            let call = start_call(&mut agent, &rounds);
            let answer = agent.answer(&call);
            assert!(answer["error"]["message"].is_string(), "{method}: {answer}");
        }
        agent.expect_quiet();
    }
}

/// Case J11.
#[test]
fn legacy_agent_that_answers_with_an_error_ends_the_call() {
    let daemon = start();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    let call =
        start_call(&mut agent, &json!([{"inputs": {"q": input(SAMPLE, &json!({})), "r": input(ROOTS, &json!({}))}}]));
    let (question, other) = (agent.expect_request(SAMPLE), agent.expect_request(ROOTS));
    agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "not today"}}));
    let answer = agent.answer(&call);
    assert!(answer["error"]["code"].is_number(), "{answer}");
    assert_eq!(daemon.count_journal("s", "tools/call"), 1, "there is nothing to go on with");
    // What is asked for beside it may have been taken back.
    agent.respond(&other, &json!({"roots": []}));
    agent.disconnect();
}

/// Case J11.
#[test]
fn disconnect_or_cancellation_of_a_legacy_agent_ends_the_call() {
    let daemon = start();
    let rounds = json!([{"inputs": {"q": input(SAMPLE, &json!({}))}, "state": "s"}]);
    let mut leaver = Agent::with_capabilities(&daemon, &all());
    start_call(&mut leaver, &rounds);
    leaver.expect_request(SAMPLE);
    leaver.disconnect();
    let mut agent = Agent::with_capabilities(&daemon, &all());
    let call = start_call(&mut agent, &rounds);
    let question = agent.expect_request(SAMPLE);
    agent.cancel(&call);
    let taken_back = agent.expect_notification("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    agent.respond(&question, &json!({"model": "late"}));
    agent.expect_quiet();
    daemon.wait_row("s", "has nothing left to do", |row| row["in_flight"] == 0);
    assert_eq!(daemon.count_journal("s", "tools/call"), 2);
}

#[test]
fn prompts_and_resources_may_require_input() {
    let place = Place::new();
    let library = json!({
        "prompts": [{"name": "p"}], "resources": [{"uri": "x://1", "name": "r"}],
        "rounds": {"p": [{"inputs": {"q": input(ROOTS, &json!({}))}}], "x://1": [{"inputs": {"q": input(ROOTS, &json!({}))}}]},
    });
    let server = Era::Modern.server("s").library(library);
    let daemon = Setup::with(server).server(full(&place, Era::Legacy)).start_in(&place);
    for (method, params) in [("prompts/get", json!({"name": "s__p"})), ("resources/read", json!({"uri": "x://1"}))] {
        let mut legacy = Agent::with_capabilities(&daemon, &all());
        let id = legacy.start_request(method, &params);
        let question = legacy.expect_request(ROOTS);
        legacy.respond(&question, &json!({"roots": []}));
        assert_eq!(result(&legacy.answer(&id))["received"]["inputResponses"], json!({"q": {"roots": []}}));
        let mut modern = Agent::modern(&daemon, &all());
        let answer = modern.request(method, &params);
        assert_eq!(inputs(&answer)["q"]["method"], ROOTS);
        let id = modern.start_retry(method, &params, &answer, &json!({"q": {"roots": [1]}}));
        assert_eq!(result(&modern.answer(&id))["received"]["inputResponses"], json!({"q": {"roots": [1]}}));
    }
}

#[test]
fn modern_agent_and_modern_server_exchange_input_requests_unchanged() {
    let daemon = start();
    let mut agent = Agent::modern(&daemon, &all());
    let input = r#"{"zeta":1.10,"q\u0031":{"params":{"message":"\/", "mode":"form"},"method":"elicitation\/create"}}"#;
    let input = input.replacen("\"zeta\":1.10,", "", 1);
    let round = format!(r#"{{"inputs":{input},"state":"s\u0074ate"}}"#);
    let meta = agent.with_meta(&json!({}))["_meta"].to_string();
    let line = |rest: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"name":"s__need_input","arguments":{{"rounds":[{round}]}},"_meta":{meta}{rest}}}}}"#
        )
    };
    agent.send_raw(line("") + "\n");
    let answer = agent.next_line().expect("an answer");
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":"x","result":{{"resultType":"input_required","inputRequests":{input},"requestState":"s\u0074ate"}}}}"#
    );
    assert_eq!(answer.trim_end(), expected);
    let rest = r#","inputResponses":{"q1":{"n":1.10}} ,"requestState":"s\u0074ate""#;
    agent.send_raw(line(rest) + "\n");
    let answer = agent.next_line().expect("an answer");
    assert!(answer.contains(rest) && answer.contains("\"resultType\":\"complete\""), "{answer}");
    assert!(daemon.journal("s").iter().any(|line| line.contains(rest)));
}

/// Case J10.
#[test]
fn modern_agent_receives_the_capability_that_a_server_requires() {
    let daemon = start();
    let rounds = json!([{"inputs": {"q": input(ELICIT, &json!({"mode": "url"}))}}]);
    for era in Era::BOTH {
        let mut agent = era.agent(&daemon, &json!({"elicitation": {}}));
        let answer = agent.call("s__need_input", &json!({ "rounds": rounds }));
        if era == Era::Modern {
            assert_eq!(code(&answer), -32021);
        }
        assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"elicitation": {"url": {}}}}));
    }
}
