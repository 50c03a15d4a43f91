//! Lines on a server's stdout that are not protocol messages are counted and affect neither start nor calls.

use serde_json::json;

use crate::support::{Agent, Server, Setup, arguments, code, result};

/// Case B1.
#[test]
fn json_log_on_stdout_is_skipped_and_counted_before_during_and_after_the_handshake() {
    let flags = "--bare --tool echo --tool sleep --json-log";
    let daemon = Server::named("a").flags(flags).line("handshake_timeout = \"60s\"").start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__echo", "a__sleep"]);
    for n in 0..5 {
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    arguments(&agent.call("a__sleep", &json!({"ms": 100})));
    let row = daemon.row("a");
    let request_count = daemon.count_journal("a", "\"id\"");
    // One line before all others.
    let counters = (&row["skipped_lines"], &row["stray_responses"], &row["restarts"], &row["errors"]);
    assert_eq!(counters, (&json!(request_count + 1), &json!(0), &json!(0), &json!(0)));
}

/// Case B12.
#[test]
fn line_of_a_log_that_carries_the_id_of_a_call_is_not_its_answer() {
    let daemon = Server::named("a").flags("--bare --tool raw").start();
    let mut agent = Agent::ready(&daemon);
    let lines = [
        r#"{"level":30,"id":$ID,"msg":"x"}"#,
        r#"{"level":30,"time":1,"pid":7,"hostname":"h","id":$ID,"method":"tools/call","msg":"x"}"#,
        r#"{"id":$ID,"error":"text"}"#,
        r#"{"id":$ID}"#,
    ];
    for (n, line) in lines.iter().enumerate() {
        let answer = agent.call("a__raw", &json!({"text": format!("{line}\n")}));
        assert!(answer["error"].is_null(), "{line} ends the call with {answer}");
        assert_eq!(daemon.row("a")["skipped_lines"], n + 1, "{line}");
    }
    agent.expect_quiet();
}

#[test]
fn oversized_server_request_does_not_answer_a_call() {
    let server = Server::named("a").flags("--bare --tool raw");
    let daemon = Setup::with(server).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = Agent::ready(&daemon);
    let lines = [
        r#"{"jsonrpc":"2.0","id":$ID,"method":"sampling/createMessage","params":{"x":"$FILL"}}"#,
        r#"{"jsonrpc":"2.0","method":"sampling/createMessage","id":$ID,"params":{"x":"$FILL"}}"#,
        r#"{"params":{"x":"$FILL"},"method":"sampling/createMessage","id":$ID,"jsonrpc":"2.0"}"#,
        r#"{"params":{"x":"$FILL"},"id":$ID,"jsonrpc":"2.0","method":"sampling/createMessage"}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"params":{"x":"$FILL"},"method":"sampling/createMessage"}"#,
    ];
    for (n, line) in lines.iter().enumerate() {
        let answer = agent.call("a__raw", &json!({"text": format!("{line}\n"), "fill": 100_000}));
        assert!(answer["error"].is_null(), "{line} ends the call with {answer}");
        result(&answer);
        assert_eq!(daemon.row("a")["skipped_lines"], n + 1, "{line}");
    }
    agent.expect_quiet();
}

/// Case B4.
#[test]
fn oversized_response_ends_its_call_at_once_whatever_it_contains() {
    let server = Server::named("a").flags("--bare --tool raw");
    let daemon = Setup::with(server).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = Agent::ready(&daemon);
    let lines = [
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"structuredContent":{"method":"GET","x":"$FILL"}}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"structuredContent":{"x":"$FILL","method":"GET"}}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"m","data":{"x":"$FILL","method":"GET"}}}"#,
        r#"{"result":{"method":"GET","x":"$FILL"},"id":$ID,"jsonrpc":"2.0"}"#,
    ];
    for line in lines {
        let answer = agent.call("a__raw", &json!({"text": format!("{line}\n"), "fill": 100_000, "answer": false}));
        assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("unknown")), "{line}");
    }
    agent.expect_quiet();
}
