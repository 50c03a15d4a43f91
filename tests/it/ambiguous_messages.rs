//! Messages that two JSON readers could interpret differently are refused before any server receives them.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, arguments, code, result};

/// What no server may ever read.
const SECRET: &str = "write_file";

fn daemon() -> Daemon {
    let flags = "--bare --tool echo --tool sleep --tool progress --tool raw --tool write_file";
    Server::named("a").flags(flags).line(r#"deny = ["write_file"]"#).start()
}

/// A call with more members in its envelope.
fn call(params: &str, more: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{params}{more}}}"#)
}

/// Sends a line with the secret in it; fails unless it is refused with one of `codes` and reaches no server.
#[track_caller]
fn expect_refusal(daemon: &Daemon, agent: &mut Agent, line: &str, codes: &[i64]) {
    assert!(line.contains(SECRET), "{line}");
    agent.send_raw(format!("{line}\n"));
    let answer = agent.next();
    assert!(answer["result"].is_null() && codes.contains(&code(&answer)), "{line:?} is answered with {answer}");
    agent.expect_quiet();
    // What a server reads, it reads in order.
    arguments(&agent.call("a__echo", &json!({})));
    let received: Vec<_> = daemon.journal("a").into_iter().filter(|received| received.contains(SECRET)).collect();
    assert!(received.is_empty(), "{line:?} reached the server: {received:?}");
}

