//! JSON-RPC batches in version 2025-03-26, from agents and from servers. Every other version refuses a batch as a whole.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, result};

const BATCHING: &str = "2025-03-26";

fn daemon() -> Daemon {
    Setup::with(Server::named("s").flags("--tool secret").line(r#"deny = ["secret"]"#)).start()
}

fn ready(daemon: &Daemon) -> Agent {
    let mut agent = Agent::connect(daemon);
    assert_eq!(result(&agent.initialize(BATCHING))["protocolVersion"], BATCHING);
    agent
}

fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: &Value, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// Sends a batch and gives the responses, whose order says nothing.
fn ask(agent: &mut Agent, batch: &[Value]) -> Vec<Value> {
    agent.send(&Value::from(batch.to_vec()));
    agent.next().as_array().expect("an array").clone()
}

/// The response to `id`, of which there is one.
fn of<'a>(answers: &'a [Value], id: &Value) -> &'a Value {
    let found: Vec<_> = answers.iter().filter(|answer| answer["id"] == *id).collect();
    assert_eq!(found.len(), 1, "{id} in {answers:?}");
    found[0]
}

#[test]
fn batch_members_are_answered_like_single_messages_in_one_array() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let batch = [
        call(&json!(1), "s__sleep", &json!({"ms": 100})),
        json!({"jsonrpc": "2.0", "method": "notifications/unheard"}),
        call(&json!("1"), "s__echo", &json!({"n": 2})),
        request(&json!(2), "tools/list", &json!({})),
        request(&json!(3), "no/such", &json!({})),
        json!(7),
        call(&json!(4), "s__secret", &json!({})),
        request(&json!(5), "ping", &json!({})),
        json!({"jsonrpc": "2.0", "id": 6, "method": 7}),
        json!([request(&json!(8), "ping", &json!({}))]),
    ];
    let answers = ask(&mut agent, &batch);
    assert_eq!(answers.len(), 9, "{answers:?}");
    assert_eq!(result(of(&answers, &json!(1)))["structuredContent"]["params"]["arguments"]["ms"], 100);
    assert_eq!(result(of(&answers, &json!("1")))["structuredContent"]["params"]["arguments"]["n"], 2);
    assert!(result(of(&answers, &json!(2)))["tools"].as_array().is_some_and(|tools| tools.len() > 3));
    assert_eq!(code(of(&answers, &json!(3))), -32601);
    assert_eq!(code(of(&answers, &json!(4))), -32602, "denied as ever");
    assert_eq!(of(&answers, &json!(5))["result"], json!({}));
    assert_eq!(code(of(&answers, &json!(6))), -32600);
    let nameless: Vec<_> = answers.iter().filter(|answer| answer["id"].is_null()).map(code).collect();
    assert_eq!(nameless, [-32600, -32600], "a number, and a batch in a batch");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("secret")));
    agent.expect_quiet();
}

#[test]
fn answer_in_an_array_is_the_same_bytes_as_alone() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let request = r#"{"id": 1.50, "jsonrpc":"2.0","method":"tools/call","params":{"name":"s__echo","x":1.10}}"#;
    agent.send_raw(format!("{request}\n"));
    let alone = agent.next_line().expect("an answer");
    agent.send_raw(format!("[{request}]\n"));
    assert_eq!(agent.next_line().expect("an answer"), format!("[{}]\n", alone.trim_end()));
}

#[test]
fn batch_without_requests_gets_no_response() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/unheard"});
    agent.send(&json!([notification, notification, {"jsonrpc": "2.0", "id": 9, "result": {}}]));
    agent.expect_quiet();
}

#[test]
fn empty_or_oversized_batch_is_refused_as_a_whole() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let many = |count: u32| (0..count).map(|id| call(&json!(id), "s__echo", &json!({}))).collect::<Vec<_>>();
    for batch in [vec![], many(257)] {
        agent.send(&Value::from(batch));
        let answer = agent.next();
        assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null));
    }
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tools/call")));
    assert_eq!(ask(&mut agent, &many(256)).iter().filter(|answer| answer["error"].is_null()).count(), 256);
    agent.expect_quiet();
}

#[test]
fn batch_is_refused_as_a_whole_in_every_other_version() {
    let daemon = daemon();
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut agent = Agent::connect(&daemon);
        agent.initialize(version);
        agent.send(&json!([call(&json!(1), "s__echo", &json!({})), request(&json!(2), "ping", &json!({}))]));
        let answer = agent.next();
        assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null), "{version}");
        agent.expect_quiet();
    }
    let mut early = Agent::connect(&daemon);
    early.send(&json!([request(&json!(1), "initialize", &json!({"protocolVersion": BATCHING}))]));
    assert_eq!(code(&early.next()), -32600, "there is no version before the handshake");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tools/call")));
}

