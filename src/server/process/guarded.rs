//! A server under a guard: mcpd's end of the guard's socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{ProcessEnd, SpawnError};
use crate::deadline_timer::DeadlineTimer;
use crate::server::guard::{ARGV0, Definition, KILL, Report, TERMINATE};
use crate::server::start_error::StartError;
use crate::server::subtree;

/// Time for a guard to exit after the kill order, before it is killed.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// A running guard. Dropping it closes its lifeline, so that the guard kills its subtree.
#[derive(Debug)]
pub(super) struct GuardedProcess {
    guard: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    suspension: Suspension,
}

/// Detects a guard that is stopped and so can neither report nor kill.
///
/// If the daemon died then, the server would survive, so such a guard counts as lost. Two checks in a row have to find it
/// stopped, as a guard may be suspended and continued together with the daemon.
#[derive(Debug)]
struct Suspension {
    timer: DeadlineTimer,
    interval: Duration,
}

impl Suspension {
    /// Waits until the guard was found stopped twice, which takes between one and two intervals. May be cancelled: then it begins
    /// anew.
    async fn detected(&mut self, guard: u32) {
        let mut was_stopped = false;
        loop {
            self.timer.set(Some(Instant::now() + self.interval));
            self.timer.elapsed().await;
            let is_stopped = subtree::is_stopped(guard);
            if was_stopped && is_stopped {
                return;
            }
            was_stopped = is_stopped;
        }
    }
}

/// Starts a guard, which is checked in each `interval`, and sends it the server's streams. Does not wait.
pub(super) fn spawn(program: &Path, streams: [&OwnedFd; 3], interval: Duration) -> io::Result<GuardedProcess> {
    let suspension = Suspension { timer: DeadlineTimer::new()?, interval };
    let (ours, theirs) = StdUnixStream::pair()?;
    let guard = Command::new(program)
        .arg0(ARGV0)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    send_streams(&ours, streams)?;
    ours.set_nonblocking(true)?;
    let (reports, orders) = UnixStream::from_std(ours)?.into_split();
    Ok(GuardedProcess { guard, reports: BufReader::new(reports).lines(), orders, suspension })
}

fn send_streams(socket: &StdUnixStream, streams: [&OwnedFd; 3]) -> io::Result<()> {
    let fds = streams.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(b"S")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Cancel-safe.
async fn next_report(reports: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    let line = reports.next_line().await.ok().flatten()?;
    serde_json::from_str(&line).ok()
}

impl GuardedProcess {
    pub(super) fn guard_pid(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Makes the guard start the server, and returns the server's process id.
    pub(super) async fn start(&mut self, definition: &Definition) -> Result<u32, SpawnError> {
        let mut line =
            serde_json::to_vec(definition).map_err(|error| SpawnError::Error(StartError::System(error.to_string())))?;
        line.push(b'\n');
        self.orders.write_all(&line).await.map_err(|_| SpawnError::GuardLost)?;
        match next_report(&mut self.reports).await {
            Some(Report::Started { pid }) => Ok(pid),
            Some(Report::NotStarted(error)) => Err(SpawnError::Error(error)),
            _ => Err(SpawnError::GuardLost),
        }
    }

    /// Waits for the end of the server. A stopped guard counts as lost. Cancel-safe.
    pub(super) async fn ended(&mut self) -> ProcessEnd {
        let Some(guard) = self.guard.id() else { return ProcessEnd::GuardLost };
        let Self { reports, suspension, .. } = self;
        tokio::select! {
            report = next_report(reports) => match report {
                Some(Report::Exited(exit)) => ProcessEnd::Exited(exit),
                _ => ProcessEnd::GuardLost,
            },
            () = suspension.detected(guard) => ProcessEnd::GuardLost,
        }
    }

    pub(super) fn terminate(&self) {
        self.order(TERMINATE);
    }

    /// Kills the subtree; `false` if the guard was stopped or stuck and had to be killed.
    pub(super) async fn kill(&mut self) -> bool {
        self.order(KILL);
        // A stopped guard has to be continued before it reads the order.
        if let Some(guard) = self.guard.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process(guard, Signal::CONT);
        }
        let emptied = timeout(KILL_GRACE, self.guard.wait()).await.is_ok();
        if !emptied {
            let _ = timeout(KILL_GRACE, self.guard.kill()).await;
        }
        emptied
    }

    /// Sends an order of one byte, which never waits. A guard that is gone needs none.
    fn order(&self, order: u8) {
        let _ = self.orders.try_write(&[order]);
    }
}