#[test]
fn carriage_return_hides_no_second_message_within_a_first() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let hidden = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_file"}}"#;
    let lines = [
        call(&format!("{{\"name\":\"a__echo\",\"arguments\":{{\"x\":\r{hidden}\r}}}}"), ""),
        call("{\"name\":\"a__echo\",\"arguments\":\r{\"x\":\"write_file\"}}", ""),
        call(r#"{"name":"a__echo","arguments":{"x":"write_file"}}"#, "\r"),
        format!("\r{}", call(r#"{"name":"a__echo","arguments":{"x":"write_file"}}"#, "")),
        format!("{}\r\r", call(r#"{"name":"a__echo","arguments":{"x":"write_file"}}"#, "")),
    ];
    for line in &lines {
        expect_refusal(&daemon, &mut agent, line, &[-32700]);
    }
}

#[test]
fn carriage_return_at_the_end_of_a_line_is_part_of_the_end() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    agent.send_raw(call(r#"{"name":"a__echo","arguments":{"x":"\r"}}"#, "") + "\r\n");
    assert_eq!(arguments(&agent.answer(&json!("x"))), &json!({"x": "\r"}));
}

#[test]
fn carriage_return_of_a_server_hides_nothing_from_an_agent() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":$ID,\r\"result\":{\"content\":[]}}\n";
    let progress = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":\r{\"progressToken\":$ID,\"progress\":1}}\n";
    for text in [answer, progress] {
        let params = json!({"name": "a__raw", "arguments": {"text": text}, "_meta": {"progressToken": "t"}});
        arguments(&agent.request("tools/call", &params));
        agent.expect_quiet();
    }
    assert_eq!(daemon.row("a")["skipped_lines"], 2);
}

#[test]
fn lookalike_of_an_envelope_key_is_refused() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let params = r#"{"name":"a__echo","arguments":{"x":"write_file"}}"#;
    let keys = [
        "Method",
        "METHOD",
        "ID",
        "Id",
        "iD",
        "Params",
        "PARAMS",
        "param\u{17f}",
        "JSONRPC",
        "j\u{17f}onrpc",
        "method\\u0000",
        "id\\u0000",
        "params\\u0000",
        "param\\u017f",
        "\\u004dethod",
    ];
    for key in keys {
        let beside = call(params, &format!(r#","{key}":{{"name":"write_file"}}"#));
        expect_refusal(&daemon, &mut agent, &beside, &[-32600]);
    }
    for (right, wrong) in [("\"id\"", "\"ID\""), ("\"method\"", "\"Method\""), ("\"params\"", "\"Params\"")] {
        expect_refusal(&daemon, &mut agent, &call(params, "").replace(right, wrong), &[-32600, -32602]);
    }
}

#[test]
fn lookalike_of_a_call_key_is_refused() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    for key in ["Name", "NAME", "nAME", "name\\u0000", "\\u004eame", "name\\u0000\\u0000"] {
        let lines = [
            format!(r#"{{"name":"a__echo","{key}":"write_file"}}"#),
            format!(r#"{{"{key}":"write_file","name":"a__echo"}}"#),
            format!(r#"{{"{key}":"write_file"}}"#),
        ];
        for params in lines {
            expect_refusal(&daemon, &mut agent, &call(&params, ""), &[-32600, -32602]);
        }
    }
    for key in ["_Meta", "_META", "_meta\\u0000"] {
        let params = format!(r#"{{"name":"a__echo","arguments":{{"x":"write_file"}},"{key}":{{"progressToken":1}}}}"#);
        expect_refusal(&daemon, &mut agent, &call(&params, ""), &[-32600, -32602]);
    }
    for key in ["ProgressToken", "progresstoken", "progre\u{17f}sToken", "progressTo\u{212a}en", "progressToken\\u0000"]
    {
        let params = format!(r#"{{"name":"a__echo","arguments":{{"x":"write_file"}},"_meta":{{"{key}":1}}}}"#);
        expect_refusal(&daemon, &mut agent, &call(&params, ""), &[-32600, -32602]);
    }
}

#[test]
fn keys_that_look_like_no_other_pass() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let params = r#"{"name":"echo","names":1,"nam":2,"_metadata":3,"arguments":{"Name":"x","METHOD":"y","ID":4},"_meta":{"x/Name":5,"ID":6}}"#;
    agent.send_raw(call(&params.replacen("echo", "a__echo", 1), "") + "\n");
    let line = agent.next_line().expect("an answer");
    assert!(line.contains(params), "{line}");
}

#[test]
fn ambiguous_json_does_not_cancel_the_call_of_another_agent() {
    let daemon = daemon();
    let (mut victim, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let theirs = victim.start_call("a__sleep", &json!({"ms": 700, "whose": "theirs"}));
    let sent: Value = serde_json::from_str(&daemon.wait_journal("a", "theirs")).expect("JSON");
    let own = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    // One that was not sent yet would only be taken back.
    daemon.wait_journal("a", "60000");
    for key in ["RequestId", "requestid", "reque\u{17f}tId", "requestId\\u0000", "requestId"] {
        let params = format!(r#"{{"requestId":{own},"{key}":{}}}"#, sent["id"]);
        agent.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}\n"));
    }
    agent.cancel(&own);
    agent.expect_quiet();
    arguments(&victim.answer(&theirs));
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
    // What a server reads, it reads in order.
    arguments(&agent.call("a__echo", &json!({})));
    let received: Vec<_> = daemon.journal("a").into_iter().filter(|line| line.contains("cancelled")).collect();
    assert!(received.len() == 1 && received[0].matches("equest").count() == 1, "{received:?}");
}

#[test]
fn malformed_progress_token_is_refused() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let (long, long_number) = (format!("\"{}\"", "x".repeat(9000)), "7".repeat(9000));
    for token in ["true", "{}", "[1]", "null", &long, &long_number] {
        let params = r#"{"name":"a__progress","arguments":{"n":1,"x":"write_file"},"_meta":{"progressToken":TOKEN}}"#;
        expect_refusal(&daemon, &mut agent, &call(&params.replace("TOKEN", token), ""), &[-32602]);
    }
}

/// Case C5.
#[test]
fn id_without_measure_is_refused() {
    let daemon = daemon();
    let mut agent = Agent::ready(&daemon);
    let params = r#"{"name":"a__echo","arguments":{"x":"write_file"}}"#;
    for id in [format!("\"{}\"", "x".repeat(9000)), "7".repeat(9000)] {
        let line = call(params, "").replace("\"x\",\"method\"", &format!("{id},\"method\""));
        expect_refusal(&daemon, &mut agent, &line, &[-32600]);
    }
}

#[test]
fn duplicate_progress_token_leaks_no_progress_to_another_agent() {
    let daemon = daemon();
    let (mut victim, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let theirs =
        json!({"name": "a__sleep", "arguments": {"ms": 500, "whose": "theirs"}, "_meta": {"progressToken": "t"}});
    let theirs = victim.start_request("tools/call", &theirs);
    let sent: Value = serde_json::from_str(&daemon.wait_journal("a", "theirs")).expect("JSON");
    for meta in [r#""progressToken":"own","progressToken":ID"#, r#""progressToken":ID,"progressToken":"own""#] {
        let meta = meta.replace("ID", &sent["id"].to_string());
        let params = format!(r#"{{"name":"a__progress","arguments":{{"n":2,"x":"write_file"}},"_meta":{{{meta}}}}}"#);
        expect_refusal(&daemon, &mut agent, &call(&params, ""), &[-32602]);
    }
    result(&victim.answer(&theirs));
    victim.expect_quiet();
}
