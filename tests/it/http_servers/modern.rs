//! Modern servers at URLs: stateless requests with their headers.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{beside, expect_error, expect_well, silence};
use crate::support::http::{Answers, Behavior, Front, Request, Response};
use crate::support::{Agent, Daemon, MCPD, Place, arguments, code, result, until};

const ANSWERS: [Answers; 2] = [Answers::Events, Answers::Json];

fn start(answers: Answers) -> (Front, Daemon) {
    start_with(answers, "")
}

/// One of the modern era as `a` with these flags beside, and `good`.
fn start_with(answers: Answers, flags: &str) -> (Front, Daemon) {
    let place = Place::new();
    start_in(&place, answers, flags)
}

fn start_in(place: &std::rc::Rc<Place>, answers: Answers, flags: &str) -> (Front, Daemon) {
    let front = Front::start(place, "a", &format!("--era modern {flags}"), Behavior::stateless(answers));
    let daemon = beside(front.server(), place);
    (front, daemon)
}

fn posts(front: &Front, method: &str) -> Vec<Request> {
    front.http().requests().into_iter().filter(|request| request.rpc() == method).collect()
}

/// The headers of a request that begin so, with their values.
fn heads(request: &Request, prefix: &str) -> Vec<String> {
    let mut all: Vec<_> = request.head().lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect();
    all.sort();
    all
}

#[test]
fn modern_server_receives_nothing_but_its_calls() {
    for answers in ANSWERS {
        let (front, daemon) = start(answers);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": 1, "text": "é\n"}))), &json!({"n": 1, "text": "é\n"}));
        arguments(&agent.call("a__echo", &json!({"text": "x".repeat(3 << 20)})));
        expect_well(&mut agent);
        assert_eq!(daemon.row("a")["protocol"], "2026-07-28");
        assert_eq!(daemon.row("a")["restarts"], 0);
        drop(agent);
        drop(daemon);
        let all = front.http().requests();
        // The first legacy call has mcpd look for the legacy era, once.
        let initialize = all.iter().position(|request| request.rpc() == "initialize").expect("one");
        assert_eq!(all[initialize].header("mcp-session-id"), None, "{answers:?}");
        for request in all[..initialize].iter().chain(&all[initialize + 1..]) {
            let head = request.head();
            assert_eq!((&*request.method, request.header("mcp-session-id")), ("POST", None), "{head}");
            assert_eq!(request.header("last-event-id"), None, "{head}");
            assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"), "{head}");
            assert!(!request.rpc().starts_with("notifications/") && request.rpc() != "initialize", "{head}");
        }
    }
}

/// Case I16.
#[test]
fn header_parameters_are_found_in_any_json_spelling() {
    let place = Place::new();
    let library = place.write(
        "library.json",
        r#"{"prompts":[{"name":"größe"}],"resources":[{"uri":"x://h/a b","name":"r"},{"uri":"x://\u4e16","name":"s"}]}"#,
    );
    // What says something else than the message is refused by the front.
    let (front, daemon) = start_in(&place, Answers::Json, &format!("--library {}", library.display()));
    let mut agent = Agent::ready(&daemon);
    for uri in ["x://h/a b", "x://世"] {
        assert_eq!(result(&agent.request("resources/read", &json!({ "uri": uri })))["received"]["uri"], uri);
    }
    let listed = agent.request("prompts/list", &json!({}));
    let name = &result(&listed)["prompts"][0]["name"];
    assert_eq!(result(&agent.request("prompts/get", &json!({ "name": name })))["received"]["name"], "größe");
    assert_eq!(posts(&front, "resources/read")[0].header("mcp-name"), Some("x://h/a b"));
    assert_eq!(posts(&front, "resources/read")[1].header("mcp-name"), Some("=?base64?eDovL+S4lg==?="));
    assert_eq!(posts(&front, "prompts/get")[0].header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    agent.expect_quiet();
}

/// A tool whose argument `r` is of this type and wanted in this header.
fn wants(name: &str, of_type: &str, header: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {
        "r": {"type": of_type, "x-mcp-header": header},
        "within": {"type": "object", "properties": {"deep": {"type": "integer", "x-mcp-header": "Deep"}}},
        "other": {"type": "string"},
    }}})
}

