//! One MCP server, owned by a Rust program: what the daemon does for each of its servers, as a library.
//!
//! A [`Client`] runs the same task as the daemon, but never restarts a server that has failed. Framing, ids, tool list, stop sequence
//! and guard process are the same code.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let server = mcpd::ServerConfig::new("time", "uvx").args(["mcp-server-time"]);
//! let client = mcpd::Client::spawn(server)?;
//! client.initialize().await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name());
//! }
//! let result = client.call_tool("get_current_time", &serde_json::json!({ "timezone": "UTC" })).await?;
//! println!("{}", result.text()?);
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod error;
mod result;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub use self::error::{ClientError, Outcome};

pub use self::result::{Content, ResourceContents, Tool, ToolResult};
use crate::catalog::{Identity, List, Lists, Offer};
use crate::config::{CallLimit, ServerConfig, Settings, Start};
use crate::era::{self, Era};
use crate::list_kind::ListKind;
use crate::methods::TargetKind;
use crate::policy::{Hidden, Policy};
use crate::server::lifecycle::State;
use crate::server::messages::call::{
    Access, AccessTarget, AppliedOverride, CallError, Exposure, ExposureView, Failure,
};
use crate::server::{
    self, GuardProgram, ReaperHandle, RequestFailure, Running, ServerContext, ServerError, ServerHandle, StopLevel,
    failure_in,
};
use crate::suggest::nearest;

/// One server of this program: a process that it has started, or a session with a server at a URL.
///
/// All methods take `&self`, so an `Arc<Client>` can be used by any number of tasks. Dropping a `Client` kills the process and its
/// descendants at once, or closes the connections. [`Client::close`] stops the server in an orderly way.
#[derive(Debug)]
pub struct Client {
    running: Running,
    reaper: ReaperHandle,
    policy: Arc<ClientPolicy>,
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
    /// [`Client::close`] was called.
    Closed,
    /// The server could not be started, has ended, or needs a login.
    Failed,
}

/// The policy of a client. It never changes.
#[derive(Debug)]
struct ClientPolicy(Policy);

impl ExposureView for ClientPolicy {
    fn version(&self) -> u64 {
        0
    }

    fn exposure(&self, _server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure {
        let AccessTarget::Named { kind, name, .. } = target else { return Exposure::Hidden };
        let list = lists.map(|lists| Arc::clone(&lists[*kind])).unwrap_or_default();
        match Offer::of_name(&self.0, *kind, &list, name, era) {
            Offer::Permitted => Exposure::Exposed,
            Offer::NotListed => Exposure::NotListed,
            Offer::Denied => Exposure::Hidden,
        }
    }
}

impl Client {
    /// Starts the server under [`GuardProgram::available`]. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::InvalidServerName`]. A server that cannot be started is an error of [`Client::initialize`].
    pub fn spawn(server: ServerConfig) -> Result<Self, ClientError> {
        Self::spawn_with(server, GuardProgram::available())
    }

    /// Connects to the server that is reached at `url`. Has to be called within a tokio runtime, with its timers and its I/O.
    ///
    /// # Errors
    /// As [`Client::spawn`].
    pub fn connect(name: impl Into<Arc<str>>, url: impl Into<String>) -> Result<Self, ClientError> {
        Self::spawn_with(ServerConfig::remote(name, url), GuardProgram::None)
    }

    /// Starts the server under the given guard. The handshake begins at once; [`Client::initialize`] waits for it.
    ///
    /// # Errors
    /// As [`Client::spawn`].
    pub fn spawn_with(server: ServerConfig, guard: GuardProgram) -> Result<Self, ClientError> {
        ClientError::check_name(&server.name)?;
        let host = ServerContext { restarts: None, ..ServerContext::new(guard) };
        let (policy, settings) = (Arc::new(ClientPolicy(server.policy.clone())), server.settings.clone());
        let reaper = host.reaper.clone();
        let record = host.state_of(Arc::clone(&server.name));
        let running = server::start(Arc::new(server), true, host, Arc::default(), record);
        Ok(Self { running, reaper, policy, settings, initialized: AtomicBool::new(false) })
    }

