//! Messages within one era pass unchanged. Between eras only members that the other era lacks are changed.

use serde_json::{Value, json};

use super::both;
use crate::support::{Agent, Daemon, Era, PROTOCOL, Place, Setup, result, until};

/// JSON that a careless relay alters.
const AWKWARD: &str = r#"{"zeta":1.10,"alpha":12345678901234567890123,"e":1E+2,"z":-0.0,  "caf\u00e9":"\/\ud83d\ude00😀","":[ ],"n":null,"deep":[[{"b":1,"a":2}]]}"#;
/// What a request of the modern era says of itself, awkwardly.
const CLIENT_META: &str = r#""io.modelcontextprotocol/clientCapabilities" : {"x":1.10},"io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const OTHER: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","x/y":{"n":2.50}"#;

/// Sends a line and gives the answer, both as they are.
fn exchange(agent: &mut Agent, line: &str) -> String {
    agent.send_raw(format!("{line}\n"));
    agent.next_line().expect("an answer").trim_end().to_owned()
}

/// The last line that the server got with `mark` in it, with `7` for its id.
fn received_line(daemon: &Daemon, server: Era, mark: &str) -> String {
    let line = until("it is heard", || daemon.journal(server.name()).into_iter().rfind(|line| line.contains(mark)));
    let id = serde_json::from_str::<Value>(&line).expect("JSON")["id"].clone();
    line.replace(&format!("\"id\":{id}"), "\"id\":7")
}

fn call(server: Era, meta: &str, mark: &str) -> String {
    let name = server.tool("echo");
    format!(
        r#"{{"x-first":1.0,"params":{{"v":[1.50], "_meta":{{{meta}}}, "arguments":{{"mark":"{mark}","a":{AWKWARD}}},"name":"{name}"}} ,"id":7,"method":"tools/call","jsonrpc":"2.0"}}"#
    )
}

#[test]
fn modern_call_reaches_a_modern_server_and_its_answer_the_agent_byte_for_byte() {
    let daemon = both();
    let mut agent = Agent::connect(&daemon);
    let line = call(Era::Modern, &format!("{OTHER},{CLIENT_META}"), "same");
    let answer = exchange(&mut agent, &line);
    let sent = line.replace("new__echo", "echo");
    assert_eq!(received_line(&daemon, Era::Modern, "same"), sent);
    let params = &sent[sent.find("{\"v\"").expect("it is there")..sent.find(" ,\"id\"").expect("it is there")];
    let pid = daemon.server_pid("new");
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"scripted","version":"1.0"}}}},"content":[],"structuredContent":{{"params":{params},"pid":{pid}}}}}}}"#
    );
    assert_eq!(answer, expected);
}