/// Case I16.
#[test]
fn header_parameters_are_sent_and_tools_with_invalid_ones_are_hidden() {
    let place = Place::new();
    let tools = json!([
        wants("good", "string", "Region"),
        wants("bad_type", "number", "Region"),
        wants("bad_name", "string", "My Region"),
        wants("bad_twice", "string", "deep"),
        {"name": "sleep", "inputSchema": {"type": "object"}},
    ]);
    let listing = place.write("listing.json", json!({ "tools": tools }).to_string());
    let (front, daemon) = start_in(&place, Answers::Json, &format!("--tool-list {}", listing.display()));
    let mut agent = Agent::ready(&daemon);
    let own: Vec<_> = agent.tools().into_iter().filter(|tool| tool.starts_with("a__")).collect();
    assert_eq!(own, ["a__good", "a__sleep"]);
    assert_eq!(code(&agent.call("a__bad_type", &json!({}))), -32602, "what is not offered is not known");
    assert!(daemon.log().contains("bad_name"), "{}", daemon.log());
    for (given, expected) in [
        (json!({"r": "eu", "within": {"deep": 7}, "other": "x"}), vec!["mcp-param-deep: 7", "mcp-param-region: eu"]),
        (json!({"r": " é", "within": {}}), vec!["mcp-param-region: =?base64?IMOp?="]),
        (json!({"r": null, "other": "x"}), vec![]),
    ] {
        agent.call("a__good", &given);
        let call = posts(&front, "tools/call").pop().expect("a call");
        assert_eq!(heads(&call, "mcp-param-"), expected, "{given}");
        assert_eq!(call.json()["params"]["arguments"], given);
    }
    expect_well(&mut agent);
}

#[test]
fn header_parameters_follow_the_fixed_arguments() {
    let place = Place::new();
    let listing = place.write("listing.json", json!({ "tools": [wants("good", "string", "Region")] }).to_string());
    let flags = format!("--era modern --tool good --tool-list {}", listing.display());
    let front = Front::start(&place, "a", &flags, Behavior::stateless(Answers::Json));
    let line = "tool = { good = { name = \"best\", arguments = { r = \"eu\", within = { deep = 7 } } } }";
    let daemon = beside(front.server().line(line), &place);
    for mut agent in [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))] {
        assert_eq!(code(&agent.call("a__best", &json!({"r": "us"}))), -32602);
        let answer = agent.call("a__best", &json!({"other": "x"}));
        assert_eq!(arguments(&answer), &json!({"r": "eu", "within": {"deep": 7}, "other": "x"}));
        let call = posts(&front, "tools/call").pop().expect("a call");
        assert_eq!(heads(&call, "mcp-param-"), ["mcp-param-deep: 7", "mcp-param-region: eu"]);
        assert_eq!(call.header("mcp-name"), Some("good"));
    }
    assert_eq!(posts(&front, "tools/call").len(), 2);
}

/// Case I16.
#[test]
fn call_with_too_many_header_parameters_is_not_sent() {
    let place = Place::new();
    let tools = json!([wants("good", "string", "Region"), {"name": "sleep", "inputSchema": {"type": "object"}}]);
    let listing = place.write("listing.json", json!({ "tools": tools }).to_string());
    let (front, daemon) = start_in(&place, Answers::Json, &format!("--tool good --tool-list {}", listing.display()));
    let mut agent = Agent::ready(&daemon);
    for (given, fits) in
        [("x".repeat(7000), true), ("x".repeat(9000), false), ("é".repeat(4000), false), ("x".repeat(3 << 20), false)]
    {
        let answer = agent.call("a__good", &json!({ "r": given }));
        if fits {
            assert_eq!(arguments(&answer)["r"], given);
        } else {
            expect_error(&answer, -31004, "not_sent");
            assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains("headers")), "{answer}");
        }
    }
    assert_eq!(front.calls("good"), 1);
    expect_well(&mut agent);
}

#[test]
fn server_that_requires_other_headers_is_listed_again() {
    let place = Place::new();
    let list = |header: &str| json!({"tools": [wants("good", "string", header)]}).to_string();
    let listing = place.write("listing.json", list("Old"));
    let (front, daemon) = start_in(&place, Answers::Json, &format!("--tool good --tool-list {}", listing.display()));
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"a__good".to_owned()));
    // The first legacy call has the lists read once more.
    result(&agent.call("a__good", &json!({"r": "x"})));
    place.write("listing.json", list("New"));
    front.intercept(|request| {
        let is_refused = request.rpc() == "tools/call" && request.header("mcp-param-new").is_none();
        let error = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": {"code": -32020, "message": "no Mcp-Param-New"}});
        is_refused.then(|| Response::json(&error).with_status(400))
    });
    let refused = agent.call("a__good", &json!({"r": "x"}));
    // What is between mcpd and the server is not for the agent to mend.
    expect_error(&refused, -31004, "not_sent");
    assert!(
        refused["error"]["message"].as_str().is_some_and(|message| message.ends_with("Mcp-Param-New")),
        "{refused}"
    );
    agent.expect_notification("notifications/tools/list_changed");
    result(&agent.call("a__good", &json!({"r": "x"})));
    assert_eq!(heads(&posts(&front, "tools/call")[2], "mcp-param-"), ["mcp-param-new: x"]);
    agent.expect_quiet();
}

