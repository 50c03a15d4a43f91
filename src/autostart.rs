//! Starting and stopping a daemon: by the service manager if it has mcpd's units, else detached.
//!
//! However many start at once, there is one daemon: whoever holds the runtime directory's own lock starts it, the others wait for
//! its socket. Between the daemon and another that somebody starts by hand the daemon's lock decides, as always.

mod detached;
mod error;
mod failure;
mod log;
mod stop;
mod units;

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

pub(crate) use self::error::LaunchError;
pub(crate) use self::log::log_path;
pub(crate) use self::stop::{StopError, Stopped, stop};
pub(crate) use self::units::{UnitState, Units};

use crate::sockets::{AGENT_SOCKET, RuntimeDir, SocketError};
use crate::systemctl::SERVICE;

/// For a daemon to listen that was started.
const START: Duration = Duration::from_secs(10);
/// For all that another may have to do first, the environment of the login included.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at whether it listens.
const LOOK: Duration = Duration::from_millis(10);

/// How the daemon that serves was started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It served already.
    Already,
    /// By the service manager.
    ByUnit,
    /// Detached, with this log.
    Detached(Option<PathBuf>),
}

/// Has a daemon listen in `directory` for an agent, and returns once one does: at once if it has begun to since it was missed.
///
/// # Errors
/// As [`start`]; also if the directory is none in which daemons are started by themselves.
pub(crate) async fn ensure(directory: &RuntimeDir) -> Result<(), LaunchError> {
    if is_served(directory).await {
        return Ok(());
    }
    if directory.is_given() {
        return Err(LaunchError::Given(directory.socket(AGENT_SOCKET)));
    }
    start(directory).await.map(drop)
}

/// Has a daemon listen in `directory`, which a person wants.
///
/// # Errors
/// If the directory cannot be used; if the daemon could not be started, ended at once, or does not listen after 10 s.
pub(crate) async fn start(directory: &RuntimeDir) -> Result<Started, LaunchError> {
    timeout(PATIENCE, alone(directory)).await.unwrap_or(Err(LaunchError::Late { log: None }))
}

/// Starts the unit if it has failed; `None` if it has not, or there is none.
pub(crate) async fn start_failed(directory: &RuntimeDir) -> Option<Result<Started, LaunchError>> {
    match Units::find(directory).await?.state() {
        UnitState::Failed(_) => Some(start(directory).await),
        _ => None,
    }
}

/// Why no daemon runs, if its unit has failed.
pub(crate) async fn failure_of_unit(directory: &RuntimeDir) -> Option<String> {
    match Units::find(directory).await?.state() {
        UnitState::Failed(why) => Some(format!("{SERVICE} has failed: {why}")),
        _ => None,
    }
}

/// Whether a connection to the agents' socket may reach the service manager instead of a daemon. It would then start the daemon
/// without telling why that fails.
pub(crate) fn may_be_socket_activated(directory: &RuntimeDir) -> bool {
    directory.session().is_some() && directory.lock_holder().is_none()
}

/// Starts it, unless another does so.
async fn alone(directory: &RuntimeDir) -> Result<Started, LaunchError> {
    directory.create()?;
    let io = |source| SocketError::Io { path: directory.path().to_owned(), source };
    let turn = File::open(directory.path()).map_err(io)?;
    loop {
        match turn.try_lock() {
            // Another may have had it meanwhile.
            Ok(()) if is_served(directory).await => return Ok(Started::Already),
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if is_served(directory).await => return Ok(Started::Already),
            Err(TryLockError::WouldBlock) => sleep(LOOK).await,
            Err(TryLockError::Error(error)) => return Err(io(error).into()),
        }
    }
    match Units::find(directory).await {
        Some(units) => {
            units.start(START).await?;
            timeout(START, until_listens(directory)).await.map_err(|_| LaunchError::Elsewhere)?;
            Ok(Started::ByUnit)
        }
        // The system may not show who holds the lock.
        None if listens(directory).await => Ok(Started::Already),
        None => detached::start(directory).await,
    }
}

async fn until_listens(directory: &RuntimeDir) {
    while !listens(directory).await {
        sleep(LOOK).await;
    }
}

/// Whether a daemon listens, and not the service manager in its place.
async fn is_served(directory: &RuntimeDir) -> bool {
    !may_be_socket_activated(directory) && listens(directory).await
}

async fn listens(directory: &RuntimeDir) -> bool {
    UnixStream::connect(directory.socket(AGENT_SOCKET)).await.is_ok()
}
