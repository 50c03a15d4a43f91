//! Client of `admin.sock`: one function per method.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::report::{ControlReport, ReloadReport, Report, ToolsSummary};
use super::{
    AdminEvent, CALLS, CHECK, CallsRequest, CallsSummary, Channel, DISABLE, DaemonMessage, ENABLE, EnvironmentChanges,
    LOG_LEVEL, LOGS, LogsRequest, LogsSummary, Notification, PROCESS, Params, ProcessReport, RELOAD, RESTART, Request,
    Response, STATUS, TOKENS, TOOLS, ToolsRequest, channel,
};
use crate::jsonrpc::reply::INVALID_PARAMS;
use crate::manager::Toggle;
use crate::sockets::{self, ExpectedListener};

/// A daemon normally answers within milliseconds.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

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
    let mut connection = Connection::request(path, STATUS, Params::default()).await?;
    in_time(path, connection.read_response()).await
}

/// Requests the facts about the daemon's process.
///
/// # Errors
/// See [`AdminError`].
pub(crate) async fn process(path: &Path) -> Result<ProcessReport, AdminError> {
    let mut connection = Connection::request(path, PROCESS, Params::default()).await?;
    in_time(path, connection.read_response()).await
}

/// Runs a health check of every running server, then returns the status.
///
/// # Errors
/// See [`AdminError`].
pub async fn check(path: &Path) -> Result<Report, AdminError> {
    Connection::request(path, CHECK, Params::default()).await?.late_response().await
}

/// Sets the log filter, if `filter` is given, and returns the filter in effect.
///
/// # Errors
/// See [`AdminError`].
pub async fn log_level(path: &Path, filter: Option<&str>) -> Result<String, AdminError> {
    let params = Params { filter: filter.map(str::to_owned), ..Params::default() };
    let mut connection = Connection::request(path, LOG_LEVEL, params).await?;
    in_time(path, connection.read_response()).await
}

/// Has the daemon read the tokens of loopback addresses again. Connections and sessions of former ones end.
///
/// # Errors
/// See [`AdminError`].
pub async fn read_tokens(path: &Path) -> Result<bool, AdminError> {
    let mut connection = Connection::request(path, TOKENS, Params::default()).await?;
    in_time(path, connection.read_response()).await
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
    Connection::request(path, method, params).await?.late_response().await
}

/// Reloads the configuration and reports the effect on each server.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if the configuration is not valid.
pub async fn reload(path: &Path) -> Result<ReloadReport, AdminError> {
    Connection::request(path, RELOAD, Params::default()).await?.late_response().await
}

/// As [`reload`], after `changes` to the environment that the configuration refers to.
///
/// # Errors
/// As [`reload`].
pub(crate) async fn reload_environment(path: &Path, changes: EnvironmentChanges) -> Result<ReloadReport, AdminError> {
    Connection::request(path, RELOAD, Params { environment: Some(changes), ..Params::default() })
        .await?
        .late_response()
        .await
}

/// Requests a feed of call records.
///
/// # Errors
/// See [`AdminError`].
pub async fn calls(path: &Path, request: CallsRequest) -> Result<Feed<CallsSummary>, AdminError> {
    let connection = Connection::request(path, CALLS, Params { calls: Some(request), ..Params::default() }).await?;
    Ok(Feed { connection, has_summary: false })
}

/// Requests a feed of servers' stderr lines.
///
/// # Errors
/// See [`AdminError`].
pub async fn logs(path: &Path, request: LogsRequest) -> Result<Feed<LogsSummary>, AdminError> {
    let connection = Connection::request(path, LOGS, Params { logs: Some(request), ..Params::default() }).await?;
    Ok(Feed { connection, has_summary: false })
}

