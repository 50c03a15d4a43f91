//! Client of `admin.sock`: one function per method.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::report::{
    ApprovalReport, ChangeReport, ChangesSummary, ControlReport, DefinitionPart, ProcessReport, ReloadReport, Report,
    ToolsSummary,
};
use super::{
    APPROVE, AdminEvent, ApprovedDefinition, CALLS, CHANGES, CHECK, CallsRequest, CallsSummary, Channel, DISABLE,
    DaemonMessage, ENABLE, EnvironmentChanges, LOG_LEVEL, LOGS, LogsRequest, LogsSummary, MASK, METRICS, Notification,
    PROCESS, Params, RELOAD, RESTART, RESTART_DAEMON, Request, Response, STATUS, TAP, TOKENS, TOOLS, TapRequest,
    TapSummary, ToolsRequest, channel,
};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::INVALID_PARAMS;
use crate::manager::Toggle;
use crate::sockets::{self, ExpectedListener};
use crate::tap::report::TapReport;

/// A daemon normally answers within milliseconds.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

const UNAVAILABLE: [ErrorCode; 2] = [ErrorCode::Overloaded, ErrorCode::ShuttingDown];

/// Set for a command whose output must not have secrets.
pub(crate) const MASKED_VARIABLE: &str = "MCPD_MASKED";

/// Whether the daemon's answers to this process are masked.
pub(crate) fn is_masked() -> bool {
    std::env::var_os(MASKED_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Nothing listens on the socket at this path.
    #[error("not running: no daemon at {}", .0.display())]
    NotRunning(PathBuf),
    /// The process that listens there is not this user's daemon.
    #[error("{0}")]
    Untrusted(String),
    /// The daemon accepts no requests of this process.
    #[error("{0}")]
    NotPermitted(String),
    /// The daemon sent no valid response in time.
    #[error("the daemon at {} does not answer: {reason}; `mcpd doctor` shows why", path.display())]
    NoAnswer {
        /// Its socket.
        path: PathBuf,
        /// What happened instead.
        reason: String,
    },
    /// The daemon rejected the request as invalid. Nothing has changed.
    #[error("{0}")]
    Refused(String),
    /// The daemon takes no such request now: too many are in progress, or it is stopping or restarting.
    #[error("{0}")]
    Unavailable(String),
}

/// A connection with one request in progress, whose result is a `T`.
struct Connection<T> {
    channel: Channel<DaemonMessage<T>, Request>,
    path: PathBuf,
}

/// Requests the status of the daemon at the admin socket `path`.
///
/// # Errors
/// See [`AdminError`].
pub async fn status(path: &Path) -> Result<Report, AdminError> {
    Connection::request(path, STATUS, Params::default()).await?.response().await
}

/// Requests the facts about the daemon's process. They are never masked: the environment is to read the configuration with, not to show.
///
/// # Errors
/// See [`AdminError`].
pub(crate) async fn process(path: &Path) -> Result<ProcessReport, AdminError> {
    Connection::request(path, PROCESS, Params::default()).await?.response().await
}

/// Runs a health check of every running server, then returns the status.
///
/// # Errors
/// See [`AdminError`].
pub async fn check(path: &Path) -> Result<Report, AdminError> {
    Connection::request(path, CHECK, Params::default()).await?.response().await
}

/// Sets the log filter, if `filter` is given, and returns the filter in effect.
///
/// # Errors
/// See [`AdminError`].
pub async fn log_level(path: &Path, filter: Option<&str>) -> Result<String, AdminError> {
    let params = Params { filter: filter.map(str::to_owned), ..Params::default() };
    Connection::request(path, LOG_LEVEL, params).await?.response().await
}

/// Has the daemon read the tokens of loopback addresses again. Connections and sessions of former ones end.
///
/// # Errors
/// See [`AdminError`].
pub async fn read_tokens(path: &Path) -> Result<bool, AdminError> {
    Connection::request(path, TOKENS, Params::default()).await?.response().await
}

/// An action on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Replaces its instances after their calls have ended.
    Restart,
    /// Enables or disables it or one of its tools, until the next toggle or daemon start.
    Toggle(Toggle),
}

