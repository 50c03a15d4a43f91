//! One MCP server, owned by a Rust program: what the daemon does for each of its servers, as a library.
//!
//! A [`Client`] runs the same task as the daemon, but never restarts a server that has failed. Framing, ids, tool list, stop sequence
//! and guard process are the same code. Knows: [`crate::server`].
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let server = mcpd::ServerConfig::new("time", "uvx").args(["mcp-server-time"]);
//! let client = mcpd::Client::spawn(server);
//! client.initialize().await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name());
//! }
//! let result = client.call_tool("get_current_time", &serde_json::json!({ "timezone": "UTC" })).await?;
//! println!("{}", result.value()?);
//! client.close().await;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::catalog::Item;
use crate::config::{CallLimit, ServerConfig, Settings, Start};
use crate::era::{self, Era};
use crate::jsonrpc::reply::ErrorObject;
use crate::list_kind::ListKind;
use crate::policy::Policy;
use crate::server::lifecycle::State;
use crate::server::messages::call::Access;
use crate::server::{self, GuardProgram, ReaperHandle, Running, ServerContext, ServerHandle, SharedState, StopLevel};
use crate::tool::Tool;

/// One server of this program: a process that it has started, or a session with a server at a URL.
///
/// Dropping a `Client` kills the process and its descendants at once, or closes the connections. [`Client::close`] stops the server in an
/// orderly way.
#[derive(Debug)]
pub struct Client {
    running: Running,
    reaper: ReaperHandle,
    policy: Policy,
    settings: Settings,
    initialized: AtomicBool,
}

/// Where a [`Client`] is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientState {
    /// Spawned; [`Client::initialize`] has not returned yet.
    Created,
    /// Takes calls.
    Ready,
    /// Told to close.
    Closed,
    /// The server could not be started, has ended, or needs a login.
    Failed,
}

/// Why a request to a [`Client`] failed. Each text has the server's name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request came before [`Client::initialize`] had returned.
    #[error("server `{server}` is not initialized: call `initialize` first")]
    NotInitialized {
        /// The configured name.
        server: Arc<str>,
    },
    /// The server has ended, or could not be started.
    #[error("server `{server}` is not connected: {reason}")]
    ServerNotConnected {
        /// The configured name.
        server: Arc<str>,
        /// How it ended, on one line.
        reason: String,
    },
    /// Policy hides the tool. Only a Rust program sees this error: an agent of mcpd gets the error of a nonexistent tool.
    #[error("tool `{tool}` of server `{server}` is denied")]
    ToolDenied {
        /// The configured name.
        server: Arc<str>,
        /// The server's own name for the tool.
        tool: String,
    },
    /// The server has listed something that is no tool.
    #[error("server `{server}` has listed a malformed tool `{tool}`: {reason}")]
    MalformedTool {
        /// The configured name.
        server: Arc<str>,
        /// The server's own name for the tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Arguments have to be a JSON object (MCP 2025-11-25, `server/tools`, "Calling Tools").
    #[error("the arguments for server `{server}` are not a JSON object")]
    ArgumentsNotAnObject {
        /// The configured name.
        server: Arc<str>,
    },
    /// The server answered with a JSON-RPC error, or mcpd did, with a code from −31001 to −31006. In errors of mcpd, `data.outcome` says
    /// whether the call may have had an effect.
    #[error("server `{server}`: {} ({})", error.message, error.code)]
    ErrorResponse {
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
    pub(crate) fn from_raw(raw: Bytes) -> Self {
        Self(raw)
    }

    /// The raw JSON: number spelling, key order and unknown fields included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.0
    }

    /// The decoded JSON.
    ///
    /// # Errors
    /// If the server has sent something that is not valid JSON.
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Whether the tool itself reports a failure (`isError`). A result that is not valid JSON reports none; [`Self::value`] returns its
    /// error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.value().is_ok_and(|result| result["isError"] == true)
    }
}

impl Client {
    /// Starts the server under [`GuardProgram::available`]. Has to be called within a tokio runtime.
    #[must_use]
    pub fn spawn(server: ServerConfig) -> Self {
        Self::spawn_with(server, GuardProgram::available())
    }

    /// Connects to the server that is reached at `url`. Has to be called within a tokio runtime, with its timers and its I/O.
    #[must_use]
    pub fn connect(name: impl Into<Arc<str>>, url: impl Into<String>) -> Self {
        Self::spawn_with(ServerConfig::remote(name, url), GuardProgram::None)
    }

    /// Starts the server under the given guard. The handshake begins at once; [`Client::initialize`] waits for it.
    #[must_use]
    pub fn spawn_with(server: ServerConfig, guard: GuardProgram) -> Self {
        let host = ServerContext { restart_on_exit: false, ..ServerContext::new(guard) };
        let (policy, settings) = (server.policy.clone(), server.settings.clone());
        let reaper = host.reaper.clone();
        let record = SharedState::new(Arc::clone(&server.name), host.output.clone());
        let running = server::start(Arc::new(server), true, host, Arc::default(), record);
        Self { running, reaper, policy, settings, initialized: AtomicBool::new(false) }
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
        let is_initialized = self.initialized.load(Ordering::Relaxed);
        match self.handle().published().state {
            _ if self.running.control.stopping() > StopLevel::Run => ClientState::Closed,
            State::Failed { .. } | State::NeedsLogin { .. } => ClientState::Failed,
            State::Stopped if !self.wakes() => ClientState::Failed,
            _ if is_initialized => ClientState::Ready,
            _ => ClientState::Created,
        }
    }

