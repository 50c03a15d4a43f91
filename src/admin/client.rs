//! Asking a daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::channel::{Channel, channel};
use super::report::Report;
use super::{Params, Request, Response, STATUS};

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
}

/// The state of the daemon at the admin socket `path`.
///
/// # Errors
/// See [`AskError`].
pub async fn status(path: &Path) -> Result<Report, AskError> {
    let no_answer = |error: io::Error| AskError::NoAnswer(error.to_string());
    let stream = UnixStream::connect(path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NotRunning(path.to_owned()),
        _ => no_answer(error),
    })?;
    match timeout(TIMEOUT, ask(stream)).await {
        Ok(answered) => answered.map_err(no_answer),
        Err(_) => Err(AskError::NoAnswer(format!("nothing within {}", humantime::format_duration(TIMEOUT)))),
    }
}

async fn ask(stream: UnixStream) -> io::Result<Report> {
    let mut channel: Channel<Response, Request> = channel(stream);
    let params = Params { version: env!("CARGO_PKG_VERSION").to_owned() };
    channel.send(Request { jsonrpc: "2.0".to_owned(), id: 1, method: STATUS.to_owned(), params }).await?;
    let response = channel.next().await.ok_or(io::ErrorKind::UnexpectedEof)??;
    match response {
        Response { result: Some(report), .. } => Ok(report),
        Response { error: Some(error), .. } => Err(io::Error::other(error.message)),
        Response { .. } => Err(io::Error::other("neither a result nor an error")),
    }
}
