//! Malformed server output: agents get one well-formed response per request, and the server's counters record the faults.

use serde_json::{Value, json};

use crate::support::{Agent, Place, Server, Setup, arguments, code, resident_kib, result, until};

/// Makes the server write `text` and then answer.
fn write(agent: &mut Agent, text: &str) {
    arguments(&agent.call("a__raw", &json!({"text": text})));
}

/// Case B1.
#[test]
fn lines_that_are_not_messages_are_skipped_and_counted() {
    let daemon = Setup::beside_good(Server::named("a").flags("--banner --crlf")).start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    let before = daemon.row("a")["skipped_lines"].as_u64().expect("a count");
    assert!(before >= 4, "{before} lines skipped");
    write(&mut agent, "Loading model...\n{\"half\": \n");
    assert_eq!(daemon.row("a")["skipped_lines"], before + 2);
    agent.expect_quiet();
}

/// Case B10.
#[test]
fn responses_with_unknown_ids_are_dropped_and_counted() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(arguments(&agent.call("a__wrong_id_reply", &json!({"n": 1}))), &json!({"n": 1}));
    let row = daemon.wait_row("a", "counts them", |row| {
        row["stray_responses"]
            .as_u64()
            .zip(row["skipped_lines"].as_u64())
            .is_some_and(|(stray, skipped)| stray + skipped == 6)
    });
    assert!(row["stray_responses"].as_u64() >= Some(3), "{row}");
    agent.expect_quiet();
}

/// Case B9.
#[test]
fn second_response_to_one_call_is_dropped_and_counted() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__duplicate_reply", &json!({})));
    daemon.wait_row("a", "counts it", |row| row["stray_responses"] == 1);
    agent.expect_quiet();
}

/// Case B11.
#[test]
fn response_with_an_agents_own_id_is_not_delivered_to_that_agent() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let (mut victim, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let sleep = r#""method":"tools/call","params":{"name":"a__sleep","arguments":{"ms":500}}"#;
    // What `wrong_id_reply` answers to.
    let ids = ["987654", "-1", "\"1\"", "18446744073709551615"];
    for id in ids {
        victim.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{sleep}}}\n"));
    }
    until("the server has them all", || (daemon.count_journal("a", "\"ms\":500") == ids.len()).then_some(()));
    arguments(&agent.call("a__wrong_id_reply", &json!({})));
    for id in ids {
        let id: Value = serde_json::from_str(id).expect("JSON");
        assert_eq!(arguments(&victim.answer(&id)), &json!({"ms": 500}));
    }
    victim.expect_quiet();
}

/// Case B1.
#[test]
fn zero_byte_neither_forms_nor_ends_a_message() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let before = daemon.row("a")["skipped_lines"].as_u64().expect("a count");
    write(&mut agent, "\0\n\0\0{}\n{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":\"\0\"}\n");
    assert_eq!(daemon.row("a")["skipped_lines"], before + 3);
    agent.send_raw("\0\n");
    assert_eq!(code(&agent.next()), -32700);
    agent.expect_quiet();
}

/// Case B12.
#[test]
fn malformed_response_ends_its_call_with_one_well_formed_error() {
    let daemon = Setup::beside_good(Server::named("a").line("tool_timeouts = { raw = \"60s\" }")).start();
    let mut agent = Agent::ready(&daemon);
    let oddities = [
        r#"{"jsonrpc":"2.0","id":$ID}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":"both"}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":"text"}"#,
    ];
    for text in oddities {
        // `Agent::answer` fails on a response with both ends or none.
        agent.call("a__raw", &json!({"text": format!("{text}\n"), "answer": false}));
    }
    arguments(&agent.call("a__echo", &json!({})));
    agent.expect_quiet();
}

/// Case B2.
#[test]
fn oversized_line_is_dropped_in_bounded_memory_and_the_server_continues() {
    let setup = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"256KiB\"");
    let daemon = setup.start();
    let mut agent = Agent::ready(&daemon);
    let before = resident_kib(daemon.pid());
    write(&mut agent, "before the flood\n");
    arguments(&agent.call("a__raw", &json!({"text": "x".repeat(1000), "times": 60_000, "hex": "0a"})));
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB more for a line of 60 MB");
    let row = daemon.row("a");
    assert_eq!((&row["skipped_lines"], &row["restarts"]), (&json!(2), &json!(0)));
}

/// Case B4.
#[test]
fn oversized_response_fails_only_its_call() {
    let setup = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"64KiB\"");
    let daemon = setup.start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let other = agent.start_call("a__sleep", &gate.arguments());
    let answer = agent.call("a__big", &json!({"bytes": 100_000}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31006, &json!("unknown")));
    gate.open();
    arguments(&agent.answer(&other));
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// Case B6.
#[test]
fn invalid_utf8_reaches_no_agent() {
    let daemon = Setup::beside_good(Server::named("a").line("tool_timeouts = { invalid_utf8 = \"2s\" }")).start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__invalid_utf8", &json!({}));
    assert!([-31001, -31002].contains(&code(&answer)), "{answer}");
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(daemon.row("a")["skipped_lines"], 1);
}

