//! Starting a daemon for an agent, because nobody serves: by the service manager if it knows mcpd, else detached.
//!
//! However many start at once, there is one daemon: whoever holds the runtime directory's own lock starts it, the others wait for
//! its socket. Between the daemon and another that somebody starts by hand the daemon's lock decides, as always.

mod detached;
mod error;
mod log;
mod unit;

use std::fs::{File, TryLockError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

pub(crate) use self::error::LaunchError;
pub(crate) use self::log::log_path;
use crate::sockets::{AGENT_SOCKET, RuntimeDir, SocketError};

/// For a daemon to listen that was started.
const START: Duration = Duration::from_secs(10);
/// For all that another may have to do first, the environment of the login included.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at whether it listens.
const LOOK: Duration = Duration::from_millis(10);

/// Has a daemon listen in `directory`, and returns once one does: at once if it has begun to since it was missed.
///
/// # Errors
/// If the directory is none in which daemons are started by themselves; if it cannot be used; if the daemon could not be started,
/// ended at once, or does not listen after 10 s.
pub(crate) async fn ensure(directory: &RuntimeDir) -> Result<(), LaunchError> {
    if listens(directory).await {
        return Ok(());
    }
    if directory.is_given() {
        return Err(LaunchError::Given(directory.socket(AGENT_SOCKET)));
    }
    timeout(PATIENCE, alone(directory)).await.unwrap_or(Err(LaunchError::Late { log: None }))
}

/// Starts it, unless another does so.
async fn alone(directory: &RuntimeDir) -> Result<(), LaunchError> {
    directory.create()?;
    let io = |source| SocketError::Io { path: directory.path().to_owned(), source };
    let turn = File::open(directory.path()).map_err(io)?;
    loop {
        match turn.try_lock() {
            // Another may have had it meanwhile.
            Ok(()) if listens(directory).await => return Ok(()),
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if listens(directory).await => return Ok(()),
            Err(TryLockError::WouldBlock) => sleep(LOOK).await,
            Err(TryLockError::Error(error)) => return Err(io(error).into()),
        }
    }
    match unit::start(directory).await? {
        unit::Outcome::Started => timeout(START, until_listens(directory)).await.map_err(|_| LaunchError::Elsewhere),
        unit::Outcome::Unknown => detached::start(directory).await,
    }
}

async fn until_listens(directory: &RuntimeDir) {
    while !listens(directory).await {
        sleep(LOOK).await;
    }
}

async fn listens(directory: &RuntimeDir) -> bool {
    UnixStream::connect(directory.socket(AGENT_SOCKET)).await.is_ok()
}
