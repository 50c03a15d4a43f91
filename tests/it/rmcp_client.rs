//! The client of the `rmcp` crate works on the socket unchanged.

use std::sync::mpsc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam};
use rmcp::service::{NotificationContext, PeerRequestOptions, RunningService, ServiceError};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::support::{Agent, Daemon, Server, Setup, WAIT_LIMIT};

/// A client that passes on the progress it hears of.
struct Listener(mpsc::Sender<f64>);

impl ClientHandler for Listener {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.0.send(params.progress);
    }
}

type Client = RunningService<RoleClient, Listener>;

async fn connect(daemon: &Daemon) -> Client {
    listen(daemon).await.0
}

/// A client and the progress it hears of.
async fn listen(daemon: &Daemon) -> (Client, mpsc::Receiver<f64>) {
    let (received, progress) = mpsc::channel();
    let stream = UnixStream::connect(daemon.agent_socket()).await.expect("the socket accepts");
    (Listener(received).serve(stream).await.expect("a handshake"), progress)
}

fn call(tool: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().expect("an object").clone())
}

/// A line that the server received. Waits on the runtime, where the client has work to do in the meantime.
async fn received(daemon: &Daemon, part: &str) -> String {
    loop {
        if let Some(line) = daemon.journal("a").into_iter().find(|line| line.contains(part)) {
            return line;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs `test` with a daemon that denies `a__die`.
fn with_daemon(test: impl AsyncFnOnce(&Daemon)) {
    let daemon = Setup::with(Server::named("a").line("deny = [\"die\"]")).start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(WAIT_LIMIT, test(&daemon)).await }).expect("nothing hangs");
}

#[test]
fn rmcp_client_lists_what_every_agent_sees() {
    with_daemon(async |daemon| {
        let tools = connect(daemon).await.list_all_tools().await.expect("a list");
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, Agent::ready(daemon).tools());
        assert!(names.iter().any(|name| name == "a__echo") && !names.iter().any(|name| name == "a__die"), "{names:?}");
    });
}

#[test]
fn rmcp_client_calls_the_instance_that_others_share() {
    with_daemon(async |daemon| {
        let mut pids = Vec::new();
        for client in [connect(daemon).await, connect(daemon).await] {
            let result = client.call_tool(call("a__echo", &json!({"text": "ä\"\\\n"}))).await.expect("a result");
            let content = result.structured_content.expect("structured content");
            assert_eq!(content["params"]["arguments"], json!({"text": "ä\"\\\n"}));
            pids.push(content["pid"].clone());
        }
        assert_eq!(pids, [daemon.server_pid("a"), daemon.server_pid("a")]);
    });
}

#[test]
fn rmcp_client_receives_the_same_error_for_a_denied_and_an_unknown_tool() {
    with_daemon(async |daemon| {
        let client = connect(daemon).await;
        let refusal = async |tool: &'static str| match client.call_tool(call(tool, &json!({}))).await {
            Err(ServiceError::McpError(error)) => (error.code.0, error.message.replace(tool, "TOOL"), error.data),
            other => panic!("no refusal of {tool}: {other:?}"),
        };
        let denied = refusal("a__die").await;
        assert_eq!(denied.0, -32602);
        assert_eq!(denied, refusal("a__unknown").await);
    });
}

#[test]
fn rmcp_client_receives_progress_of_its_call() {
    with_daemon(async |daemon| {
        let (client, progress) = listen(daemon).await;
        client.call_tool(call("a__progress", &json!({"n": 3, "every": 5}))).await.expect("a result");
        assert_eq!(progress.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    });
}

#[test]
fn its_cancellation_reaches_the_server() {
    with_daemon(async |daemon| {
        let client = connect(daemon).await;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(call("a__sleep", &json!({"ms": 60_000}))));
        let request = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
        received(daemon, "\"sleep\"").await;
        request.cancel(Some("enough".to_owned())).await.expect("sent");
        assert!(received(daemon, "notifications/cancelled").await.contains("\"enough\""));
        client.call_tool(call("a__echo", &json!({}))).await.expect("the connection lives on");
    });
}
