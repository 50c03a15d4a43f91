//! Server requests reach an agent only if it certainly owns them and supports them. Otherwise they are refused at once.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, arguments, call_text, code, content, notification, result};

const SAMPLE: &str = "sampling/createMessage";
const ELICIT: &str = "elicitation/create";

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::with_capabilities(daemon, &json!({"sampling": {}, "elicitation": {}}))
}

/// Has the server ask its client.
fn start_question(agent: &mut Agent, method: &str, params: &Value) -> Value {
    agent.start_call("s__send_request", &json!({"method": method, "params": params}))
}

/// What the client answered, as the server got it.
#[track_caller]
/// The error that the server got.
fn refusal(agent: &mut Agent, method: &str, params: &Value) -> Value {
    let call = start_question(agent, method, params);
    content(&agent.answer(&call))["error"].clone()
}

#[test]
fn sole_agent_of_a_shared_server_receives_its_request_and_answers() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    // What an agent has at other servers is no matter.
    let call = agent.start_request(
        "tools/call",
        &json!({"name": "s__send_request", "arguments": {"method": SAMPLE, "params": {"maxTokens": 7, "messages": []}}}),
    );
    let question = agent.expect_request(SAMPLE);
    assert_eq!(question["params"], json!({"maxTokens": 7, "messages": []}));
    agent.respond(&question, &json!({"model": "m"}));
    assert_eq!(content(&agent.answer(&call))["result"], json!({"model": "m"}));
    let call = start_question(&mut agent, ELICIT, &json!({"mode": "form", "message": "who?"}));
    let question = agent.expect_request(ELICIT);
    agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}));
    assert_eq!(content(&agent.answer(&call))["error"], json!({"code": -1, "message": "no"}));
    agent.expect_quiet();
}

#[test]
fn server_request_for_a_task_of_the_agent_is_answered_without_one() {
    let requests = json!({"sampling": {"createMessage": {}}, "elicitation": {"create": {}}});
    let tasks = json!({"list": {}, "cancel": {}, "requests": requests});
    for sharing in ["shared", "session"] {
        let daemon = Server::named("s").line(format!("sharing = \"{sharing}\"")).start();
        let mut agent = Agent::with_capabilities(&daemon, &json!({"sampling": {}, "elicitation": {}, "tasks": tasks}));
        for (method, params) in [
            (SAMPLE, json!({"task": {"ttl": 5000}, "messages": [], "_meta": {"progressToken": "p"}})),
            (ELICIT, json!({"mode": "form", "task": {}})),
        ] {
            let call = start_question(&mut agent, method, &params);
            let question = agent.expect_request(method);
            let keys = |params: &Value| params.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
            let expected: Vec<_> = keys(&params).into_iter().filter(|key| key != "task").collect();
            assert_eq!(keys(&question["params"]), expected, "{sharing}");
            agent.respond(&question, &json!({"n": 1.5}));
            assert_eq!(content(&agent.answer(&call))["result"], json!({"n": 1.5}), "{sharing}");
        }
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            let error = refusal(&mut agent, method, &json!({"taskId": "t"}));
            assert_eq!(error["code"], -32601, "{sharing} {method}: {error}");
        }
        let status = notification("notifications/tasks/status", &json!({"taskId": "t"}));
        agent.send(&status);
        agent.expect_quiet();
        assert!(!daemon.journal("s").iter().any(|line| line.contains("notifications/tasks/status")), "{sharing}");
    }
}

#[test]
fn only_id_and_token_of_a_server_request_are_replaced_and_restored() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    let params = r#"{"zeta":1.10,"_meta":{"x":"\/","progressToken":"t-\u0031"},"mode":"form"}"#;
    let call = call_text(r#""c""#, "s__send_request", r#"{"method":"elicitation/create","params":PARAMS}"#);
    agent.send_raw(call.replace("PARAMS", params) + "\n");
    let line = agent.next_line().expect("a line");
    let id = serde_json::from_str::<Value>(&line).expect("JSON")["id"].clone();
    let expected = params.replace(r#""t-\u0031""#, &id.to_string());
    let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{expected}}}"#);
    assert_eq!(line.trim_end(), expected);
    let progress =
        format!(r#"{{"method":"notifications/progress", "params":{{"y":2.50,"progressToken":{id}}},"jsonrpc":"2.0"}}"#);
    agent.send_raw(format!("{progress}\n"));
    let theirs = progress.replace(&format!("\"progressToken\":{id}"), r#""progressToken":"t-\u0031""#);
    assert_eq!(daemon.wait_journal("s", "notifications/progress"), theirs);
    agent.send_raw(format!("{{\"result\":{{\"n\":1.50}}, \"id\":{id},\"jsonrpc\":\"2.0\"}}\n"));
    let answer = daemon.wait_journal("s", "1.50");
    assert_eq!(answer, r#"{"result":{"n":1.50}, "id":"ask-2","jsonrpc":"2.0"}"#);
    assert_eq!(content(&agent.answer(&json!("c")))["id"], "ask-2");
    agent.expect_quiet();
}

/// Case B16.
#[test]
fn server_request_is_refused_at_once_while_two_agents_have_calls() {
    let daemon = Server::named("s").start();
    let [mut one, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let gate = daemon.gate();
    let busy = other.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let error = refusal(&mut one, SAMPLE, &json!({}));
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31004), &json!("not_sent")), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("several agents")), "{error}");
    gate.open();
    arguments(&other.answer(&busy));
    let call = start_question(&mut one, SAMPLE, &json!({}));
    let question = one.expect_request(SAMPLE);
    one.respond(&question, &json!({}));
    content(&one.answer(&call));
    one.expect_quiet();
    other.expect_quiet();
}

