//! One MCP server, owned by a Rust program: what the daemon does for each of its servers, as a library.
//!
//! Knows: [`crate::server`]. It is the same task that the daemon runs, without restarts: framing, ids, tool list, the
//! stop ladder and the guard are the daemon's own.
//!
//! ```no_run
//! # async fn run() -> Result<(), mcpd::ClientError> {
//! let server = mcpd::ServerConfig::new("time", "uvx").args(["mcp-server-time"]);
//! let client = mcpd::Client::spawn(server);
//! client.initialize().await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("get_current_time", &serde_json::json!({ "timezone": "UTC" })).await?;
//! println!("{}", result.value());
//! client.close().await;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::catalog::Tool;
use crate::config::{DaemonConfig, ServerConfig};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, parse};
use crate::server::call::{Call, CallKey, Reply, ReplySender, ToAgent};
use crate::server::lifecycle::State;
use crate::server::{self, Guard, Host, Inherited, Running, ServerHandle, Stop};

/// A server process of this program's own. Dropping it ends the process and everything it started, at once;
/// [`Client::close`] is the polite way.
#[derive(Debug)]
pub struct Client {
    running: Running,
    initialized: AtomicBool,
    calls: AtomicU64,
}

/// Where a [`Client`] is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// Spawned; [`Client::initialize`] has not returned yet.
    Created,
    /// Takes calls.
    Ready,
    /// Told to close.
    Closed,
    /// The server could not be started, or has ended.
    Failed,
}

/// Why a [`Client`] did not do what it was asked. Each says the server's name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// Asked before [`Client::initialize`] has returned.
    #[error("server `{server}` is not initialized: call `initialize` first")]
    NotInitialized {
        /// The configured name.
        server: Arc<str>,
    },
    /// Asked after the server had ended, or when it could not be started.
    #[error("server `{server}` is not connected: {reason}")]
    ServerNotConnected {
        /// The configured name.
        server: Arc<str>,
        /// How it ended, on one line.
        reason: String,
    },
    /// Policy hides the tool.
    #[error("tool `{tool}` of server `{server}` is denied")]
    ToolDenied {
        /// The configured name.
        server: Arc<str>,
        /// The server's own name for the tool.
        tool: String,
    },
    /// Arguments have to be a JSON object (MCP 2025-11-25, `server/tools`, "Calling Tools").
    #[error("the arguments for server `{server}` are not a JSON object")]
    ArgumentsNotAnObject {
        /// The configured name.
        server: Arc<str>,
    },
    /// The server answered with a JSON-RPC error, or mcpd in its place with one of its codes −31001 to −31006, whose
    /// `data.outcome` says whether the call may have had an effect.
    #[error("server `{server}`: {} ({})", error.message, error.code)]
    Refused {
        /// The configured name.
        server: Arc<str>,
        /// The error object.
        error: ErrorObject,
    },
}

/// The result of a tool call, as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult(Bytes);

impl ToolResult {
    /// The raw JSON: number spelling, key order and unknown fields included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.0
    }

    /// The decoded JSON.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.0).unwrap_or_default()
    }

    /// Whether the tool itself reports a failure (`isError`).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.value()["isError"] == true
    }
}

impl Client {
    /// Starts the server under [`Guard::available`]. Has to be called within a tokio runtime.
    #[must_use]
    pub fn spawn(server: ServerConfig) -> Self {
        Self::spawn_with(server, Guard::available())
    }

    /// Starts the server under the given guard. The handshake begins at once; [`Client::initialize`] waits for it.
    #[must_use]
    pub fn spawn_with(server: ServerConfig, guard: Guard) -> Self {
        let max_message = DaemonConfig::default().max_message_bytes;
        let host = Host { guard, inherited: Inherited::default(), max_message, restarts: false };
        let running = server::start(Arc::new(server), host, Arc::default());
        Self { running, initialized: AtomicBool::new(false), calls: AtomicU64::new(0) }
    }

    /// Waits for the end of the handshake (MCP 2025-11-25, `basic/lifecycle`).
    ///
    /// # Errors
    /// [`ClientError::ServerNotConnected`] if it failed or took longer than the server's `handshake_timeout`.
    pub async fn initialize(&self) -> Result<(), ClientError> {
        self.handle().wait_for(|published| !matches!(published.state, State::Starting)).await;
        self.connected()?;
        self.initialized.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The state it is in.
    #[must_use]
    pub fn state(&self) -> ClientState {
        match self.handle().published().state {
            _ if *self.running.stop.borrow() > Stop::Run => ClientState::Closed,
            State::Failed { .. } | State::Stopped => ClientState::Failed,
            State::Ready { .. } if self.initialized.load(Ordering::Relaxed) => ClientState::Ready,
            _ => ClientState::Created,
        }
    }

    /// The server's tools that policy permits, in its own order, as last listed; a change it announces is followed.
    ///
    /// # Errors
    /// [`ClientError::NotInitialized`], [`ClientError::ServerNotConnected`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        self.ready()?;
        self.handle().wait_for(|published| published.attempted).await;
        self.connected()?;
        let tools = Arc::clone(&self.handle().published().tools);
        let policy = &self.handle().config().policy;
        Ok(tools.tools.iter().filter(|tool| policy.permits(&tool.name)).cloned().collect())
    }

