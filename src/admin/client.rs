//! Asking a daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::channel::{Channel, channel};
use super::report::Report;
use super::{CALLS, CallsTold, CallsWanted, Event, FromDaemon, LOG_LEVEL, Params, Request, Response, STATUS, Told};
use crate::calls::report::CallReport;
use crate::jsonrpc::reply::INVALID_PARAMS;

/// A daemon answers within milliseconds; one that takes this long is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("not running: no daemon at {}; start one with `mcpd serve`", .0.display())]
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

/// What the daemon at the admin socket `path` logs, after it was changed to `filter`, if one is given.
///
/// # Errors
/// See [`AskError`].
pub async fn log_level(path: &Path, filter: Option<&str>) -> Result<String, AskError> {
    let params = Params { filter: filter.map(str::to_owned), ..Params::default() };
    let mut asked = Asked::ask(path, LOG_LEVEL, params).await?;
    in_time(asked.response()).await
}

/// The calls that `wanted` describes, one after another.
///
/// # Errors
/// See [`AskError`].
pub async fn calls(path: &Path, wanted: CallsWanted) -> Result<Calls, AskError> {
    let asked = Asked::ask(path, CALLS, Params { calls: Some(wanted), ..Params::default() }).await?;
    Ok(Calls { asked, told: None })
}

/// Calls as the daemon tells them.
pub struct Calls {
    asked: Asked<CallsTold>,
    told: Option<CallsTold>,
}

/// What comes next of calls.
#[derive(Debug)]
pub enum NextCall {
    /// This one has ended.
    Call(Box<CallReport>),
    /// Those that had ended were all; others come only if they were asked for.
    All(CallsTold),
    /// So many were lost, because they were not read in time.
    Missed(u64),
}

impl Calls {
    /// What comes next; `None` when the daemon has ended.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn next(&mut self) -> Result<Option<NextCall>, AskError> {
        let message = match self.told {
            None => in_time(self.asked.message()).await?,
            Some(_) => self.asked.message().await.map_err(no_answer)?,
        };
        Ok(match message {
            Some(FromDaemon::Event(Event { event: Told::Call(call), .. })) => Some(NextCall::Call(call)),
            Some(FromDaemon::Event(Event { event: Told::Missed(count), .. })) => Some(NextCall::Missed(count)),
            Some(FromDaemon::Response(response)) => {
                let told = result(response).map_err(no_answer)?;
                self.told = Some(told);
                Some(NextCall::All(told))
            }
            None if self.told.is_none() => return Err(no_answer(io::ErrorKind::UnexpectedEof.into())),
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
    match timeout(TIMEOUT, answer).await {
        Ok(answered) => answered.map_err(no_answer),
        Err(_) => Err(AskError::NoAnswer(format!("nothing within {}", humantime::format_duration(TIMEOUT)))),
    }
}

fn no_answer(error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::InvalidInput => AskError::Refused(error.to_string()),
        _ => AskError::NoAnswer(error.to_string()),
    }
}
