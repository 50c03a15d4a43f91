//! JSON-RPC batches, which mcpd supports in no revision.

use serde_json::{Value, json};

use crate::support::{Agent, Era, Server, Setup, code, request, result};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Case C12.
#[test]
fn batch_gets_one_error_in_every_revision() {
    let daemon = Server::named("s").start();
    let negotiated = |version: &&str| {
        let mut agent = Agent::connect(&daemon);
        assert_eq!(result(&agent.initialize(version))["protocolVersion"], **version);
        agent
    };
    let others = [Agent::connect(&daemon), Era::Modern.agent(&daemon, &json!({}))];
    let call = |id: u32| request(id, "tools/call", &json!({"name": "s__echo"}));
    let ping = request(2, "ping", &Value::Null);
    for mut agent in REVISIONS.iter().map(negotiated).chain(others) {
        for batch in [json!([call(1), ping]), json!([ping]), json!([]), (0..300).map(call).collect::<Value>()] {
            agent.send(&batch);
            let answer = agent.next();
            assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null), "{answer}");
            assert_eq!(answer["error"]["message"], "batches are not supported");
        }
        agent.expect_quiet();
    }
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tools/call")));
}

/// Case C12.
#[test]
fn batch_of_a_server_is_skipped_and_counted() {
    let servers = |setup: Setup, version: &str| {
        setup.server(Server::named(&format!("s{version}")).flags("--protocol").arg(version))
    };
    let modern = Era::Modern.server("modern");
    let daemon = REVISIONS.into_iter().fold(Setup::with(modern), servers).start();
    let mut agent = Agent::ready(&daemon);
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":"in a batch"}}"#;
    let change = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let batch = json!({"text": format!("[{change},{answer}]\n")});
    for server in REVISIONS.map(|version| format!("s{version}")).into_iter().chain(["modern".to_owned()]) {
        let answer = agent.call(&format!("{server}__raw"), &batch);
        assert!(result(&answer)["structuredContent"]["pid"].is_u64(), "{server}: {answer}");
        assert_eq!(daemon.row(&server)["skipped_lines"], 1, "{server}");
    }
}