    /// Calls a tool by the server's own name for it. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// All of [`ClientError`].
    pub async fn call_tool(&self, tool: &str, arguments: &impl Serialize) -> Result<ToolResult, ClientError> {
        self.ready()?;
        let server = || Arc::clone(self.handle().name());
        if !self.handle().config().policy.permits(tool) {
            return Err(ClientError::ToolDenied { server: server(), tool: tool.to_owned() });
        }
        let arguments = serde_json::value::to_raw_value(arguments).ok().filter(|raw| raw.get().starts_with('{'));
        let Some(arguments) = arguments else { return Err(ClientError::ArgumentsNotAnObject { server: server() }) };
        self.request("tools/call", &CallParams { name: tool, arguments: &arguments }).await.map(ToolResult)
    }

    /// How long the server takes to answer `ping` (MCP 2025-11-25, `basic/utilities/ping`).
    ///
    /// # Errors
    /// [`ClientError::NotInitialized`], [`ClientError::ServerNotConnected`], [`ClientError::Refused`].
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        self.ready()?;
        let start = Instant::now();
        self.request("ping", &serde_json::json!({})).await?;
        Ok(start.elapsed())
    }

    /// Ends the server: calls in flight get 2 s, then stdin is closed, after 3 s SIGTERM, after 2 s SIGKILL. Returns when
    /// no process of it is left.
    pub async fn close(self) {
        self.running.stop.send_replace(Stop::Stop);
        // A task that panicked has dropped its process, and so ended it.
        let _ = self.running.task.await;
    }

    fn handle(&self) -> &ServerHandle {
        &self.running.handle
    }

    fn ready(&self) -> Result<(), ClientError> {
        self.connected()?;
        if self.initialized.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(ClientError::NotInitialized { server: Arc::clone(self.handle().name()) })
    }

    fn connected(&self) -> Result<(), ClientError> {
        let reason = match &self.handle().published().state {
            State::Failed { reason } => reason.clone(),
            State::Stopping | State::Stopped => "was stopped".to_owned(),
            State::Starting | State::Ready { .. } | State::Backoff { .. } => return Ok(()),
        };
        Err(ClientError::ServerNotConnected { server: Arc::clone(self.handle().name()), reason })
    }

    /// The raw result of a request.
    async fn request(&self, method: &str, params: &impl Serialize) -> Result<Bytes, ClientError> {
        let server = Arc::clone(self.handle().name());
        let refused = |error| ClientError::Refused { server: Arc::clone(&server), error };
        let serial = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let key = CallKey { session: 0, serial };
        let line = reply::request(serial, method, params);
        let line = line.slice(..line.len() - 1);
        let Ok(Message::Request { id, .. }) = parse(&line) else {
            return Err(refused(ErrorObject::new(reply::INVALID_REQUEST, "the request is not valid JSON-RPC")));
        };
        let (to, mut answers) = ReplySender::channel();
        let reply = Reply::new(key, &id, &server, &to);
        self.handle().call(Call { line, id, rename: None, progress_token: None, reply });
        let mut unanswered = CancelOnDrop { server: self.handle(), key: Some(key) };
        drop(to);
        while let Some(message) = answers.recv().await {
            if let ToAgent::Answer { line, .. } = message
                && let Ok(Message::Response { outcome, .. }) = parse(&line.slice(..line.len() - 1))
            {
                unanswered.key = None;
                return outcome.map_err(|error| refused(error_object(&error)));
            }
        }
        Err(refused(ErrorObject::new(reply::INTERNAL_ERROR, "no answer")))
    }
}

/// A server's error object; what of it cannot be read is left out.
fn error_object(raw: &Bytes) -> ErrorObject {
    serde_json::from_slice(raw).unwrap_or_else(|_| ErrorObject::new(reply::INTERNAL_ERROR, "a malformed error"))
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}

/// Tells the server that nobody waits any more, if it has not answered by then.
struct CancelOnDrop<'a> {
    server: &'a ServerHandle,
    key: Option<CallKey>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.server.cancel_soon(key);
        }
    }
}