#[test]
fn member_that_is_cancelled_is_not_waited_for() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let cancelled =
        |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let sleep = |id: u32| call(&json!(id), "s__sleep", &json!({"ms": 60_000}));
    agent.send(&json!([sleep(1), request(&json!(2), "ping", &json!({}))]));
    daemon.wait_journal("s", "60000");
    agent.send(&cancelled(1));
    assert_eq!(agent.next(), json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
    // Within one batch, and with nothing else to answer.
    agent.send(&json!([sleep(3), cancelled(3)]));
    agent.expect_quiet();
}

#[test]
fn duplicate_id_in_a_batch_is_answered_twice() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let sleep = call(&json!(1), "s__sleep", &json!({"ms": 300}));
    agent.send(&json!([sleep, request(&json!(1), "ping", &json!({})), request(&json!(2), "ping", &json!({}))]));
    agent.send(&request(&json!(1), "ping", &json!({})));
    agent.send(&json!({"jsonrpc": "2.0", "id": 1, "method": 7}));
    assert_eq!([code(&agent.next()), code(&agent.next())], [-32600, -32600], "alone, so at once");
    let answers = agent.next().as_array().expect("an array").clone();
    let (refused, answered): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["result"].is_null());
    assert_eq!((refused.len(), answered.len()), (1, 2), "{answers:?}");
    assert_eq!((code(refused[0]), &refused[0]["id"]), (-32600, &json!(1)));
}

#[test]
fn batches_do_not_wait_for_each_other() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    agent.send(&json!([call(&json!("slow"), "s__sleep", &json!({"ms": 500}))]));
    let quick = ask(&mut agent, &[call(&json!("quick"), "s__echo", &json!({}))]);
    result(of(&quick, &json!("quick")));
    result(&agent.call("s__echo", &json!({})));
    let slow = agent.next();
    result(of(slow.as_array().expect("an array"), &json!("slow")));
}

#[test]
fn batch_waits_for_the_first_lists_as_its_members_would() {
    let daemon = Setup::with(Server::named("slow").flags("--init-delay 700")).spawn();
    let mut agent = ready(&daemon);
    let batch = [request(&json!(1), "tools/list", &json!({})), call(&json!(2), "slow__echo", &json!({}))];
    let answers = ask(&mut agent, &batch);
    assert!(result(of(&answers, &json!(1)))["tools"][0]["name"] == "slow__echo", "{answers:?}");
    result(of(&answers, &json!(2)));
}

#[test]
fn responses_of_a_batch_share_the_message_limit_and_excess_is_reported() {
    let daemon = Setup::with(Server::named("s")).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = ready(&daemon);
    let batch: Vec<_> = (0..4).map(|id| call(&json!(id), "s__big", &json!({"bytes": 30_000}))).collect();
    let answers = ask(&mut agent, &batch);
    let codes: Vec<_> = (0..4).map(|id| of(&answers, &json!(id))["error"]["code"].clone()).collect();
    assert_eq!(codes.iter().filter(|code| **code == -31006).count(), 2, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| code.is_null()).count(), 2, "{codes:?}");
    result(&agent.call("s__echo", &json!({})));
}

#[test]
fn batch_is_complete_even_if_its_server_dies_or_the_agent_finishes_writing() {
    let daemon = daemon();
    let mut agent = ready(&daemon);
    let answers =
        ask(&mut agent, &[call(&json!(1), "s__sleep", &json!({"ms": 60_000})), call(&json!(2), "s__die", &json!({}))]);
    assert_eq!([code(of(&answers, &json!(1))), code(of(&answers, &json!(2)))], [-31001, -31001]);
    daemon.wait_row("s", "is ready again", |row| row["state"] == "ready");
    agent.send(&json!([call(&json!(3), "s__sleep", &json!({"ms": 200}))]));
    agent.shut_down_writing();
    result(of(agent.next().as_array().expect("an array"), &json!(3)));
    agent.expect_end();
    agent.disconnect();
}

#[test]
fn batches_of_a_server_are_accepted_only_in_the_version_that_has_them() {
    let server = |name: &str, version: &str| Server::named(name).flags("--protocol").arg(version);
    let daemon = Setup::with(server("old", BATCHING)).server(server("new", "2025-11-25")).start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":"in a batch"}}"#;
    let change = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let batch = json!({"text": format!("[{change},{answer}, 7]\n"), "answer": false});
    assert_eq!(result(&agent.call("old__raw", &batch))["structuredContent"], "in a batch");
    assert_eq!(daemon.row("old")["skipped_lines"], 1, "the number");
    let both = json!({"text": format!("[{answer}]\n")});
    assert!(result(&agent.call("new__raw", &both))["structuredContent"]["pid"].is_u64());
    assert_eq!(daemon.row("new")["skipped_lines"], 1);
}