/// Requests a feed of tools.
///
/// # Errors
/// See [`AdminError`]; [`AdminError::Refused`] if there is no such profile.
pub async fn tools(path: &Path, request: ToolsRequest) -> Result<Feed<ToolsSummary>, AdminError> {
    let connection = Connection::request(path, TOOLS, Params { tools: Some(request), ..Params::default() }).await?;
    Ok(Feed { connection, has_summary: false })
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
    /// Receives the next item; `None` when the daemon closes the connection.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub async fn next(&mut self) -> Result<Option<FeedItem<T>>, AdminError> {
        let path = self.connection.path.clone();
        let no_answer = |error| no_answer(&path, &error);
        let message = match self.has_summary {
            false => in_time(&path, self.connection.next_message()).await?,
            true => self.connection.next_message().await.map_err(no_answer)?,
        };
        Ok(match message {
            Some(DaemonMessage::Notification(Notification { event, .. })) => Some(FeedItem::Event(event)),
            Some(DaemonMessage::Response(response)) => {
                let summary = result(response).map_err(no_answer)?;
                self.has_summary = true;
                Some(FeedItem::Summary(summary))
            }
            None if !self.has_summary => return Err(no_answer(io::ErrorKind::UnexpectedEof.into())),
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
        let params = Params { version: env!("CARGO_PKG_VERSION").to_owned(), ..params };
        let request = Request { jsonrpc: "2.0".to_owned(), id: 1, method: method.to_owned(), params };
        let sent = in_time(path, channel.send(request)).await;
        let mut connection = Self { channel, path: path.to_owned() };
        // The daemon may have refused the connection and closed it. Its reason can still be read.
        if let Err(error) = sent {
            return Err(in_time(path, connection.read_response()).await.err().unwrap_or(error));
        }
        Ok(connection)
    }

    async fn next_message(&mut self) -> io::Result<Option<DaemonMessage<T>>> {
        self.channel.next().await.transpose()
    }

    /// Waits for a slow response. The daemon first sends how long it may take.
    async fn late_response(&mut self) -> Result<T, AdminError> {
        let (mut limit, path) = (TIMEOUT, self.path.clone());
        let no_answer = |error| no_answer(&path, &error);
        loop {
            match in_time_of(&path, limit, self.next_message()).await? {
                Some(DaemonMessage::Response(response)) => return result(response).map_err(no_answer),
                Some(DaemonMessage::Notification(Notification {
                    event: AdminEvent::Waiting { at_most_ms }, ..
                })) => {
                    limit = TIMEOUT.saturating_add(Duration::from_millis(at_most_ms));
                }
                Some(DaemonMessage::Notification(_)) => {}
                None => return Err(no_answer(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    async fn read_response(&mut self) -> io::Result<T> {
        loop {
            match self.next_message().await?.ok_or(io::ErrorKind::UnexpectedEof)? {
                DaemonMessage::Response(response) => return result(response),
                DaemonMessage::Notification(_) => {}
            }
        }
    }
}

fn result<T>(response: Response<T>) -> io::Result<T> {
    match response {
        Response { result: Some(result), .. } => Ok(result),
        Response { error: Some(error), .. } if error.refuses_connection() => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, error.message))
        }
        Response { error: Some(error), .. } if error.code == INVALID_PARAMS => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, error.message))
        }
        Response { error: Some(error), .. } => Err(io::Error::other(error.message)),
        Response { .. } => Err(io::Error::other("neither a result nor an error")),
    }
}

async fn in_time<T>(path: &Path, answer: impl Future<Output = io::Result<T>>) -> Result<T, AdminError> {
    in_time_of(path, TIMEOUT, answer).await
}

async fn in_time_of<T>(
    path: &Path,
    limit: Duration,
    answer: impl Future<Output = io::Result<T>>,
) -> Result<T, AdminError> {
    match timeout(limit, answer).await {
        Ok(answered) => answered.map_err(|error| no_answer(path, &error)),
        Err(_) => {
            let reason = format!("no response within {}", crate::duration::format(limit));
            Err(AdminError::NoAnswer { path: path.to_owned(), reason })
        }
    }
}

fn no_answer(path: &Path, error: &io::Error) -> AdminError {
    match error.kind() {
        io::ErrorKind::InvalidInput => AdminError::Refused(error.to_string()),
        io::ErrorKind::PermissionDenied => AdminError::NotPermitted(error.to_string()),
        _ => AdminError::NoAnswer { path: path.to_owned(), reason: error.to_string() },
    }
}
