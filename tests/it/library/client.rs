//! One server, used by a Rust program.

use std::time::Duration;

use mcpd::config::{Settings, Start, ToolTimeouts};
use mcpd::policy::{Policy, pattern};
use mcpd::{Client, ClientError, ClientState, GuardProgram, ServerConfig};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ServerFixture, guards, run};
use crate::support::{MCPD, WAIT_LIMIT, until};

#[test]
fn program_lists_calls_and_closes_with_a_guard_or_without() {
    for guard in guards() {
        let owned = ServerFixture::new();
        run(async {
            let client = Client::spawn_with(owned.server("s", &[]), guard).expect("a good name");
            assert_eq!(client.state(), ClientState::Created);
            client.initialize().await.expect("initialized");
            assert_eq!(client.state(), ClientState::Ready);
            let tools = client.list_tools().await.expect("listed");
            assert!(tools.iter().any(|tool| tool.name() == "echo"));
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
fn server_of_a_client_receives_no_agent_capabilities() {
    let owned = ServerFixture::new();
    run(async {
        let client =
            Client::spawn_with(owned.server("s", &[]), GuardProgram::Program(MCPD.into())).expect("a good name");
        client.initialize().await.expect("initialized");
        for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
            let result = client.call_tool("send_request", &json!({ "method": method })).await.expect("an answer");
            let result: Value = serde_json::from_slice(result.raw()).expect("JSON");
            assert_eq!(result["structuredContent"]["error"]["code"], -32601, "{method}");
        }
        client.close().await;
    });
    assert!(owned.journal().contains(r#""capabilities":{}"#), "{}", owned.journal());
}

#[test]
fn server_without_a_handshake_is_used_like_any_other() {
    let owned = ServerFixture::new();
    run(async {
        let client = Client::spawn_with(owned.server("s", &["--era", "modern"]), GuardProgram::Program(MCPD.into()))
            .expect("a good name");
        client.initialize().await.expect("initialized");
        assert!(client.list_tools().await.expect("listed").iter().any(|tool| tool.name() == "echo"));
        client.ping().await.expect("an answer");
        let result = client.call_tool("echo", &json!({"z": 1})).await.expect("echoed");
        let result: Value = serde_json::from_slice(result.raw()).expect("JSON");
        assert_eq!(
            (&result["structuredContent"]["params"]["arguments"], &result["resultType"]),
            (&json!({"z": 1}), &Value::Null)
        );
        let failed = client.call_tool("fail", &json!({"code": -5, "message": "no"})).await;
        assert!(matches!(failed, Err(ClientError::ErrorResponse { ref error, .. }) if error.code == -5), "{failed:?}");
        let form = json!({"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {}}});
        let round = |unchecked| json!({"rounds": [{"inputs": {"who": form}, "unchecked": unchecked}]});
        let answer = client.call_tool("need_input", &round(true)).await;
        let Err(error @ ClientError::InputRequired { .. }) = answer else { panic!("{answer:?}") };
        assert!(error.to_string().contains("`s` wanted to know more"), "{error:?}");
        let refused = client.call_tool("need_input", &round(false)).await;
        assert!(
            matches!(refused, Err(ClientError::ErrorResponse { ref error, .. }) if error.code == -32021),
            "{refused:?}"
        );
        client.close().await;
    });
    assert_eq!(owned.journal().matches("\"initialize\"").count(), 1, "it refused that once: {}", owned.journal());
}

/// Lets the tasks of the runtime run until this holds.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    tokio::time::timeout(WAIT_LIMIT, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect(what);
}

#[test]
fn lazy_client_is_usable_while_its_server_sleeps_and_ends_when_it_is_dropped() {
    let owned = ServerFixture::new();
    run(async {
        let settings = Settings { start: Start::Lazy, idle_timeout: Duration::from_millis(20), ..Settings::default() };
        let server = owned.server("s", &[]).settings(settings);
        let client = Client::spawn_with(server, GuardProgram::Program(MCPD.into())).expect("a good name");
        client.initialize().await.expect("initialized");
        for stops in 1..=2 {
            assert!(!client.call_tool("echo", &json!({})).await.expect("echoed").is_error());
            eventually("its server is stopped", || owned.journal().matches("# eof").count() == stops).await;
            assert_eq!(client.state(), ClientState::Ready);
            assert!(!client.list_tools().await.expect("listed").is_empty());
        }
        drop(client);
        let tasks = tokio::runtime::Handle::current().metrics();
        eventually("no task is left", || tasks.num_alive_tasks() == 0).await;
    });
}

#[test]
fn each_misuse_has_an_error_of_its_own_that_names_the_server() {
    let owned = ServerFixture::new();
    let deny = Policy::new(None, &[pattern("di*").expect("a glob")]).expect("a policy");
    run(async {
        let client = Client::spawn_with(owned.server("s", &[]).policy(deny), GuardProgram::Program(MCPD.into()))
            .expect("a good name");
        let early = client.call_tool("echo", &json!({})).await;
        assert!(matches!(early, Err(ClientError::NotInitialized { ref server }) if &**server == "s"), "{early:?}");
        client.initialize().await.expect("initialized");
        let denied = client.call_tool("die", &json!({"how": "exit"})).await;
        assert!(matches!(denied, Err(ClientError::ToolDenied { ref tool, .. }) if tool == "die"), "{denied:?}");
        assert!(!client.list_tools().await.expect("listed").iter().any(|tool| tool.name() == "die"));
        for arguments in [json!([]), json!(1), Value::Null] {
            let refused = client.call_tool("echo", &arguments).await;
            assert!(matches!(refused, Err(ClientError::InvalidArguments { .. })), "{refused:?}");
        }
        let failed = client.call_tool("fail", &json!({})).await;
        assert!(matches!(failed, Err(ClientError::ErrorResponse { .. })), "{failed:?}");
        client.close().await;
    });
}

#[test]
fn call_takes_no_longer_than_its_tool_may() {
    let owned = ServerFixture::new();
    let tool_timeouts = ToolTimeouts::new([(pattern("sl*").expect("a glob"), Duration::from_millis(200))]);
    let server = owned.server("s", &[]).settings(Settings { tool_timeouts, ..Settings::default() });
    run(async {
        let client = Client::spawn_with(server, GuardProgram::Program(MCPD.into())).expect("a good name");
        client.initialize().await.expect("initialized");
        let refused = client.call_tool("sleep", &json!({"ms": 600_000})).await;
        assert!(matches!(refused, Err(ClientError::Timeout { .. })), "{refused:?}");
        client.call_tool("echo", &json!({})).await.expect("another tool has the time of all");
        client.close().await;
    });
}

#[test]
fn server_that_exits_or_never_starts_is_reported_as_unavailable() {
    for guard in guards() {
        let owned = ServerFixture::new();
        run(async {
            let client = Client::spawn_with(owned.server("s", &[]), guard.clone()).expect("a good name");
            client.initialize().await.expect("initialized");
            let died = client.call_tool("die", &json!({"how": "kill"})).await;
            assert!(matches!(died, Err(ClientError::Died { .. })), "{died:?}");
            while client.state() != ClientState::Failed {
                tokio::task::yield_now().await;
            }
            let gone = client.call_tool("echo", &json!({})).await;
            assert!(matches!(gone, Err(ClientError::Unavailable { ref reason, .. }) if reason.contains("signal 9")));
            let missing = Client::spawn_with(ServerConfig::new("m", "no-such-program"), guard).expect("a good name");
            let error = missing.initialize().await.expect_err("there is no such program");
            assert!(error.to_string().contains("not found; PATH searched"), "{error}");
        });
    }
}

#[test]
fn dropped_call_is_cancelled_at_the_server() {
    let owned = ServerFixture::new();
    run(async {
        let client = Client::spawn_with(owned.server("s", &[]), GuardProgram::None).expect("a good name");
        client.initialize().await.expect("initialized");
        let arguments = json!({"ms": 600_000});
        tokio::select! {
            ended = client.call_tool("sleep", &arguments) => panic!("{ended:?}"),
            () = owned.journal_has("tools/call") => {}
        }
        client.ping().await.expect("a pong");
        client.close().await;
    });
    until("the server has heard of it", || owned.journal().contains("notifications/cancelled").then_some(()));
}

#[test]
fn dropped_client_leaves_no_process() {
    for guard in guards() {
        let owned = ServerFixture::new();
        run(async {
            let client =
                Client::spawn_with(owned.server("s", &["--ignore-eof", "--ignore-term"]), guard).expect("a good name");
            client.initialize().await.expect("initialized");
            drop(client);
            // The server's task ends with this runtime at the latest.
            tokio::task::yield_now().await;
        });
    }
}

/// Lines of a log that the test can look at.
struct Lines(std::sync::mpsc::Sender<String>);

impl std::io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_call_of_a_client_has_a_span_with_its_outcome() {
    let owned = ServerFixture::new();
    let (sender, lines) = std::sync::mpsc::channel();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_ansi(false);
    // Of the whole process, in which other tests log too: they have no server of this name.
    log.with_writer(move || Lines(sender.clone())).try_init().expect("the only log of this process");
    let server = owned.server("spanned", &[]);
    run(async {
        let client = Client::spawn_with(server, GuardProgram::None).expect("a good name");
        client.initialize().await.expect("initialized");
        client.call_tool("echo", &json!({"text": "canary-9e2b"})).await.expect("echoed");
        client.call_tool("refuse", &json!({})).await.expect("a result");
        client.call_tool("fail", &json!({"code": -5})).await.expect_err("an error");
        let long = json!({"ms": 600_000});
        let slow = client.call_tool("sleep", &long);
        tokio::time::timeout(Duration::from_millis(1), slow).await.expect_err("too slow");
        client.close().await;
    });
    let lines: Vec<_> = lines.try_iter().filter(|line| line.contains("spanned")).collect();
    assert!(!lines.concat().contains("canary-9e2b"), "{lines:#?}");
    let ends: Vec<_> = lines.iter().filter(|line| line.contains("call ended")).collect();
    let expected = [("echo", "ok"), ("refuse", "tool_error"), ("fail", "error"), ("sleep", "cancelled")];
    assert_eq!(ends.len(), expected.len(), "{lines:#?}");
    for (line, (tool, outcome)) in ends.iter().zip(expected) {
        let parts = [format!("mcp.spanned.{tool} "), format!("outcome=\"{outcome}\""), "duration_ms=".to_owned()];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}
