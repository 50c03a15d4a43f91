//! Asking a daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::channel::{Channel, channel};
use super::report::{ReloadReport, Report, ServerTold, ToolsTold};
use super::{CALLS, CHECK, DISABLE, ENABLE, HEALTH, LOG_LEVEL, LOGS, RELOAD, RESTART, STATUS, TOOLS};
use super::{
    CallsTold, CallsWanted, EnvironmentChanges, Event, FromDaemon, LogsTold, LogsWanted, Params, Request, Response,
    Told, ToolsWanted,
};
use crate::jsonrpc::reply::INVALID_PARAMS;
use crate::manager::Toggle;
use crate::server::HealthOverride;

/// A daemon answers within milliseconds; one that takes this long is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("not running: no daemon at {}; `mcpd start` starts one; where systemd runs, `mcpd service install` starts one at each login", .0.display())]
    NotRunning(PathBuf),
    /// Somebody listens and does not answer properly.
    #[error("the daemon does not answer: {0}")]
    NoAnswer(String),
    /// What was asked for makes no sense; nothing has changed.
    #[error("{0}")]
    Refused(String),
}

/// A connection on which `T` is the answer.
struct Asked<T>(Channel<FromDaemon<T>, Request>);

/// The state of the daemon at the admin socket `path`.
///
/// # Errors
/// See [`AskError`].
pub async fn status(path: &Path) -> Result<Report, AskError> {
    let mut asked = Asked::ask(path, STATUS, Params::default()).await?;
    in_time(asked.response()).await
}

/// The same, after every server that runs was asked how it is.
///
/// # Errors
/// See [`AskError`].
pub async fn check(path: &Path) -> Result<Report, AskError> {
    Asked::ask(path, CHECK, Params::default()).await?.late_response().await
}

/// What the daemon at the admin socket `path` logs, after it was changed to `filter`, if one is given.
///
/// # Errors
/// See [`AskError`].
pub async fn log_level(path: &Path, filter: Option<&str>) -> Result<String, AskError> {
    let params = Params { filter: filter.map(str::to_owned), ..Params::default() };
    let mut asked = Asked::ask(path, LOG_LEVEL, params).await?;
    in_time(asked.response()).await
}

/// What can be done with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Ends its instances, after their calls, and starts others.
    Restart,
    /// Switches it, or one of its tools, off or on; until it is switched again, or the daemon started.
    Toggle(Toggle),
    /// Takes this for how it is, whatever it answers when it is asked.
    OverrideHealth(HealthOverride),
}

/// Has something done with a server, and tells what has become of it.
///
/// # Errors
/// See [`AskError`].
pub async fn order(path: &Path, order: Order, server: &str) -> Result<ServerTold, AskError> {
    let mut params = Params { server: Some(server.to_owned()), ..Params::default() };
    let method = match order {
        Order::Restart => RESTART,
        Order::Toggle(wanted) => {
            let (method, tool, stop) = match wanted {
                Toggle::Enable => (ENABLE, None, false),
                Toggle::EnableTool(tool) => (ENABLE, Some(tool), false),
                Toggle::Disable => (DISABLE, None, false),
                Toggle::Stop => (DISABLE, None, true),
                Toggle::DisableTool(tool) => (DISABLE, Some(tool), false),
            };
            (params.tool, params.stop) = (tool, stop);
            method
        }
        Order::OverrideHealth(vouched) => {
            params.vouched = Some(vouched);
            HEALTH
        }
    };
    Asked::ask(path, method, params).await?.late_response().await
}

/// Has the configuration read again, and tells what that made of the servers.
///
/// # Errors
/// See [`AskError`]; [`AskError::Refused`] if the configuration is not valid.
pub async fn reload(path: &Path) -> Result<ReloadReport, AskError> {
    Asked::ask(path, RELOAD, Params::default()).await?.late_response().await
}

/// As [`reload`], with these variables changed in the environment that the configuration refers to.
///
/// # Errors
/// As [`reload`].
pub(crate) async fn reload_environment(path: &Path, changes: EnvironmentChanges) -> Result<ReloadReport, AskError> {
    Asked::ask(path, RELOAD, Params { environment: Some(changes), ..Params::default() }).await?.late_response().await
}

/// The calls that `wanted` describes, one after another.
///
/// # Errors
/// See [`AskError`].
pub async fn calls(path: &Path, wanted: CallsWanted) -> Result<Feed<CallsTold>, AskError> {
    let asked = Asked::ask(path, CALLS, Params { calls: Some(wanted), ..Params::default() }).await?;
    Ok(Feed { asked, told_all: false })
}

