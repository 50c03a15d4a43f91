//! A response to no request is never answered, in no direction: two peers that answer each other's answers would never stop.

use std::path::Path;

use serde_json::json;

use crate::support::{Agent, Server, Setup, Shim, arguments, call_text, code, result, until};

/// Responses that belong to no request.
const STRAY: [&str; 12] = [
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no such request"}}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":"text"}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":null}"#,
    r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
    r#"{"jsonrpc":"2.0","result":null}"#,
    r#"{"jsonrpc":"2.0","id":[],"result":{},"error":{}}"#,
    r#"{"id":null,"error":{"code":-32600,"message":"no such request"}}"#,
    r#"{"id":987654,"error":{"code":-32600,"message":"no such request"}}"#,
    r#"{"jsonrpc":"2.0","id":987654,"error":{"code":-32600,"message":"no such request"}}"#,
    r#"{"jsonrpc":"2.0","id":"x","result":{},"error":{}}"#,
    r#"[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}]"#,
];

/// Sends an agent's stray responses; fails if one is answered.
fn expect_no_answers(agent: &mut Agent) {
    for stray in STRAY {
        agent.send_raw(format!("{stray}\n"));
        agent.expect_quiet();
    }
    let large = "x".repeat(1 << 20);
    for ends in
        [("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"message\":\"", "\"}}"), ("{\"result\":\"", "\",\"id\":null}")]
    {
        agent.send_raw(format!("{}{large}{}\n", ends.0, ends.1));
        agent.expect_quiet();
    }
}

/// Case B10.
#[test]
fn agents_get_no_answer_to_responses_without_a_request() {
    let daemon = Setup::with(Server::named("a")).head("[daemon]\nmax_message = \"64KiB\"").start();
    let mut agent = Agent::ready(&daemon);
    expect_no_answers(&mut agent);
    let counted = daemon.status()["agents"][0]["stray_responses"].as_u64();
    assert_eq!(counted, Some(STRAY.len() as u64 + 2));
    expect_no_answers(&mut Shim::ready(daemon.place()));
    // What may contain a request is answered.
    for request in ["[]", r#"[{"jsonrpc":"2.0","id":null,"error":{}},{"jsonrpc":"2.0","id":7,"method":"ping"}]"#] {
        agent.send_raw(format!("{request}\n"));
        assert_eq!(code(&agent.next()), -32600);
    }
}

#[test]
fn agent_that_answers_each_unknown_response_gets_one_answer() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.send_raw("{nonsense\n");
    assert_eq!(code(&agent.next()), -32700);
    agent.send_raw(format!("{}\n", STRAY[0]));
    agent.expect_quiet();
}

/// Case B10.
#[test]
fn servers_get_no_answer_to_responses_without_a_request() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for stray in STRAY {
        arguments(&agent.call("a__raw", &json!({ "text": format!("{stray}\n") })));
    }
    agent.expect_quiet();
    let answered: Vec<_> =
        daemon.journal("a").into_iter().filter(|line| line.starts_with('{') && !line.contains("\"method\"")).collect();
    assert!(answered.is_empty(), "{answered:?}");
}

/// Case C4.
#[test]
fn agent_that_reuses_the_id_of_an_unanswered_request_is_named_in_the_log_once() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::working_in(&daemon, Path::new("/"));
    let call = call_text("7", "a__sleep", r#"{"ms":5000}"#);
    (0..4).for_each(|_| agent.send_raw(format!("{call}\n")));
    for _ in 0..3 {
        assert_eq!(code(&agent.next()), -32600);
    }
    result(&agent.next());
    let log = until("the warning", || {
        Some(daemon.log()).filter(|log| log.contains("its id is that of an unanswered request"))
    });
    assert_eq!(log.matches("its id is that of").count(), 1, "{log}");
    assert!(log.lines().any(|line| line.contains("its id is that of") && line.contains("client=")), "{log}");
}
