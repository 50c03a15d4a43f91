//! Messages that are nearly valid: read as the only message that they can be, or named.

use serde_json::json;

use crate::support::{Agent, Server, Setup, arguments, code, result};

/// A server that replaces texts in all its lines.
fn spelling(name: &str, spellings: &[&str]) -> Server {
    spellings.iter().fold(Server::named(name), |server, spelling| server.arg("--spell").arg(spelling))
}

/// Case B24.
#[test]
fn server_whose_messages_are_nearly_valid_is_served() {
    const TOOLS: &str = r#"{"tools":{"listChanged":true}}"#;
    let joined = r#"{"jsonrpc":"2.0","id"=>{"jsonrpc":"2.0","method":"notifications/x"} {"jsonrpc":"2.0","id""#;
    let mut servers = vec![
        spelling("null-error", &[r#","result":=>,"error":null,"result":"#]),
        spelling("null-all", &[r#""jsonrpc":"2.0"=>"jsonrpc":"2.0","params":null,"method":null"#]),
        spelling("text-id", &[r#""id":$ID=>"id":"$ID""#]),
        spelling("fraction-id", &[r#""id":$ID=>"id":$ID.0"#]),
        spelling("unversioned", &[r#""jsonrpc":"2.0",=>"#]),
        spelling("unversioned-null", &[r#""jsonrpc":"2.0"=>"error":null,"jsonrpc":null"#]),
        spelling("array-result", &[r#""result":{}=>"result":[]"#]),
        spelling("array-capabilities", &[&format!("{TOOLS}=>[]")]),
        spelling("array-tools", &[r#"{"listChanged":true}=>[]"#]),
        spelling("null-capabilities", &[&format!("{TOOLS}=>null")]),
        spelling("null-tools", &[&format!(r#"{TOOLS}=>{{"tools":null,"experimental":{{}}}}"#)]),
        spelling("undeclared", &[&format!("{TOOLS}=>{{}}")]),
        spelling("escaped", &["{\"jsonrpc\"=>\u{1b}[2K\u{1b}]0;title\u{7}{\"jsonrpc\""]),
        spelling("joined", &[joined]),
    ];
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        servers.push(Server::named(&format!("only-{version}")).flags(&format!("--only-version {version}")));
    }
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let setup = servers.into_iter().map(|server| server.flags("--bare --tool echo"));
    let mut setup = setup.map(|server| server.line("handshake_timeout = \"60s\""));
    let first = Setup::with(setup.next().expect("a server"));
    let daemon = setup.fold(first, Setup::server).start();
    for name in &names {
        daemon.wait_row(name, "is ready", |row| row["state"] == "ready" && row["tools_exposed"] == 1);
    }
    let mut agent = Agent::ready(&daemon);
    for name in &names {
        assert_eq!(arguments(&agent.call(&format!("{name}__echo"), &json!({"n": 1}))), &json!({"n": 1}), "{name}");
        assert_eq!(daemon.row(name)["stray_responses"], 0, "{name}");
    }
}

/// Case B24.
#[test]
fn line_that_is_nearly_an_answer_ends_its_call() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":"$ID","result":{"n":1},"error":null}"#, json!({"n": 1})),
        (r#"{"jsonrpc":"2.0","id":$ID,"result":[ ]}"#, json!({})),
        ("\u{1b}[1m{\"jsonrpc\":\"2.0\",\"id\":$ID.0,\"result\":{}}\u{1b}[0m", json!({})),
    ] {
        let answer = agent.call("a__raw", &json!({"text": format!("{line}\n"), "answer": false}));
        assert_eq!(result(&answer), &expected, "{line}");
    }
    let failed = r#"{"jsonrpc":"2.0","id":$ID,"result":null,"error":{"code":-7,"message":"m"}}"#;
    assert_eq!(code(&agent.call("a__raw", &json!({"text": format!("{failed}\n"), "answer": false}))), -7);
    // The daemon has no reason to accept it from this server.
    for line in [
        r#"{"id":$ID,"result":{}}{"id":$ID}"#,
        r#"{"id":$ID,"error":{"code":-7,"message":"m"}}"#,
        r#"> {"jsonrpc":"2.0","id":$ID,"result":{}}"#,
        "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\r{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}",
        r#"{"level":30}{"jsonrpc":"2.0","id":$ID,"result":{}}"#,
    ] {
        let answer = agent.call("a__raw", &json!({"text": format!("{line}\n")}));
        assert!(result(&answer).get("content").is_some(), "{line} ends the call with {answer}");
    }
    agent.expect_quiet();
}

/// Case B25.
#[test]
fn server_that_is_not_understood_is_down_with_its_own_words() {
    let limit = "handshake_timeout = \"2s\"";
    let setup = Setup::with(spelling("prompt", &["{\"jsonrpc\"=>> {\"jsonrpc\""]).line(limit));
    let daemon = setup.server(spelling("zero", &[r#""id":$ID=>"id":0"#]).line(limit)).start();
    // On a busy machine an attempt may end before the server has sent anything, or has answered both probes.
    for (name, expected) in [("prompt", vec![r#"`> {"jsonrpc""#]), ("zero", vec!["no request had", "`0`"])] {
        daemon.wait_row(name, "has failed with the words of its server", |row| {
            let reason = row["reason"].as_str().unwrap_or_default();
            reason.contains("`initialize`") && expected.iter().all(|words| reason.contains(words))
        });
    }
}

/// Case C19.
#[test]
fn notification_that_an_agent_sends_with_an_id_takes_effect() {
    let daemon = Server::named("a").start();
    for (id, expected) in [("null", None), ("5", Some(json!(5))), ("\"x\"", Some(json!("x")))] {
        let mut agent = Agent::connect(&daemon);
        let client = json!({"name": "test-agent", "version": "7"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": null, "clientInfo": client, "_meta": null});
        result(&agent.request("initialize", &params));
        agent.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"notifications/initialized\"}}\n"));
        if let Some(id) = expected {
            assert_eq!(result(&agent.answer(&id)), &json!({}));
        }
        let call = agent.start_call("a__sleep", &json!({"ms": 600_000}));
        daemon.wait_row("a", "has a call", |row| row["in_flight"] == 1);
        let cancelled = json!({"requestId": call});
        agent.send_raw(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"notifications/cancelled\",\"params\":{cancelled}}}\n"
        ));
        daemon.wait_row("a", "has no call", |row| row["in_flight"] == 0);
        if id != "null" {
            result(&agent.next());
        }
        agent.expect_quiet();
    }
}

/// Case J15.
#[test]
fn modern_result_without_a_type_is_complete() {
    let server = spelling("a", &[r#""resultType":"complete",=>"#]).flags("--era modern");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::modern(&daemon, &json!({}));
    let answer = agent.call("a__echo", &json!({"n": 1}));
    assert_eq!(result(&answer)["resultType"], "complete", "{answer}");
    assert_eq!(arguments(&answer), &json!({"n": 1}));
}