#[test]
fn call_waits_until_its_tool_is_listed_again_after_a_restart() {
    let place = Place::new();
    let tools = json!({"tools": [wants("good", "string", "Region")]}).to_string();
    let listing = place.write("listing.json", &tools);
    let (front, daemon) = start_in(&place, Answers::Json, &format!("--tool good --tool-list {}", listing.display()));
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"a__good".to_owned()));
    let silence = silence();
    front.intercept(move |request| (request.rpc() == "tools/list").then(&silence));
    let mut restart = place.command(MCPD);
    restart.args(["restart", "a", "--runtime-dir"]).arg(place.runtime_dir()).stdout(Stdio::null());
    let mut restart = restart.spawn().expect("it is there");
    until("it is asked for its tools again", || (posts(&front, "tools/list").len() > 1).then_some(()));
    let call = agent.start_call("a__good", &json!({"r": "x"}));
    daemon.wait_row("a", "has taken in the call", |row| row["calls"] == 1);
    assert_eq!(posts(&front, "tools/call").len(), 0);
    agent.cancel(&call);
    front.stop_intercepting();
    let _ = restart.kill();
    let _ = restart.wait();
}

#[test]
fn cancelled_call_has_its_stream_closed_without_further_messages() {
    let place = Place::new();
    let (front, daemon) = start_in(&place, Answers::Events, "");
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    let sent = front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    agent.cancel(&call);
    let cancelled = format!(r#""requestId":{}"#, sent.json()["id"]);
    until("the server sees the end of the stream", || {
        std::fs::read_to_string(place.path("a.journal")).ok().filter(|journal| journal.contains(&cancelled))
    });
    assert_eq!(posts(&front, "notifications/cancelled").len(), 0);
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn error_with_a_status_is_the_answer() {
    let (front, daemon) = start(Answers::Json);
    let mut agent = Agent::ready(&daemon);
    // The front sends them with 404, 400 and 200.
    for own in [-32601, -32602, -5] {
        let answer = agent.call("a__fail", &json!({"code": own, "message": "no", "data": {"zeta": 1}}));
        assert_eq!((code(&answer), &answer["error"]["message"]), (own, &json!("no")));
    }
    // What was refused before it was read.
    for id in [json!({"id": null}), json!({})] {
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": -7, "message": "unread"}});
        error.as_object_mut().expect("an object").extend(id.as_object().expect("an object").clone());
        front.answer_tool("echo", move |_| Response::json(&error).with_status(400));
        assert_eq!(code(&agent.call("a__echo", &json!({}))), -7);
    }
    // What is said of something else is no answer.
    for (status, message, code, outcome) in [
        (400, json!({"error": "no"}), -31004, "not_sent"),
        (404, json!("gone"), -32603, "unknown"),
        (503, json!({"jsonrpc": "2.0", "error": {"code": -7}}), -32603, "unknown"),
    ] {
        front.answer_tool("echo", move |_| Response::json(&message).with_status(status));
        expect_error(&agent.call("a__echo", &json!({})), code, outcome);
    }
    front.stop_intercepting();
    expect_well(&mut agent);
}

#[test]
fn cut_stream_ends_its_call_once_and_is_not_resumed() {
    let (front, daemon) = start(Answers::Events);
    let mut agent = Agent::ready(&daemon);
    let progress = json!({"name": "a__progress", "arguments": {"n": 100, "every": 50}, "_meta": {"progressToken": 7}});
    let call = agent.start_request("tools/call", &progress);
    assert_eq!(agent.expect_notification("notifications/progress")["params"]["progressToken"], 7);
    front.cut_streams();
    expect_error(&agent.answer(&call), -31001, "unknown");
    while agent.request("ping", &json!({}))["result"] != json!({}) {}
    // On a slow machine more of it comes before the cut.
    agent.discard_notifications("notifications/progress");
    assert_eq!(front.http().count(|request| request.method == "GET"), 0);
    assert_eq!(front.calls("progress"), 1);
}

#[test]
fn hundred_calls_at_once_each_get_their_own_answer() {
    for answers in ANSWERS {
        let (_front, daemon) = start(answers);
        let mut agent = Agent::ready(&daemon);
        let calls: Vec<_> =
            (0..100).map(|n| (n, agent.start_call("a__sleep", &json!({"ms": n % 7, "n": n})))).collect();
        for (n, call) in calls {
            assert_eq!(arguments(&agent.answer(&call))["n"], n);
        }
        expect_well(&mut agent);
    }
}

#[test]
fn restarted_server_answers_the_next_call() {
    let (front, daemon) = start(Answers::Events);
    let mut agent = Agent::ready(&daemon);
    let slow = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    expect_error(&agent.call("a__die", &json!({})), -31001, "unknown");
    expect_error(&agent.answer(&slow), -31001, "unknown");
    expect_well(&mut agent);
    assert_eq!((front.calls("die"), &daemon.row("a")["restarts"]), (1, &json!(0)));
}
