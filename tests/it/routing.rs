//! Calls reach the named server and return unchanged under their id.

use serde_json::{Value, json};

use crate::support::{Agent, Server, Setup, arguments, call_text, code, result};

/// JSON that a careless relay alters: numbers, key order, escapes, white space, doubled keys.
const AWKWARD: &str = r#"{"zeta":1.10,"alpha":12345678901234567890123,"e":1E+2,"z":-0.0,"tiny":5e-324,  "caf\u00e9":"\u00e9é\/\\\"\ud83d\ude00😀\u0000","dup":1,"dup":2,"":[ ],"n":null,"deep":[[[[{"b":1,"a":2}]]]]}"#;

/// Sends `params` raw and gives the raw answer.
fn raw_call(agent: &mut Agent, id: &str, params: &str) -> String {
    agent.send_raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#) + "\n");
    agent.next_line().expect("an answer")
}

#[test]
fn call_reaches_the_server_it_names() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    for server in ["a", "b", "a"] {
        let answer = agent.call(&format!("{server}__echo"), &json!({"to": server}));
        assert_eq!(arguments(&answer), &json!({"to": server}));
        assert_eq!(result(&answer)["structuredContent"]["pid"], daemon.row(server)["pid"]);
        let params = &result(&answer)["structuredContent"]["params"];
        assert_eq!(params["name"], "echo", "the server hears its own name of the tool");
    }
}

/// Case C13.
#[test]
fn name_that_is_almost_listed_reaches_no_server() {
    let bare = |name: &str, tool: &str| Server::named(name).flags("--bare --tool").arg(tool);
    let daemon = Setup::with(bare("a", "x")).server(bare("b", "y")).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__x", "b__y"]);
    for name in
        ["x", "y", "a__X", "A__x", "a__y", "b__x", "a_x", "a__x ", "a__x\0", "a/x", "b__a__x", "a", "a__", "__x"]
    {
        assert_eq!(code(&agent.call(name, &json!({}))), -32602, "{name:?}");
    }
    arguments(&agent.call("a__x", &json!({})));
    arguments(&agent.call("b__y", &json!({})));
    for (server, count) in [("a", 1), ("b", 1)] {
        assert_eq!(daemon.count_journal(server, "tools/call"), count);
    }
}

#[test]
fn arguments_pass_to_the_server_and_back_byte_for_byte() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let answer = raw_call(&mut agent, "1", &format!(r#"{{"name":"a__echo","arguments":{AWKWARD}}}"#));
    assert!(answer.contains(AWKWARD), "{answer}");
    daemon.wait_journal("a", AWKWARD);
}

#[test]
fn fields_that_mcpd_does_not_know_pass_in_their_place() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let params = |name: &str| {
        format!(
            r#"{{"task":{{"ttl":1.10}},"arguments":{AWKWARD},"name":"{name}" , "_meta":{{"x/y":{AWKWARD}}},"v":1}}"#
        )
    };
    let answer = raw_call(&mut agent, "1", &params("a__echo"));
    assert!(answer.contains(&params("echo")), "{answer}");
}

/// Case C5.
#[test]
fn id_keeps_its_spelling() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let long = format!("\"{}\"", "x".repeat(5_000));
    let ids = [
        "1",
        "\"1\"",
        "0",
        "-5",
        "9223372036854775807",
        "9223372036854775808",
        "9007199254740993",
        "1.0",
        "\"\"",
        "\"\\u0041\"",
        "\"é😀\"",
        "18446744073709551616",
        &long,
    ];
    for id in ids {
        let answer = raw_call(&mut agent, id, r#"{"name":"a__echo"}"#);
        assert!(answer.contains(&format!("\"id\":{id}")), "id {id}: {answer}");
    }
}

/// Case C5.
#[test]
fn number_one_and_the_text_one_are_two_ids() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let call = |id: &str, ms: u32| call_text(id, "a__sleep", &format!(r#"{{"ms":{ms}}}"#));
    agent.send_raw(format!("{}\n{}\n", call("1", 300), call("\"1\"", 1)));
    assert_eq!(arguments(&agent.answer(&json!("1"))), &json!({"ms": 1}));
    assert_eq!(arguments(&agent.answer(&json!(1))), &json!({"ms": 300}));
}

#[test]
fn server_never_sees_an_agents_id() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    raw_call(&mut agent, "9007199254740993", r#"{"name":"a__echo","arguments":{"mark":1}}"#);
    let line = daemon.wait_journal("a", "\"mark\"");
    let id = serde_json::from_str::<Value>(&line).expect("JSON")["id"].as_u64().expect("a small integer");
    assert!(id < 1 << 31, "{id}");
}

#[test]
fn servers_own_error_passes_unaltered() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let answer = raw_call(&mut agent, "1", r#"{"name":"a__fail","arguments":{"code":-5,"message":"é no"}}"#);
    let error =
        r#""error":{"code":-5,"message":"é no","data":{"zeta":1.10,"alpha":12345678901234567890123},"x-vendor":true}"#;
    assert!(answer.contains(error), "{answer}");
}

#[test]
fn tool_that_refuses_is_a_result_like_any_other() {
    let daemon = Server::named("a").start();
    let answer = Agent::ready(&daemon).call("a__refuse", &json!({}));
    assert_eq!(result(&answer), &json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
}

#[test]
fn large_answer_and_a_large_call_arrive_whole() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__big", &json!({"bytes": 4 << 20}));
    let text = result(&answer)["structuredContent"]["value"].as_str().expect("text");
    assert!(text.len() == 4 << 20 && text.bytes().all(|byte| byte == b'x'));
    let sent = json!({"text": "é".repeat(1 << 20)});
    assert!(*arguments(&agent.call("a__echo", &sent)) == sent);
}

/// Case B5.
#[test]
fn response_written_byte_by_byte_is_unchanged() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let answer = raw_call(&mut agent, "1", &format!(r#"{{"name":"a__dribble","arguments":{AWKWARD}}}"#));
    assert!(answer.contains(AWKWARD), "{answer}");
}

/// Case C7.
#[test]
fn call_written_one_byte_at_a_time_is_the_same_call() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let call = call_text("1", "a__echo", AWKWARD);
    for byte in call.bytes().chain(*b"\n") {
        agent.send_raw([byte]);
    }
    let answer = agent.next_line().expect("an answer");
    assert!(answer.contains(AWKWARD), "{answer}");
}
