//! Stopping the daemon of a runtime directory, whoever has started it.
//!
//! A unit is stopped by the service manager, which would otherwise start it again. Any other daemon is sent SIGTERM through a pidfd.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::units::Units;
use crate::server;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SystemctlError;

/// Looks at which process the daemon is: it may end, and another take its place, between two of them.
const MAX_ATTEMPTS: usize = 100;

/// What was stopped.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// The daemon, if one ran.
    pub(crate) pid: Option<u32>,
    /// The units of the service manager that were active.
    pub(crate) units: Vec<String>,
}

/// Why a daemon was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopError {
    /// There is none, and the service manager does not listen for one.
    #[error("not running: no daemon in {}", .0.display())]
    NotRunning(PathBuf),
    /// It, or one of its servers, still runs.
    #[error(
        "process {pid} has not ended within {}; `mcpd stop --force` kills it",
        humantime::format_duration(*limit)
    )]
    Late {
        /// The process.
        pid: u32,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The service manager did not stop its unit.
    #[error("systemd did not stop mcpd: {0}")]
    Unit(#[from] SystemctlError),
    /// It cannot be reached, or the system refuses.
    #[error("cannot stop the daemon in {}: {source}", path.display())]
    Io {
        /// The runtime directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Stops the daemon in `directory`, its units included, and returns once no process of it or of its servers is left.
///
/// # Errors
/// See [`StopError`].
pub(crate) async fn stop(directory: &RuntimeDir, force: bool, limit: Duration) -> Result<Stopped, StopError> {
    let deadline = Instant::now() + limit;
    let refused = |source| StopError::Io { path: directory.path().to_owned(), source };
    let family = Family::find(directory).await.map_err(refused)?;
    let units = match Units::find(directory).await {
        Some(units) => match (units.stop(force, limit).await, &family) {
            (Err(SystemctlError::Late(_)), Some(family)) => return Err(family.late(limit)),
            (stopped, _) => stopped?,
        },
        None => Vec::new(),
    };
    let Some(family) = family else {
        return match units.is_empty() {
            true => Err(StopError::NotRunning(directory.path().to_owned())),
            false => Ok(Stopped { pid: None, units }),
        };
    };
    family.signal(force).map_err(refused)?;
    match timeout_at(deadline, family.ended()).await {
        Ok(ended) => ended.map_err(refused)?,
        Err(_) => return Err(family.late(limit)),
    }
    Ok(Stopped { pid: Some(family.pid), units })
}

/// A daemon, and each of its descendants.
struct Family {
    pid: u32,
    daemon: pipe::Receiver,
    descendants: Vec<(u32, pipe::Receiver)>,
}

impl Family {
    /// The daemon that serves in `directory`, starts or stops there, if there is one.
    async fn find(directory: &RuntimeDir) -> io::Result<Option<Self>> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(pid) = daemon(directory).await? else { return Ok(None) };
            let Some(handle) = open(pid)? else { continue };
            // Otherwise the handle may be of another process that has got its number.
            if daemon(directory).await? != Some(pid) {
                continue;
            }
            let below = server::below(pid).into_iter().map(i32::unsigned_abs).filter(|below| *below != pid);
            let descendants = below.filter_map(|pid| Some((pid, open(pid).ok()??)));
            return Ok(Some(Self { pid, daemon: handle, descendants: descendants.collect() }));
        }
        Err(io::Error::other("its process cannot be identified"))
    }

    /// Asks the daemon to end, or kills it, after which its guards kill its servers.
    fn signal(&self, force: bool) -> io::Result<()> {
        // A daemon that is stopped has to be continued to end in order.
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

    fn late(&self, limit: Duration) -> StopError {
        let is_alive = |process: &pipe::Receiver| process.readable().now_or_never().is_none();
        let left = self.descendants.iter().find(|(_, process)| is_alive(process)).map(|(pid, _)| *pid);
        let pid = if is_alive(&self.daemon) { self.pid } else { left.unwrap_or(self.pid) };
        StopError::Late { pid, limit }
    }
}

/// The process that listens on the operator's socket, which no service manager opens; else the one that holds the lock.
async fn daemon(directory: &RuntimeDir) -> io::Result<Option<u32>> {
    let connected = UnixStream::connect(directory.socket(ADMIN_SOCKET)).await;
    let listener = match connected.and_then(|stream| stream.peer_cred()) {
        Ok(peer) => peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => None,
            _ => return Err(error),
        },
    };
    Ok(listener.or_else(|| directory.lock_holder()))
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
