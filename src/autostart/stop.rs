//! Stops the daemon of a runtime directory, however it was started.
//!
//! systemd stops its own unit, because it would restart it otherwise. Any other daemon receives SIGTERM through a pidfd.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::units::Units;
use crate::server;
use crate::sockets::{self, ADMIN_SOCKET, ExpectedListener, RuntimeDir};
use crate::systemctl::SystemctlError;

/// Until guards have ended all servers of a daemon that was killed.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// Attempts to identify the daemon's process. Between two attempts it may end and another may replace it.
const MAX_ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(crate) struct StopReport {
    /// The daemon, if one ran.
    pub(crate) pid: Option<u32>,
    /// The systemd units that were active.
    pub(crate) units: Vec<String>,
}

/// Why a daemon was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopError {
    /// No daemon runs, and systemd does not listen for one.
    #[error("no daemon runs")]
    NotRunning,
    /// The daemon or one of its servers still runs.
    #[error(
        "process {pid} has not ended within {}; `mcpd stop --force` kills it",
        humantime::format_duration(*limit)
    )]
    Timeout { pid: u32, limit: Duration },
    /// The daemon was killed, and a process below it still runs.
    #[error("the daemon was killed, and process {pid} has not ended")]
    Left { pid: u32 },
    #[error("systemd did not stop mcpd: {0}")]
    Unit(#[from] SystemctlError),
    #[error("cannot stop the daemon in {}: {source}", path.display())]
    Io {
        /// The runtime directory.
        path: PathBuf,
        source: io::Error,
    },
}

/// Stops the daemon in `directory` and its units. Returns once no process of the daemon or its servers is left.
///
/// # Errors
/// See [`StopError`].
pub(crate) async fn stop(directory: &RuntimeDir, force: bool, limit: Duration) -> Result<StopReport, StopError> {
    let deadline = Instant::now() + limit;
    let io_error = |source| StopError::Io { path: directory.path().to_owned(), source };
    let family = Family::find(directory).await.map_err(io_error)?;
    let units = match Units::find(directory).await {
        Some(units) => match (units.stop(force, limit).await, &family) {
            (Err(SystemctlError::Timeout(_)), Some(family)) => return Err(family.timeout(limit)),
            (stopped, _) => stopped?,
        },
        None => Vec::new(),
    };
    let Some(family) = family else {
        return match units.is_empty() {
            true => Err(StopError::NotRunning),
            false => Ok(StopReport { pid: None, units }),
        };
    };
    family.signal(force).map_err(io_error)?;
    let deadline = if force { deadline.max(Instant::now() + AFTER_KILL) } else { deadline };
    match timeout_at(deadline, family.ended()).await {
        Ok(ended) => ended.map_err(io_error)?,
        Err(_) if force => return Err(StopError::Left { pid: family.left() }),
        Err(_) => return Err(family.timeout(limit)),
    }
    Ok(StopReport { pid: Some(family.pid), units })
}

/// A daemon and its descendants.
struct Family {
    pid: u32,
    daemon: pipe::Receiver,
    descendants: Vec<(u32, pipe::Receiver)>,
}

impl Family {
    /// The daemon that runs, starts or stops in `directory`.
    async fn find(directory: &RuntimeDir) -> io::Result<Option<Self>> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(pid) = daemon(directory).await? else { return Ok(None) };
            let Some(handle) = open(pid)? else { continue };
            // Otherwise the handle may belong to another process that reuses the pid.
            if daemon(directory).await? != Some(pid) {
                continue;
            }
            let below =
                server::pid_and_descendants(pid).into_iter().map(i32::unsigned_abs).filter(|below| *below != pid);
            let descendants = below.filter_map(|pid| Some((pid, open(pid).ok()??)));
            return Ok(Some(Self { pid, daemon: handle, descendants: descendants.collect() }));
        }
        Err(io::Error::other("its process cannot be identified"))
    }

    /// Sends SIGTERM, or SIGKILL, after which the guards kill the servers.
    fn signal(&self, force: bool) -> io::Result<()> {
        // A suspended daemon has to be continued to end in order.
        let signals = if force { &[Signal::KILL][..] } else { &[Signal::TERM, Signal::CONT] };
        for signal in signals {
            match pidfd_send_signal(&self.daemon, *signal) {
                Err(rustix::io::Errno::SRCH) => return Ok(()),
                sent => sent?,
            }
        }
        Ok(())
    }

    async fn ended(&self) -> io::Result<()> {
        self.daemon.readable().await?;
        for (_, process) in &self.descendants {
            process.readable().await?;
        }
        Ok(())
    }

    fn timeout(&self, limit: Duration) -> StopError {
        StopError::Timeout { pid: self.left(), limit }
    }

    /// A process that still runs, the daemon first.
    fn left(&self) -> u32 {
        let is_alive = |process: &pipe::Receiver| process.readable().now_or_never().is_none();
        let left = self.descendants.iter().find(|(_, process)| is_alive(process)).map(|(pid, _)| *pid);
        if is_alive(&self.daemon) { self.pid } else { left.unwrap_or(self.pid) }
    }
}

/// The lock holder, else the process that listens on the admin socket, which systemd never opens.
async fn daemon(directory: &RuntimeDir) -> io::Result<Option<u32>> {
    if let Some(holder) = directory.lock_holder() {
        return Ok(Some(holder));
    }
    let connected = sockets::connect(&directory.socket(ADMIN_SOCKET), ExpectedListener::OwnDaemon).await;
    match connected.and_then(|stream| stream.peer_cred()) {
        Ok(peer) => Ok(peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        },
    }
}

/// `None` if the process has gone.
fn open(pid: u32) -> io::Result<Option<pipe::Receiver>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        // A pidfd becomes readable when its process ends, and the runtime waits for that as for a pipe.
        Ok(handle) => pipe::Receiver::from_owned_fd_unchecked(handle).map(Some),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
