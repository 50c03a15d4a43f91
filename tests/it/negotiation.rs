//! Version negotiation, and the error for each malformed message.

use serde_json::{Value, json};

use crate::support::{Agent, Server, Setup, arguments, call_text, code, result};

/// Sends one line and gives the answer, then makes sure that the connection lives on.
fn answer_to(agent: &mut Agent, line: &str) -> Value {
    agent.send_raw(format!("{line}\n"));
    let answer = agent.next();
    agent.expect_quiet();
    answer
}

#[test]
fn known_version_is_echoed_and_any_other_gets_the_newest() {
    let daemon = Server::named("a").start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = Agent::connect(&daemon).initialize(version);
        assert_eq!(result(&answer)["protocolVersion"], version);
    }
    for version in ["2024-10-07", "2026-07-28", "1999-01-01", "", "latest"] {
        let answer = Agent::connect(&daemon).initialize(version);
        assert_eq!(result(&answer)["protocolVersion"], "2025-11-25", "asked for {version:?}");
    }
}

#[test]
fn handshake_names_the_server_and_announces_list_changes() {
    let daemon = Server::named("a").start();
    let answer = Agent::connect(&daemon).initialize("2025-06-18");
    assert_eq!(result(&answer)["serverInfo"]["name"], "mcpd");
    assert_eq!(result(&answer)["capabilities"]["tools"]["listChanged"], true);
}

#[test]
fn each_agent_has_a_version_of_its_own() {
    let daemon = Server::named("a").start();
    let (mut old, mut new) = (Agent::connect(&daemon), Agent::connect(&daemon));
    assert_eq!(result(&old.initialize("2024-11-05"))["protocolVersion"], "2024-11-05");
    assert_eq!(result(&new.initialize("2025-11-25"))["protocolVersion"], "2025-11-25");
    arguments(&old.call("a__echo", &json!({})));
    arguments(&new.call("a__echo", &json!({})));
}

#[test]
fn client_that_discovers_first_is_turned_to_initialize_at_once() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    assert_eq!(code(&agent.request("server/discover", &json!({}))), -32602);
    result(&agent.initialize("2025-11-25"));
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(code(&agent.request("server/discover", &json!({}))), -32601);
}

#[test]
fn request_with_a_bad_explicit_version_is_refused_with_the_reason() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    let params = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(code(&agent.request(method, &params)), -32601, "{method} without a URI");
    }
    let refused = agent.request("tools/call", &params);
    assert_eq!((code(&refused), &refused["error"]["message"]), (-32602, &json!("`name` is missing or not a string")));
}

#[test]
fn ping_is_answered_before_and_after_the_handshake() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    assert_eq!(agent.request("ping", &json!({}))["result"], json!({}));
    result(&agent.initialize("2025-11-25"));
    assert_eq!(agent.request("ping", &json!({}))["result"], json!({}));
}

/// Case C6.
#[test]
fn invalid_json_is_a_parse_error_and_the_connection_stays_open() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for line in ["{", "nonsense", "{\"jsonrpc\":\"2.0\",\"id\":1,}", "{\"id\":1} {\"id\":2}", "\u{7f}\u{1}"] {
        let answer = answer_to(&mut agent, line);
        assert_eq!((code(&answer), &answer["id"]), (-32700, &Value::Null), "{line:?}");
    }
    agent.send_raw(b"\xff\xfe\n");
    assert_eq!(code(&agent.next()), -32700);
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case C12.
#[test]
fn message_that_is_no_request_is_an_invalid_request() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    for line in [batch, "[]", "42", "\"text\"", "null", "{}"] {
        assert_eq!(code(&answer_to(&mut agent, line)), -32600, "{line}");
    }
}

/// Case C5.
#[test]
fn id_that_is_neither_number_nor_string_is_refused() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for id in ["null", "true", "{}", "[1]"] {
        let answer = answer_to(&mut agent, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null), "{id}");
    }
}

/// Case C12.
#[test]
fn call_before_the_handshake_is_refused_and_reaches_no_server() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    assert_eq!(code(&agent.call("a__echo", &json!({}))), -32602);
    assert_eq!(code(&agent.request("tools/list", &json!({}))), -32602);
    result(&agent.initialize("2025-11-25"));
    assert!(!daemon.journal("a").iter().any(|line| line.contains("tools/call")));
}

#[test]
fn handshake_without_a_version_is_refused_and_can_be_made_again() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    for params in [json!({}), json!({"protocolVersion": 7})] {
        assert_eq!(code(&agent.request("initialize", &params)), -32602, "{params}");
    }
    result(&agent.initialize("2025-11-25"));
}