    /// Waits for the end of the handshake (MCP 2025-11-25, `basic/lifecycle`).
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if it failed or took longer than the server's `handshake_timeout`, [`ClientError::Closed`].
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
            _ if self.is_closed() => ClientState::Closed,
            State::Failed { .. } | State::NeedsLogin { .. } => ClientState::Failed,
            State::Stopped if !self.wakes() => ClientState::Failed,
            _ if is_initialized => ClientState::Ready,
            _ => ClientState::Created,
        }
    }

    /// The tools that policy permits, in the order of the server's last list. A malformed definition is left out. If the server announces
    /// a change, mcpd requests the list again.
    ///
    /// # Errors
    /// [`ClientError::NotInitialized`], [`ClientError::Unavailable`], [`ClientError::Closed`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        self.ready()?;
        self.handle().wait_for(|published| published.first_start_ended).await;
        self.connected()?;
        let tools = Arc::clone(&self.handle().published().lists[ListKind::Tools]);
        let hidden = tools.hidden(ListKind::Tools, &self.policy.0);
        let mut listed = HashSet::new();
        let shown = tools.items.iter().filter(|tool| !hidden.contains_key(&*tool.key) && listed.insert(&tool.key));
        Ok(shown.filter_map(|tool| Tool::read(tool.for_era(Era::Legacy)).ok()).collect())
    }

    /// Calls a tool by the server's own name for it. Dropping the future cancels the call at the server. The call has the time limits
    /// `call_timeout` and `call_timeout_max` of [`Settings`].
    ///
    /// # Errors
    /// Any of [`ClientError`] but `InvalidServerName` and `ResourceDenied`.
    pub async fn call_tool(&self, tool: &str, arguments: &impl Serialize) -> Result<ToolResult, ClientError> {
        self.ready()?;
        self.check_offer(tool)?;
        let limit = self.settings.call_limit(tool);
        let called = call_tool(self.handle(), tool, arguments, limit, Some(self.access(tool))).await;
        called.map_err(|refused| match refused {
            Refused::Hidden if self.is_closed() => self.closed(),
            Refused::Hidden => self.no_tool(tool),
            Refused::Error(error) => error,
        })
    }

    /// How long the server takes to answer `ping` (MCP 2025-11-25, `basic/utilities/ping`), or `server/discover` where there is no
    /// `ping` (MCP 2026-07-28).
    ///
    /// # Errors
    /// As [`Client::call_tool`], but for errors about tools.
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        self.ready()?;
        let era = self.handle().published().protocol.map_or(Era::Legacy, era::of);
        let start = Instant::now();
        request(self.handle(), era.greeting(), &serde_json::json!({}), self.settings.request_limit()).await?;
        Ok(start.elapsed())
    }

    /// Ends the server: calls in flight get 2 s, then stdin is closed, after 3 s SIGTERM, after 2 s SIGKILL. Returns when
    /// no process of it is left. One at a URL is told that the session is over.
    ///
    /// From the call on, the state is [`ClientState::Closed`], and requests fail with [`ClientError::Closed`]. A call that is in flight when
    /// its time is over fails with [`ClientError::Stopped`]. May be called again.
    pub async fn close(&self) {
        self.running.control.stop(StopLevel::FinishRunning);
        // A task that panicked has dropped its process, and so ended it.
        self.handle().wait_ended().await;
        let _ = self.reaper.close().await;
    }

    fn handle(&self) -> &ServerHandle {
        &self.running.handle
    }

    fn is_closed(&self) -> bool {
        self.running.control.stopping() > StopLevel::Run
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed { server: Arc::clone(self.handle().name()) }
    }

    /// Whether a server that is stopped is started again by a call.
    fn wakes(&self) -> bool {
        self.settings.start == Start::Lazy && !self.handle().has_ended()
    }

    fn connected(&self) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(self.closed());
        }
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

    /// Refuses a tool that policy hides, or that the server does not list and will not list.
    fn check_offer(&self, tool: &str) -> Result<(), ClientError> {
        let (tools, may_list_more) = {
            let published = self.handle().published();
            (Arc::clone(&published.lists[ListKind::Tools]), published.may_list_more())
        };
        match Offer::of_name(&self.policy.0, ListKind::Tools, &tools, tool, Era::Legacy) {
            Offer::Permitted => Ok(()),
            Offer::NotListed if may_list_more => Ok(()),
            Offer::NotListed | Offer::Denied => Err(self.no_tool(tool)),
        }
    }

    /// The permission of a call, which is checked again before the call is written.
    fn access(&self, tool: &str) -> Box<Access> {
        let exposed = Bytes::copy_from_slice(tool.as_bytes());
        let (kind, name) = (ListKind::Tools, Arc::from(tool));
        Box::new(Access {
            view: Arc::clone(&self.policy) as Arc<dyn ExposureView>,
            target: AccessTarget::Named { kind, exposed: exposed.clone(), name },
            error_kind: TargetKind::Tool,
            requested_name: exposed,
            era: Era::Legacy,
            // Not the version of the view, so that the lists decide.
            version: u64::MAX,
            lists: Identity::default(),
            tool_override: AppliedOverride::default(),
        })
    }

    fn no_tool(&self, tool: &str) -> ClientError {
        let tools = Arc::clone(&self.handle().published().lists[ListKind::Tools]);
        no_tool(self.handle().name(), tool, &self.policy.0, &tools)
    }
}

