//! One server owned by a Rust program.

use std::time::Duration;

use mcpd::policy::{Policy, pattern};
use mcpd::{Client, ClientError, ClientState, Guard, ServerConfig};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Owned, guards, run};
use crate::support::{MCPD, until};

#[test]
fn a_program_lists_calls_and_closes_with_a_guard_or_without() {
    for guard in guards() {
        let owned = Owned::new();
        run(async {
            let client = Client::spawn_with(owned.server("s", &[]), guard);
            assert_eq!(client.state(), ClientState::Created);
            client.initialize().await.expect("initialized");
            assert_eq!(client.state(), ClientState::Ready);
            let tools = client.list_tools().await.expect("listed");
            assert!(tools.iter().any(|tool| &*tool.name == "echo"));
            client.ping().await.expect("a pong");
            let arguments: &RawValue = serde_json::from_str(r#"{"z":1.10,"a":[null]}"#).expect("JSON");
            let result = client.call_tool("echo", &arguments).await.expect("echoed");
            assert!(
                !result.is_error()
                    && std::str::from_utf8(result.raw()).expect("text").contains(r#"{"z":1.10,"a":[null]}"#)
            );
            client.close().await;
        });
    }
}

#[test]
fn each_misuse_has_an_error_of_its_own_that_names_the_server() {
    let owned = Owned::new();
    let deny = Policy::new(None, &[pattern("di*").expect("a glob")]).expect("a policy");
    run(async {
        let client = Client::spawn_with(owned.server("s", &[]).policy(deny), Guard::Program(MCPD.into()));
        let early = client.call_tool("echo", &json!({})).await;
        assert!(matches!(early, Err(ClientError::NotInitialized { ref server }) if &**server == "s"), "{early:?}");
        client.initialize().await.expect("initialized");
        let denied = client.call_tool("die", &json!({"how": "exit"})).await;
        assert!(matches!(denied, Err(ClientError::ToolDenied { ref tool, .. }) if tool == "die"), "{denied:?}");
        assert!(!client.list_tools().await.expect("listed").iter().any(|tool| &*tool.name == "die"));
        for arguments in [json!([]), json!(1), Value::Null] {
            let refused = client.call_tool("echo", &arguments).await;
            assert!(matches!(refused, Err(ClientError::ArgumentsNotAnObject { .. })), "{refused:?}");
        }
        let failed = client.call_tool("fail", &json!({})).await;
        assert!(matches!(failed, Err(ClientError::Refused { .. })), "{failed:?}");
        client.close().await;
    });
}

#[test]
fn a_server_that_ends_or_never_starts_is_said_to_be_not_connected() {
    for guard in guards() {
        let owned = Owned::new();
        run(async {
            let client = Client::spawn_with(owned.server("s", &[]), guard.clone());
            client.initialize().await.expect("initialized");
            let died = client.call_tool("die", &json!({"how": "kill"})).await;
            assert!(matches!(died, Err(ClientError::Refused { ref error, .. }) if error.code == -31001), "{died:?}");
            while client.state() != ClientState::Failed {
                tokio::task::yield_now().await;
            }
            let gone = client.call_tool("echo", &json!({})).await;
            assert!(
                matches!(gone, Err(ClientError::ServerNotConnected { ref reason, .. }) if reason.contains("signal 9"))
            );
            let missing = Client::spawn_with(ServerConfig::new("m", "no-such-program"), guard);
            let error = missing.initialize().await.expect_err("there is no such program");
            assert!(error.to_string().contains("not found; PATH searched"), "{error}");
        });
    }
}

#[test]
fn a_dropped_call_is_cancelled_at_the_server() {
    let owned = Owned::new();
    run(async {
        let client = Client::spawn_with(owned.server("s", &[]), Guard::None);
        client.initialize().await.expect("initialized");
        let arguments = json!({"ms": 60_000});
        let call = tokio::time::timeout(Duration::from_millis(50), client.call_tool("sleep", &arguments));
        assert!(call.await.is_err(), "the call ended");
        client.ping().await.expect("a pong");
        client.close().await;
    });
    until("the server has heard of it", || owned.journal().contains("notifications/cancelled").then_some(()));
}

#[test]
fn a_dropped_client_leaves_no_process() {
    for guard in guards() {
        let owned = Owned::new();
        run(async {
            let client = Client::spawn_with(owned.server("s", &["--ignore-eof", "--ignore-term"]), guard);
            client.initialize().await.expect("initialized");
            drop(client);
            // The server's task ends with this runtime at the latest.
            tokio::task::yield_now().await;
        });
    }
}