#[test]
fn initialize_without_valid_capabilities_and_client_info_is_refused() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::connect(&daemon);
    let info = json!({"name": "a", "version": "1"});
    for (capabilities, info) in [
        (None, Some(info.clone())),
        (Some(json!(7)), Some(info.clone())),
        (Some(json!([])), Some(info)),
        (Some(json!({})), None),
        (Some(json!({})), Some(json!("a 1"))),
        (Some(json!({})), Some(json!({"name": "a"}))),
        (Some(json!({})), Some(json!({"name": 7, "version": "1"}))),
    ] {
        let mut params = json!({"protocolVersion": "2025-11-25"});
        for (key, value) in [("capabilities", capabilities), ("clientInfo", info)] {
            value.into_iter().for_each(|value| params[key] = value);
        }
        assert_eq!(code(&agent.request("initialize", &params)), -32602, "{params}");
    }
    result(&agent.initialize("2025-11-25"));
}

#[test]
fn malformed_metadata_is_refused_before_and_after_initialize() {
    let daemon = Server::named("a").start();
    for is_initialized in [false, true] {
        let mut agent = if is_initialized { Agent::ready(&daemon) } else { Agent::connect(&daemon) };
        for meta in [
            json!({"io.modelcontextprotocol/protocolVersion": 7}),
            json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
            json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": [],
            }),
            json!([]),
            json!({"progressToken": {}}),
        ] {
            for method in ["tools/list", "tools/call", "server/discover", "ping", "subscriptions/listen"] {
                let answer = agent.request(method, &json!({"name": "a__echo", "_meta": meta}));
                assert_eq!(code(&answer), -32602, "{is_initialized} {method} {meta}");
            }
        }
    }
    assert!(!daemon.journal("a").iter().any(|line| line.contains("tools/call")));
}

#[test]
fn every_declared_capability_is_served_without_any_server() {
    let daemon = Setup::new().start();
    let mut agent = Agent::connect(&daemon);
    let answer = agent.initialize("2025-11-25");
    let declared: Vec<_> = result(&answer)["capabilities"].as_object().expect("an object").keys().cloned().collect();
    assert_eq!(declared, ["prompts", "resources", "tools"], "the others are answered, too");
    let complete = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    assert_eq!(code(&agent.request("completion/complete", &complete)), -32602, "an unknown prompt, a known method");
    assert_eq!(agent.request("logging/setLevel", &json!({"level": "info"}))["result"], json!({}));
    for (method, list) in
        [("prompts/list", "prompts"), ("resources/list", "resources"), ("tasks/list", "tasks"), ("tools/list", "tools")]
    {
        assert_eq!(result(&agent.request(method, &json!({})))[list], json!([]), "{method}");
    }
}

/// Case C12.
#[test]
fn second_handshake_is_refused_and_changes_nothing() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(code(&agent.initialize("2024-11-05")), -32600);
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(daemon.status()["agents"][0]["protocol"], "2025-11-25");
}

/// Case C12.
#[test]
fn unknown_method_is_not_found() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for method in ["tools/destroy", "", "daemon/stop", "status", "rpc.discover"] {
        assert_eq!(code(&agent.request(method, &json!({}))), -32601, "{method:?}");
    }
}

#[test]
fn call_without_usable_params_is_refused() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let call = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#;
    for params in [
        "",
        r#","params":{}"#,
        r#","params":{"arguments":{}}"#,
        r#","params":{"name":7}"#,
        r#","params":{"name":null}"#,
    ] {
        let line = call.replace('}', &format!("{params}}}"));
        assert_eq!(code(&answer_to(&mut agent, &line)), -32602, "{line}");
    }
}

/// Case C4.
#[test]
fn id_in_flight_cannot_be_used_again_and_the_first_call_completes() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let call = call_text(r#""twice""#, "a__sleep", r#"{"ms":500}"#);
    agent.send_raw(format!("{call}\n{call}\n"));
    assert_eq!(code(&agent.answer(&json!("twice"))), -32600);
    arguments(&agent.answer(&json!("twice")));
    agent.send_raw(format!("{call}\n"));
    arguments(&agent.answer(&json!("twice")));
}

/// Case C8.
#[test]
fn notification_or_response_that_means_nothing_is_ignored() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.notify("notifications/of_another_age", &json!({"x": 1}));
    agent.cancel(&json!(77));
    agent.notify("notifications/cancelled", &Value::Null);
    agent.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    agent.send(&json!({"jsonrpc": "2.0", "id": "ask", "error": {"code": 1, "message": "no"}}));
    agent.expect_quiet();
}

#[test]
fn lines_may_end_like_on_another_system() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.send_raw("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}\r\n");
    assert_eq!(agent.answer(&json!("x"))["result"], json!({}));
}

/// Case C6.
#[test]
fn peer_with_another_protocol_affects_no_others() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let mut browser = Agent::connect(&daemon);
    browser.send_raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut tls = Agent::connect(&daemon);
    tls.send_raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\x00\n");
    arguments(&agent.call("a__echo", &json!({})));
    browser.disconnect();
    tls.disconnect();
    arguments(&agent.call("a__echo", &json!({})));
}