/// Why a server with these tools has no tool of this name.
pub(crate) fn no_tool(server: &Arc<str>, tool: &str, policy: &Policy, tools: &List) -> ClientError {
    let (server, requested) = (Arc::clone(server), tool.to_owned());
    let is_denied = match tools.hidden(ListKind::Tools, policy).get(tool) {
        Some(why) => *why != Hidden::Malformed,
        // Without a definition, nothing is known about what it does.
        None => {
            matches!(policy.verdict(ListKind::Tools, tool, None), Err(why) if !matches!(why, Hidden::Writes { .. }))
        }
    };
    if is_denied {
        return ClientError::ToolDenied { server, tool: requested };
    }
    let nearest = nearest(tool, tools.items.iter().map(|item| &*item.key)).map(str::to_owned);
    ClientError::UnknownTool { server, tool: requested, nearest }
}

/// Whether calls have a chance, and the reason if not.
pub(crate) fn connected(server: &ServerHandle) -> Result<(), ClientError> {
    let failure = {
        let published = server.published();
        match &published.state {
            _ if published.not_started_yet => return Ok(()),
            State::Starting | State::Ready { .. } | State::Unresponsive { .. } => return Ok(()),
            State::Stopping | State::Stopped => {
                Failure::Unavailable { reason: ServerError::Stopped, retry_after: None }
            }
            down @ (State::Failed { .. } | State::Backoff { .. } | State::NeedsLogin { .. }) => failure_in(down),
        }
    };
    Err(not_sent(server, failure))
}

/// A failure of a request that was not sent.
pub(crate) fn not_sent(server: &ServerHandle, failure: Failure) -> ClientError {
    let error = CallError { server: Arc::clone(server.name()), failure, may_have_arrived: false };
    ClientError::of_failure(server, error)
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its access hides the tool by now. The call was not sent.
    Hidden,
    Error(ClientError),
}

/// Calls a tool by the server's own name for it, if `access` permits it when it is written.
pub(crate) async fn call_tool(
    server: &ServerHandle,
    tool: &str,
    arguments: &impl Serialize,
    limit: CallLimit,
    access: Option<Box<Access>>,
) -> Result<ToolResult, Refused> {
    let invalid = |reason| Refused::Error(ClientError::InvalidArguments { server: Arc::clone(server.name()), reason });
    let arguments = serde_json::value::to_raw_value(arguments).ok().filter(|raw| raw.get().starts_with('{'));
    let arguments = arguments.ok_or_else(|| invalid("are not a JSON object"))?;
    let params = CallParams { name: tool, arguments: &arguments };
    let answered = server.request("tools/call", &params, Some(tool), limit, access).await;
    answered.map(ToolResult::from_raw).map_err(|failure| match failure {
        RequestFailure::Hidden => Refused::Hidden,
        RequestFailure::Invalid => invalid("are not valid JSON"),
        RequestFailure::Failed(error) => Refused::Error(ClientError::of_failure(server, error)),
        RequestFailure::ServerError(error) => {
            Refused::Error(ClientError::ErrorResponse { server: Arc::clone(server.name()), error })
        }
    })
}

/// The raw result of a request.
pub(crate) async fn request(
    server: &ServerHandle,
    method: &str,
    params: &impl Serialize,
    limit: CallLimit,
) -> Result<Bytes, ClientError> {
    server.request(method, params, None, limit, None).await.map_err(|failure| match failure {
        RequestFailure::Failed(error) => ClientError::of_failure(server, error),
        RequestFailure::ServerError(error) => ClientError::ErrorResponse { server: Arc::clone(server.name()), error },
        // Requests of mcpd itself are valid, and are not checked for access.
        RequestFailure::Hidden | RequestFailure::Invalid => {
            not_sent(server, Failure::Unavailable { reason: ServerError::Hidden, retry_after: None })
        }
    })
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}