/// Performs `action` on `server` and waits for the outcome.
///
/// # Errors
/// See [`AdminError`].
pub async fn control(path: &Path, action: ServerAction, server: &str) -> Result<ControlReport, AdminError> {
    let mut params = Params { server: Some(server.to_owned()), ..Params::default() };
    let method = match action {
        ServerAction::Restart => RESTART,
        ServerAction::Toggle(toggle) => {
            let (method, tool, stop) = match toggle {
                Toggle::Enable => (ENABLE, None, false),
                Toggle::EnableTool(tool) => (ENABLE, Some(tool), false),
                Toggle::Disable => (DISABLE, None, false),
                Toggle::Stop => (DISABLE, None, true),
                Toggle::DisableTool(tool) => (DISABLE, Some(tool), false),
            };
            (params.tool, params.stop) = (tool, stop);
            method
        }
    };
    Connection::request(path, method, params).await?.response().await
}

/// Restarts the daemon. Returns when no server is left, and the next program follows.
///
/// # Errors
/// See [`AdminError`].
pub(crate) async fn restart_daemon(path: &Path) -> Result<bool, AdminError> {
    Connection::request(path, RESTART_DAEMON, Params::default()).await?.response().await
}

/// Reloads the configuration and reports the effect on each server.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if the configuration is not valid.
pub async fn reload(path: &Path) -> Result<ReloadReport, AdminError> {
    Connection::request(path, RELOAD, Params::default()).await?.response().await
}

/// As [`reload`], after `changes` to the environment that the configuration refers to.
///
/// # Errors
/// As [`reload`].
pub(crate) async fn reload_environment(path: &Path, changes: EnvironmentChanges) -> Result<ReloadReport, AdminError> {
    let params = Params { environment: Some(changes), ..Params::default() };
    Connection::request(path, RELOAD, params).await?.response().await
}

/// Requests a feed of call records.
///
/// # Errors
/// See [`AdminError`].
pub async fn calls(path: &Path, request: CallsRequest) -> Result<Feed<CallsSummary>, AdminError> {
    Feed::request(path, CALLS, Params { calls: Some(request), ..Params::default() }).await
}

/// Requests a feed of servers' stderr lines, with or without secrets.
///
/// # Errors
/// See [`AdminError`].
pub async fn logs(path: &Path, request: LogsRequest, masked: bool) -> Result<Feed<LogsSummary>, AdminError> {
    Feed::request(path, LOGS, Params { logs: Some(request), masked, ..Params::default() }).await
}

/// Watches messages of agents and servers. Returns when the daemon has begun.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if there is no such server or agent, or too many watch.
pub(crate) async fn tap(path: &Path, request: TapRequest) -> Result<TapFeed, AdminError> {
    let mut feed: Feed<TapSummary> =
        Feed::request(path, TAP, Params { tap: Some(request), ..Params::default() }).await?;
    feed.next().await?;
    Ok(TapFeed { feed, unfinished: None })
}

/// The messages of a tap.
pub(crate) struct TapFeed {
    feed: Feed<TapSummary>,
    /// More of its text follows.
    unfinished: Option<Box<TapReport>>,
}

/// An item of a [`TapFeed`].
#[derive(Debug)]
pub(crate) enum TapItem {
    Message(Box<TapReport>),
    /// The number of messages that are missing here.
    Missed(u64),
}

impl TapFeed {
    /// Ends the tap. The items up to now are still received, then the end.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub(crate) async fn finish(&mut self) -> Result<(), AdminError> {
        let Connection { channel, path } = &mut self.feed.connection;
        let no_answer = |reason| AdminError::NoAnswer { path: path.clone(), reason };
        channel.close().await.map_err(|error| no_answer(error.to_string()))
    }

    /// The next item; `None` when the daemon closes the connection. Cancel safe.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub(crate) async fn next(&mut self) -> Result<Option<TapItem>, AdminError> {
        loop {
            match self.feed.next().await? {
                Some(FeedItem::Event(AdminEvent::Message(report))) => self.unfinished = Some(report),
                Some(FeedItem::Event(AdminEvent::MessagePart(text))) => {
                    if let Some(report) = &mut self.unfinished {
                        report.text += &text;
                        report.parts = report.parts.saturating_sub(1);
                    }
                }
                Some(FeedItem::Event(AdminEvent::Missed(count))) => return Ok(Some(TapItem::Missed(count))),
                Some(_) => {}
                None => return Ok(None),
            }
            if let Some(report) = self.unfinished.take_if(|report| report.parts == 0) {
                return Ok(Some(TapItem::Message(report)));
            }
        }
    }
}