/// Case B7.
#[test]
fn partial_response_of_a_dying_server_is_dropped() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let half = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#;
    let call = agent.start_call("a__raw", &json!({"text": half, "answer": false}));
    let last = agent.call("a__die", &json!({}));
    assert_eq!((code(&agent.answer(&call)), code(&last)), (-31001, -31001));
    arguments(&agent.call("a__echo", &json!({})));
    agent.expect_quiet();
}

/// Case A13.
#[test]
fn stderr_flood_delays_no_call_and_uses_bounded_memory() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let before = resident_kib(daemon.pid());
    for lines in [true, false] {
        arguments(&agent.call("a__stderr", &json!({"bytes": 16 << 20, "lines": lines})));
    }
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB more");
    arguments(&agent.call("good__echo", &json!({})));
}

/// Case B18.
#[test]
fn endless_list_is_cut_and_marked_and_blocks_no_others() {
    let setup = Setup::with(Server::named("endless").flags("--endless-cursor"))
        .server(Server::named("circle").flags("--repeat-cursor"))
        .server(Server::named("good").flags("--bare --tool echo"));
    let daemon = setup.start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("good__echo", &json!({})));
    for name in ["endless", "circle"] {
        daemon.wait_row(name, "is marked", |row| row["tools_truncated"] == true);
    }
    assert!(agent.tools().contains(&"good__echo".to_owned()));
}

/// Case B19.
#[test]
fn tool_with_an_oversized_or_missing_schema_affects_no_other_tools() {
    let place = Place::new();
    let tool = |name: &str, schema: &str| format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#);
    let far = r#"{"type":"object","properties":{"x":{"$ref":"http://127.0.0.1:1/schema.json"}}}"#;
    let huge = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(9 << 20));
    let tools = [tool("echo", r#"{"type":"object"}"#), tool("huge", &huge), tool("far", far)];
    let bare = [r#"{"name":"bare"}"#, r#"{"name":"odd","inputSchema":7}"#];
    let all: Vec<&str> = tools.iter().map(String::as_str).chain(bare).collect();
    let listing = place.write("listing", format!(r#"{{"tools":[{}]}}"#, all.join(",")));
    let server = Server::named("a").flags("--tool echo --tool-list").arg(listing);
    let daemon = Setup::with(server).server(Server::named("good").flags("--bare --tool echo")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let answer = agent.request("tools/list", &json!({}));
    let tools = result(&answer)["tools"].as_array().expect("an array");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["a__echo", "a__far", "good__echo"]);
    assert_eq!(tools[1]["inputSchema"], serde_json::from_str::<Value>(far).expect("JSON"));
    assert_eq!(daemon.row("a")["tools_truncated"], true);
    arguments(&agent.call("a__echo", &json!({})));
    assert!(resident_kib(daemon.pid()) < 64 << 10, "{} KiB", resident_kib(daemon.pid()));
}

/// Case B17.
#[test]
fn deep_and_strange_json_is_passed_on_or_refused_and_never_fatal() {
    let daemon = Setup::beside_good(Server::named("a").line("tool_timeouts = { raw = \"60s\" }")).start();
    let mut agent = Agent::ready(&daemon);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{deep}}}\n");
    agent.start_call("a__raw", &json!({"text": line, "answer": false}));
    // Too deep for the test's own reader, if it is passed on.
    let answer = agent.next_line().expect("an answer");
    assert!(answer.contains(&deep) || answer.contains("\"error\""));
    write(&mut agent, &format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{}\"}}\n", "m".repeat(1 << 20)));
    let key = "k".repeat(1 << 20);
    let answer = agent
        .call("a__raw", &json!({"text": format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"{key}\":1}}}}\n")}));
    assert_eq!(result(&answer), &json!({key: 1}));
    write(&mut agent, "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"id\":$ID,\"result\":{},\"result\":{}}\n");
    arguments(&agent.call("good__echo", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case B16.
#[test]
fn request_without_an_owner_is_refused_at_once_and_reaches_no_agent() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let mut ask = |method: &str| -> Value {
        let answer = agent.call("a__send_request", &json!({"method": method}));
        result(&answer)["structuredContent"].clone()
    };
    assert_eq!(ask("ping")["result"], json!({}));
    assert_eq!(code(&ask("made/up")), -32601);
    for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
        assert_ne!(code(&ask(method)), 0, "{method}");
    }
    agent.expect_quiet();
}

#[test]
fn request_with_the_id_of_a_call_does_not_answer_the_call() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    write(&mut agent, "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"ping\"}\n");
    daemon.wait_journal("a", "\"result\":{}");
    agent.expect_quiet();
}

#[test]
fn unexpected_progress_is_dropped() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1}}"#;
    for token in ["1", "0", "\"1\"", "null", "99"] {
        write(&mut agent, &format!("{}\n", progress.replace("TOKEN", token)));
    }
    agent.expect_quiet();
}