#[test]
fn members_that_the_legacy_era_lacks_are_removed_from_modern_calls() {
    let daemon = both();
    let mut agent = Agent::connect(&daemon);
    for (meta, left) in [
        (format!("{OTHER},{CLIENT_META}"), format!(r#", "_meta":{{{OTHER}}}"#)),
        (format!("{CLIENT_META},{OTHER}"), format!(r#", "_meta":{{{OTHER}}}"#)),
        (CLIENT_META.to_owned(), String::new()),
    ] {
        let line = call(Era::Legacy, &meta, "older");
        let answer = exchange(&mut agent, &line);
        let expected = line.replace("old__echo", "echo").replace(&format!(r#", "_meta":{{{meta}}}"#), &left);
        assert_eq!(received_line(&daemon, Era::Legacy, "older"), expected);
        assert!(answer.contains(AWKWARD), "{answer}");
        let result =
            r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[],"structuredContent":{"params":{"#;
        assert!(answer.starts_with(result), "{answer}");
    }
}

#[test]
fn legacy_calls_get_the_members_that_the_modern_era_requires() {
    let daemon = both();
    let mut agent = Agent::ready(&daemon);
    let line = call(Era::Modern, OTHER, "newer");
    let answer = exchange(&mut agent, &line);
    let received_line = received_line(&daemon, Era::Modern, "newer");
    let value: Value = serde_json::from_str(&received_line).expect("JSON");
    assert_eq!(value["params"]["_meta"][PROTOCOL], "2026-07-28");
    let sent = line.replace("new__echo", "echo");
    let (before, after) = sent.split_once(OTHER).expect("it is there");
    assert!(
        received_line.starts_with(before) && received_line.ends_with(after) && received_line.contains(OTHER),
        "{received_line}"
    );
    assert!(answer.contains(AWKWARD) && answer.ends_with("}}}"), "{answer}");
    for word in ["resultType", "ttlMs", "cacheScope"] {
        assert!(!answer.contains(word), "{answer}");
    }
}

/// Case J9.
#[test]
fn legacy_agent_is_not_sent_the_server_info_of_each_modern_result() {
    // Longer than any of the answers without it.
    let software = "x".repeat(1000);
    let daemon = Setup::with(Era::Modern.server("new").flags(&format!("--server-name {software}"))).start();
    let mut agent = Agent::ready(&daemon);
    let answer = exchange(&mut agent, &call(Era::Modern, OTHER, "lean"));
    let received_line = received_line(&daemon, Era::Modern, "lean");
    let params = &received_line
        [received_line.find("{\"v\"").expect("it is there")..received_line.find(" ,\"id\"").expect("it is there")];
    let pid = daemon.server_pid("new");
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"structuredContent":{{"params":{params},"pid":{pid}}}}}}}"#
    );
    assert_eq!(answer, expected);

    let info = format!(r#""io.modelcontextprotocol\/serverInfo":{{"name":"{software}"}}"#);
    for (meta, left) in [
        (format!("{OTHER},{info}"), format!(r#"{{"_meta":{{{OTHER}}},"n":1.0}}"#)),
        (format!("{info}, {OTHER}"), format!(r#"{{"_meta":{{ {OTHER}}},"n":1.0}}"#)),
        (info.clone(), r#"{"n":1.0}"#.to_owned()),
        (String::new(), r#"{"_meta":{},"n":1.0}"#.to_owned()),
    ] {
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"resultType\":\"complete\",\"_meta\":{{{meta}}},\"n\":1.0}}}}\n"
        );
        let id = agent.start_call("new__raw", &json!({"text": text, "answer": false}));
        let answer = agent.next_line().expect("an answer");
        assert_eq!(answer.trim_end(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{left}}}"#));
    }
}

/// Case J9.
#[test]
fn results_of_unknown_types_pass_to_modern_agents_and_are_errors_for_legacy_agents() {
    let daemon = both();
    let odd = r#"{"x":1.10,"resultType":"of/another" , "more":[ ]}"#;
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{odd}}}\n");
    let arguments = json!({"text": text, "answer": false});
    let mut modern = Agent::modern(&daemon, &json!({}));
    let id = modern.start_call("new__raw", &arguments);
    let line = modern.next_line().expect("an answer");
    assert_eq!(line.trim_end(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{odd}}}"#));
    let answer = Agent::ready(&daemon).call("new__raw", &arguments);
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}"));
    assert!(message.contains("of/another"), "{message}");
}

#[test]
fn tool_definitions_pass_unchanged() {
    let listing = r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[{"zeta":1.10,"name":"t","inputSchema":{"type":"object", "x":1E+2},"caf\u00e9":"\/"}]}"#;
    let place = Place::new();
    let server = Era::Modern.server("new").arg("--tool-list").arg(place.write("listing", listing));
    let daemon = Setup::with(server).start_in(&place);
    for era in Era::BOTH {
        let mut agent = era.agent(&daemon, &json!({}));
        agent.start_request("tools/list", &json!({}));
        let line = agent.next_line().expect("an answer");
        let expected = r#"{"zeta":1.10,"name":"new__t","inputSchema":{"type":"object", "x":1E+2},"caf\u00e9":"\/"}"#;
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn ids_of_modern_requests_keep_their_spelling() {
    let daemon = both();
    let mut agent = Agent::connect(&daemon);
    for id in ["1", "\"1\"", "-5", "9007199254740993", "18446744073709551616", "\"\\u0041\"", "\"é😀\"", "1.0"] {
        for server in Era::BOTH {
            let line = call(server, CLIENT_META, "id").replace("\"id\":7", &format!("\"id\":{id}"));
            let answer = exchange(&mut agent, &line);
            assert!(answer.contains(&format!("\"id\":{id},\"result\"")), "{id}: {answer}");
        }
    }
    result(&Agent::modern(&daemon, &json!({})).request("server/discover", &json!({})));
}