    /// The tools that policy permits, in the order of the server's last list. If the server announces a change, mcpd requests the list
    /// again.
    ///
    /// # Errors
    /// [`ClientError::NotInitialized`], [`ClientError::ServerNotConnected`], [`ClientError::MalformedTool`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        self.ready()?;
        self.handle().wait_for(|published| published.first_start_ended).await;
        self.connected()?;
        let tools = Arc::clone(&self.handle().published().lists[ListKind::Tools]);
        let hidden = tools.hidden(ListKind::Tools, &self.policy);
        let shown = tools.items.iter().filter(|tool| !hidden.contains_key(&*tool.key));
        let read = |tool: &Item| {
            Tool::read(tool.for_era(Era::Legacy)).map_err(|malformed| ClientError::MalformedTool {
                server: Arc::clone(self.handle().name()),
                tool: tool.key.to_string(),
                reason: malformed.reason.to_string(),
            })
        };
        shown.map(read).collect()
    }

    /// Calls a tool by the server's own name for it. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// All of [`ClientError`].
    pub async fn call_tool(&self, tool: &str, arguments: &impl Serialize) -> Result<ToolResult, ClientError> {
        self.ready()?;
        let tools = Arc::clone(&self.handle().published().lists[ListKind::Tools]);
        if !tools.permits(ListKind::Tools, &self.policy, tool) {
            return Err(ClientError::ToolDenied { server: Arc::clone(self.handle().name()), tool: tool.to_owned() });
        }
        call_tool(self.handle(), tool, arguments, self.settings.call_limit(tool), None).await
    }

    /// How long the server takes to answer `ping` (MCP 2025-11-25, `basic/utilities/ping`), or `server/discover` where there is no
    /// `ping` (MCP 2026-07-28).
    ///
    /// # Errors
    /// [`ClientError::NotInitialized`], [`ClientError::ServerNotConnected`], [`ClientError::ErrorResponse`].
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        self.ready()?;
        let era = self.handle().published().protocol.map_or(Era::Legacy, era::of);
        let start = Instant::now();
        request(self.handle(), era.greeting(), &serde_json::json!({}), self.settings.request_limit()).await?;
        Ok(start.elapsed())
    }

    /// Ends the server: calls in flight get 2 s, then stdin is closed, after 3 s SIGTERM, after 2 s SIGKILL. Returns when
    /// no process of it is left. One at a URL is told that the session is over.
    pub async fn close(self) {
        self.running.control.stop(StopLevel::FinishRunning);
        // A task that panicked has dropped its process, and so ended it.
        let _ = self.running.task.await;
        let _ = self.reaper.close().await;
    }

    fn handle(&self) -> &ServerHandle {
        &self.running.handle
    }

    /// Whether a server that is stopped is started again by a call.
    fn wakes(&self) -> bool {
        self.settings.start == Start::Lazy && !self.handle().has_ended()
    }

    fn connected(&self) -> Result<(), ClientError> {
        let is_stopped = matches!(self.handle().published().state, State::Stopping | State::Stopped);
        if is_stopped && self.wakes() { Ok(()) } else { connected(self.handle()) }
    }

    fn ready(&self) -> Result<(), ClientError> {
        self.connected()?;
        if self.initialized.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(ClientError::NotInitialized { server: Arc::clone(self.handle().name()) })
    }
}

/// Whether calls have a chance, and the reason if not.
pub(crate) fn connected(server: &ServerHandle) -> Result<(), ClientError> {
    let published = server.published();
    let reason = match &published.state {
        _ if published.not_started_yet => return Ok(()),
        State::Failed { reason } | State::Backoff { reason, .. } => reason.to_string(),
        State::NeedsLogin { .. } => server::login_needed(server.name()),
        State::Stopping | State::Stopped => "was stopped".to_owned(),
        State::Starting | State::Ready { .. } | State::Unresponsive { .. } => return Ok(()),
    };
    Err(ClientError::ServerNotConnected { server: Arc::clone(server.name()), reason })
}

/// Calls a tool by the server's own name for it. Without `access` it is called whatever policy says.
pub(crate) async fn call_tool(
    server: &ServerHandle,
    tool: &str,
    arguments: &impl Serialize,
    limit: CallLimit,
    access: Option<Box<Access>>,
) -> Result<ToolResult, ClientError> {
    let arguments = serde_json::value::to_raw_value(arguments).ok().filter(|raw| raw.get().starts_with('{'));
    let Some(arguments) = arguments else {
        return Err(ClientError::ArgumentsNotAnObject { server: Arc::clone(server.name()) });
    };
    let params = CallParams { name: tool, arguments: &arguments };
    let answered = server.request("tools/call", &params, Some(tool), limit, access).await;
    answered.map(ToolResult).map_err(|error| refused(server, error))
}

/// The raw result of a request.
pub(crate) async fn request(
    server: &ServerHandle,
    method: &str,
    params: &impl Serialize,
    limit: CallLimit,
) -> Result<Bytes, ClientError> {
    server.request(method, params, None, limit, None).await.map_err(|error| refused(server, error))
}

fn refused(server: &ServerHandle, error: ErrorObject) -> ClientError {
    ClientError::ErrorResponse { server: Arc::clone(server.name()), error }
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}