/// Requests a feed of tools.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if there is no such profile.
pub async fn tools(path: &Path, request: ToolsRequest) -> Result<Feed<ToolsSummary>, AdminError> {
    Feed::request(path, TOOLS, Params { tools: Some(request), ..Params::default() }).await
}

/// Requests the definitions that are not approved, of one server or of all, with their texts.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if there is no such server.
pub(crate) async fn changes(
    path: &Path,
    server: Option<&str>,
) -> Result<(Vec<ChangeReport>, ChangesSummary), AdminError> {
    let params = Params { server: server.map(str::to_owned), ..Params::default() };
    let mut connection: Connection<ChangesSummary> = Connection::request(path, CHANGES, params).await?;
    let (mut all, mut limit): (Vec<ChangeReport>, _) = (Vec::new(), TIMEOUT);
    loop {
        match connection.next_message_in(limit).await? {
            DaemonMessage::Response(response) => return Ok((all, connection.result(response)?)),
            DaemonMessage::Notification(Notification { event, .. }) => match event {
                AdminEvent::Change(change) => all.push(*change),
                AdminEvent::Definition(part) => all.last_mut().into_iter().for_each(|change| append(change, &part)),
                AdminEvent::Waiting { at_most_ms } => limit = with_waiting(at_most_ms),
                _ => {}
            },
        }
    }
}

/// Requests all metrics, in the text format of Prometheus.
///
/// # Errors
/// See [`AdminError`].
pub async fn metrics(path: &Path) -> Result<String, AdminError> {
    text(path, METRICS, Params::default()).await
}

/// Returns `text` without the secrets of the daemon.
///
/// # Errors
/// See [`AdminError`].
pub(crate) async fn mask(path: &Path, unmasked: String) -> Result<String, AdminError> {
    text(path, MASK, Params { text: Some(unmasked), ..Params::default() }).await
}

/// Requests a text.
async fn text(path: &Path, method: &str, params: Params) -> Result<String, AdminError> {
    let mut connection: Connection<usize> = Connection::request(path, method, params).await?;
    let mut text = String::new();
    loop {
        match connection.next_message_in(TIMEOUT).await? {
            DaemonMessage::Response(response) => return connection.result(response).map(|_| text),
            DaemonMessage::Notification(Notification { event: AdminEvent::Text(part), .. }) => text += &part,
            DaemonMessage::Notification(_) => {}
        }
    }
}

/// The limit for the next message, if the daemon announces this time.
fn with_waiting(at_most_ms: u64) -> Duration {
    TIMEOUT.saturating_add(Duration::from_millis(at_most_ms))
}

/// Appends a part of a definition. Parts of one text follow each other.
fn append(change: &mut ChangeReport, DefinitionPart { approved, text }: &DefinitionPart) {
    match approved {
        None => change.current += text,
        Some(index) if *index == change.approved.len() => change.approved.push(text.clone()),
        Some(_) => change.approved.last_mut().into_iter().for_each(|last| *last += text),
    }
}

/// Approves definitions of `server`. A definition that the server does not list any more is left as it is.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if nothing is approved, because it cannot be recorded.
pub(crate) async fn approve(
    path: &Path,
    server: &str,
    definitions: Vec<ApprovedDefinition>,
) -> Result<ApprovalReport, AdminError> {
    let params = Params { server: Some(server.to_owned()), definitions, ..Params::default() };
    Connection::request(path, APPROVE, params).await?.response().await
}

/// Events of one request. The summary `T` follows the existing entries; new entries follow it if requested.
pub struct Feed<T> {
    connection: Connection<T>,
    has_summary: bool,
}

/// An item of a [`Feed`].
#[derive(Debug)]
pub enum FeedItem<T> {
    /// An entry, or a count of missed ones.
    Event(AdminEvent),
    /// All existing entries have been sent.
    Summary(T),
}

impl<T: DeserializeOwned + Unpin> Feed<T> {
    async fn request(path: &Path, method: &str, params: Params) -> Result<Self, AdminError> {
        Ok(Self { connection: Connection::request(path, method, params).await?, has_summary: false })
    }

