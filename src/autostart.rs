//! Starts and stops a daemon: by systemd if mcpd's units are installed, else detached.
//!
//! Concurrent starts result in one daemon: the process that locks the runtime directory starts it, the others wait for its socket.
//! The daemon's own lock decides between this daemon and one that is started by hand.

mod detached;
mod outcome;
mod stop;
mod units;

use std::fs::{File, TryLockError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

pub(crate) use self::detached::{OTHER_DAEMON_EXIT_CODE, log_path};
use self::detached::{POLL_INTERVAL, START_TIMEOUT, until_served};
pub(crate) use self::outcome::{AutostartError, StartOptions, StartOutcome};
pub(crate) use self::stop::{StopError, StopReport, stop};
pub(crate) use self::units::{UnitState, Units};
use crate::sockets::{AGENT_SOCKET, RuntimeDir, SocketError};
use crate::systemctl::SERVICE;

/// Until a daemon has to listen that another process starts, including reading the login environment.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes sure that a daemon listens in `directory` for an agent. A detached one ends after `idle_exit` without agents.
///
/// # Errors
/// As [`start`]; also if the directory was given by `--runtime-dir`.
pub(crate) async fn ensure(directory: &RuntimeDir) -> Result<(), AutostartError> {
    if directory.is_served() {
        return Ok(());
    }
    if directory.is_given() {
        return Err(AutostartError::Given(directory.socket(AGENT_SOCKET)));
    }
    start(directory, &StartOptions { while_used: true, ..StartOptions::default() }).await.map(drop)
}

/// Starts a daemon in `directory` unless one listens already.
///
/// # Errors
/// If the directory cannot be used; if the daemon could not be started, ended at once, or does not listen after 10 s.
pub(crate) async fn start(directory: &RuntimeDir, options: &StartOptions) -> Result<StartOutcome, AutostartError> {
    timeout(TOTAL_TIMEOUT, start_once(directory, options)).await.unwrap_or(Err(AutostartError::Timeout { log: None }))
}

/// Starts the unit if it has failed, else returns `None`.
pub(crate) async fn start_failed(directory: &RuntimeDir) -> Option<Result<StartOutcome, AutostartError>> {
    match Units::find(directory).await?.settle().await.state() {
        UnitState::Failed(_) => Some(start(directory, &StartOptions::default()).await),
        _ => None,
    }
}

/// The reason why the unit has failed, if it has.
pub(crate) async fn failure_of_unit(directory: &RuntimeDir) -> Option<String> {
    match Units::find(directory).await?.settle().await.state() {
        UnitState::Failed(why) => Some(format!("{SERVICE} has failed: {why}")),
        _ => None,
    }
}

/// Whether a connection to the agents' socket may reach systemd instead of a daemon. systemd would start the daemon, but not report
/// why the start failed.
pub(crate) fn may_be_socket_activated(directory: &RuntimeDir) -> bool {
    directory.session().is_some() && directory.lock_holder().is_none()
}

/// Starts a daemon while no other process does.
async fn start_once(directory: &RuntimeDir, options: &StartOptions) -> Result<StartOutcome, AutostartError> {
    directory.create()?;
    let io = |source| SocketError::Io { operation: "lock", path: directory.path().to_owned(), source };
    let lock = File::open(directory.path()).map_err(io)?;
    loop {
        match lock.try_lock() {
            // Another process may have started a daemon before it released the lock.
            Ok(()) if directory.is_served() => return Ok(StartOutcome::AlreadyRunning),
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if directory.is_served() => return Ok(StartOutcome::AlreadyRunning),
            Err(TryLockError::WouldBlock) => sleep(POLL_INTERVAL).await,
            Err(TryLockError::Error(error)) => return Err(io(error).into()),
        }
    }
    match Units::find(directory).await {
        Some(_) if !options.config.is_empty() => Err(AutostartError::UnitConfiguration),
        Some(units) => {
            units.start(START_TIMEOUT).await?;
            timeout(START_TIMEOUT, until_served(directory)).await.map_err(|_| AutostartError::Elsewhere)?;
            Ok(StartOutcome::ByUnit)
        }
        None => detached::start(directory, options).await,
    }
}