/// Case B16.
#[test]
fn cancelled_call_counts_until_the_server_has_answered_it() {
    let daemon = Server::named("s").flags("--no-pings").line("tool_timeouts = { sleep = \"100ms\" }").start();
    let [mut one, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let timed_out = other.call("s__sleep", &json!({"ms": 1500, "ignore_cancel": true}));
    assert_eq!(code(&timed_out), -31002);
    let error = refusal(&mut one, SAMPLE, &json!({}));
    assert_eq!(error["code"], -31004, "{error}");
    daemon.wait_row("s", "has answered after all", |row| row["stray_responses"] == 1);
    let call = start_question(&mut one, SAMPLE, &json!({}));
    let question = one.expect_request(SAMPLE);
    one.respond(&question, &json!({}));
    content(&one.answer(&call));
}

#[test]
fn server_request_without_any_call_is_refused() {
    let daemon = Server::named("s").flags("--ask-at-start sampling/createMessage").start();
    let refused = daemon.wait_journal("s", "\"at start\"");
    let refused: Value = serde_json::from_str(&refused).expect("JSON");
    assert_eq!(refused["error"]["code"], -31004, "{refused}");
}

#[test]
fn with_an_instance_each_both_agents_get_their_own_request_though_the_ids_are_the_same() {
    let daemon = Server::named("s").line("sharing = \"session\"").start();
    let [mut one, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let calls = [(&mut one, "one"), (&mut other, "other")]
        .map(|(agent, name)| start_question(agent, ELICIT, &json!({ "message": name })));
    let questions = [&mut one, &mut other].map(|agent| agent.expect_request(ELICIT));
    for (agent, question, name) in [(&mut other, &questions[1], "other"), (&mut one, &questions[0], "one")] {
        assert_eq!(question["params"]["message"], name);
        agent.respond(question, &json!({ "content": name }));
    }
    for (agent, call, name) in [(&mut one, &calls[0], "one"), (&mut other, &calls[1], "other")] {
        let got = content(&agent.answer(call));
        assert_eq!((&got["id"], &got["result"]["content"]), (&json!("ask-2"), &json!(name)));
        agent.expect_quiet();
    }
}

#[test]
fn requests_of_two_servers_with_one_id_stay_separate() {
    let daemon = Setup::with(Server::named("s")).server(Server::named("t")).start();
    let mut agent = capable_agent(&daemon);
    let calls = ["s", "t"].map(|server| {
        let arguments = json!({"method": SAMPLE, "params": {"of": server}});
        agent.start_call(&format!("{server}__send_request"), &arguments)
    });
    let questions = [(); 2].map(|()| agent.expect_request(SAMPLE));
    assert_ne!(questions[0]["id"], questions[1]["id"]);
    for question in questions.iter().rev() {
        agent.respond(question, &question["params"]);
    }
    for (call, server) in calls.iter().zip(["s", "t"]) {
        let got = content(&agent.answer(call));
        assert_eq!((&got["id"], &got["result"]["of"]), (&json!("ask-2"), &json!(server)));
    }
}

#[test]
fn agent_receives_no_request_that_it_or_its_version_does_not_support() {
    let daemon = Server::named("s").start();
    let url = json!({"mode": "url", "elicitationId": "e", "url": "https://x"});
    let all = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}});
    for (version, capabilities, refused) in [
        ("2025-11-25", json!({}), [true, true, true]),
        ("2025-11-25", json!({"sampling": {}}), [false, true, true]),
        ("2025-11-25", json!({"elicitation": {}}), [true, false, true]),
        ("2025-11-25", json!({"elicitation": {"url": {}}}), [true, true, false]),
        ("2025-03-26", all, [false, true, true]),
    ] {
        let mut agent = Agent::connect(&daemon);
        result(&agent.initialize_as(version, &capabilities));
        for ((method, params, code), refused) in
            [(SAMPLE, json!({}), -32601), (ELICIT, json!({}), -32601), (ELICIT, url.clone(), -32602)]
                .iter()
                .zip(refused)
        {
            let call = start_question(&mut agent, method, params);
            if refused {
                let error = content(&agent.answer(&call))["error"].clone();
                assert_eq!(error["code"], *code, "{version} {capabilities} {params}: {error}");
                assert!(error["message"].as_str().is_some_and(|text| text.contains("not declared")), "{error}");
            } else {
                let question = agent.expect_request(method);
                agent.respond(&question, &json!({}));
                content(&agent.answer(&call));
            }
        }
        agent.expect_quiet();
    }
}

#[test]
fn malformed_server_request_is_refused_and_reaches_no_agent() {
    let daemon = Server::named("s").start();
    let mut agent = capable_agent(&daemon);
    for params in [json!([1]), json!({"mode": "telepathy"}), json!({"_meta": {"progressToken": {}}})] {
        assert_eq!(refusal(&mut agent, ELICIT, &params)["code"], -32602, "{params}");
    }
    agent.expect_quiet();
}