/// The lines of servers that `wanted` describes, one after another.
///
/// # Errors
/// See [`AskError`].
pub async fn logs(path: &Path, wanted: LogsWanted) -> Result<Feed<LogsTold>, AskError> {
    let asked = Asked::ask(path, LOGS, Params { logs: Some(wanted), ..Params::default() }).await?;
    Ok(Feed { asked, told_all: false })
}

/// The tools that `wanted` describes, one after another.
///
/// # Errors
/// See [`AskError`]; [`AskError::Refused`] if there is no such profile.
pub async fn tools(path: &Path, wanted: ToolsWanted) -> Result<Feed<ToolsTold>, AskError> {
    let asked = Asked::ask(path, TOOLS, Params { tools: Some(wanted), ..Params::default() }).await?;
    Ok(Feed { asked, told_all: false })
}

/// What the daemon tells one by one, and `T` when it has told all that there was.
pub struct Feed<T> {
    asked: Asked<T>,
    told_all: bool,
}

/// What comes next.
#[derive(Debug)]
pub enum Next<T> {
    /// This.
    Told(Told),
    /// Those that there were are told; others come only if they were asked for.
    All(T),
}

impl<T: DeserializeOwned + Unpin> Feed<T> {
    /// What comes next; `None` when the daemon has ended.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn next(&mut self) -> Result<Option<Next<T>>, AskError> {
        let message = match self.told_all {
            false => in_time(self.asked.message()).await?,
            true => self.asked.message().await.map_err(no_answer)?,
        };
        Ok(match message {
            Some(FromDaemon::Event(Event { event, .. })) => Some(Next::Told(event)),
            Some(FromDaemon::Response(response)) => {
                let told = result(response).map_err(no_answer)?;
                self.told_all = true;
                Some(Next::All(told))
            }
            None if !self.told_all => return Err(no_answer(io::ErrorKind::UnexpectedEof.into())),
            None => None,
        })
    }
}

impl<T: DeserializeOwned + Unpin> Asked<T> {
    async fn ask(path: &Path, method: &str, params: Params) -> Result<Self, AskError> {
        let stream = UnixStream::connect(path).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning(path.to_owned()),
            _ => no_answer(error),
        })?;
        let mut channel: Channel<FromDaemon<T>, Request> = channel(stream);
        let params = Params { version: env!("CARGO_PKG_VERSION").to_owned(), ..params };
        let request = Request { jsonrpc: "2.0".to_owned(), id: 1, method: method.to_owned(), params };
        in_time(channel.send(request)).await?;
        Ok(Self(channel))
    }

    async fn message(&mut self) -> io::Result<Option<FromDaemon<T>>> {
        self.0.next().await.transpose()
    }

    /// The response to something that may last; the daemon says first how long.
    async fn late_response(&mut self) -> Result<T, AskError> {
        let mut limit = TIMEOUT;
        loop {
            match in_time_of(limit, self.message()).await? {
                Some(FromDaemon::Response(response)) => return result(response).map_err(no_answer),
                Some(FromDaemon::Event(Event { event: Told::Waiting { at_most_ms }, .. })) => {
                    limit = TIMEOUT.saturating_add(Duration::from_millis(at_most_ms));
                }
                Some(FromDaemon::Event(_)) => {}
                None => return Err(no_answer(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    async fn response(&mut self) -> io::Result<T> {
        loop {
            match self.message().await?.ok_or(io::ErrorKind::UnexpectedEof)? {
                FromDaemon::Response(response) => return result(response),
                FromDaemon::Event(_) => {}
            }
        }
    }
}

fn result<T>(response: Response<T>) -> io::Result<T> {
    match response {
        Response { result: Some(result), .. } => Ok(result),
        Response { error: Some(error), .. } if error.code == INVALID_PARAMS => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, error.message))
        }
        Response { error: Some(error), .. } => Err(io::Error::other(error.message)),
        Response { .. } => Err(io::Error::other("neither a result nor an error")),
    }
}

async fn in_time<T>(answer: impl Future<Output = io::Result<T>>) -> Result<T, AskError> {
    in_time_of(TIMEOUT, answer).await
}

async fn in_time_of<T>(limit: Duration, answer: impl Future<Output = io::Result<T>>) -> Result<T, AskError> {
    match timeout(limit, answer).await {
        Ok(answered) => answered.map_err(no_answer),
        Err(_) => Err(AskError::NoAnswer(format!("nothing within {}", crate::duration::format(limit)))),
    }
}

fn no_answer(error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::InvalidInput => AskError::Refused(error.to_string()),
        _ => AskError::NoAnswer(error.to_string()),
    }
}