    /// Receives the next item; `None` when the daemon closes the connection.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn next(&mut self) -> Result<Option<FeedItem<T>>, AdminError> {
        let message = match self.has_summary {
            false => Some(self.connection.next_message_in(TIMEOUT).await?),
            true => self.connection.next_message().await?,
        };
        Ok(match message {
            Some(DaemonMessage::Notification(Notification { event, .. })) => Some(FeedItem::Event(event)),
            Some(DaemonMessage::Response(response)) => {
                let summary = self.connection.result(response)?;
                self.has_summary = true;
                Some(FeedItem::Summary(summary))
            }
            None => None,
        })
    }
}

impl<T: DeserializeOwned + Unpin> Connection<T> {
    async fn request(path: &Path, method: &str, params: Params) -> Result<Self, AdminError> {
        let connected = sockets::connect(path, ExpectedListener::OwnDaemon).await;
        let stream = connected.map_err(|error| match (sockets::untrusted(&error), error.kind()) {
            (Some(untrusted), _) => AdminError::Untrusted(untrusted.to_string()),
            (_, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => AdminError::NotRunning(path.to_owned()),
            _ => AdminError::NoAnswer { path: path.to_owned(), reason: error.to_string() },
        })?;
        let mut channel: Channel<DaemonMessage<T>, Request> = channel(stream);
        let masked = params.masked || is_masked() && method != PROCESS;
        let params = Params { version: env!("CARGO_PKG_VERSION").to_owned(), masked, ..params };
        let request = Request { jsonrpc: "2.0".to_owned(), id: 1, method: method.to_owned(), params };
        let sent = timeout(TIMEOUT, channel.send(request)).await;
        let mut connection = Self { channel, path: path.to_owned() };
        match sent {
            Ok(Ok(())) => Ok(connection),
            // The daemon may have refused the connection and closed it. Its reason can still be read.
            Ok(Err(error)) => {
                Err(connection.response().await.err().unwrap_or_else(|| connection.no_answer(error.to_string())))
            }
            Err(_) => Err(connection.late(TIMEOUT)),
        }
    }

    async fn next_message(&mut self) -> Result<Option<DaemonMessage<T>>, AdminError> {
        self.channel.next().await.transpose().map_err(|error| self.no_answer(error.to_string()))
    }

    async fn next_message_in(&mut self, limit: Duration) -> Result<DaemonMessage<T>, AdminError> {
        let received = timeout(limit, self.next_message()).await;
        let message = received.map_err(|_| self.late(limit))??;
        message.ok_or_else(|| self.no_answer(io::ErrorKind::UnexpectedEof.to_string()))
    }

    /// Waits for the response. The daemon first sends how long a slow one may take.
    async fn response(&mut self) -> Result<T, AdminError> {
        let mut limit = TIMEOUT;
        loop {
            match self.next_message_in(limit).await? {
                DaemonMessage::Response(response) => return self.result(response),
                DaemonMessage::Notification(Notification { event: AdminEvent::Waiting { at_most_ms }, .. }) => {
                    limit = with_waiting(at_most_ms);
                }
                DaemonMessage::Notification(_) => {}
            }
        }
    }

    fn result(&self, response: Response<T>) -> Result<T, AdminError> {
        match response {
            Response { result: Some(result), .. } => Ok(result),
            Response { error: Some(error), .. } if error.refuses_connection() => {
                Err(AdminError::NotPermitted(error.message))
            }
            Response { error: Some(error), .. } if error.code == INVALID_PARAMS => {
                Err(AdminError::Refused(error.message))
            }
            Response { error: Some(error), .. } if UNAVAILABLE.map(ErrorCode::number).contains(&error.code) => {
                Err(AdminError::Unavailable(error.message))
            }
            Response { error: Some(error), .. } => Err(self.no_answer(error.message)),
            Response { .. } => Err(self.no_answer("neither a result nor an error".to_owned())),
        }
    }

    fn late(&self, limit: Duration) -> AdminError {
        self.no_answer(format!("no response within {}", crate::duration::format(limit)))
    }

    fn no_answer(&self, reason: String) -> AdminError {
        AdminError::NoAnswer { path: self.path.clone(), reason }
    }
}
