//! A server under its guard: mcpd's side of the guard's socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Ended, NotStarted};
use crate::server::guard::{ARGV0, Definition, KILL, Report, TERMINATE};

/// For a guard to be gone after it was told to kill, before it is killed itself.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// A running guard. Dropping it closes its lifeline, and it kills whatever is left of its server.
#[derive(Debug)]
pub(super) struct Guarded {
    guard: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

/// Starts a guard and hands it the server's streams. Does not wait for anything.
pub(super) fn spawn(program: &Path, streams: [&OwnedFd; 3]) -> io::Result<Guarded> {
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
    Ok(Guarded { guard, reports: BufReader::new(reports).lines(), orders })
}

fn send_streams(socket: &StdUnixStream, streams: [&OwnedFd; 3]) -> io::Result<()> {
    let fds = streams.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(b"S")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

impl Guarded {
    pub(super) fn guard_pid(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Has the guard start the server, and tells the server's process id.
    pub(super) async fn start(&mut self, definition: &Definition) -> Result<u32, NotStarted> {
        let mut line = serde_json::to_vec(definition).map_err(|error| NotStarted::Refused(error.to_string()))?;
        line.push(b'\n');
        self.orders.write_all(&line).await.map_err(|_| NotStarted::GuardLost)?;
        match self.next_report().await {
            Some(Report::Started { pid }) => Ok(pid),
            Some(Report::NotStarted { reason }) => Err(NotStarted::Refused(reason)),
            _ => Err(NotStarted::GuardLost),
        }
    }

    /// May be cancelled without loss.
    async fn next_report(&mut self) -> Option<Report> {
        let line = self.reports.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// May be cancelled without loss.
    pub(super) async fn ended(&mut self) -> Ended {
        match self.next_report().await {
            Some(Report::Exited { how }) => Ended::Exited(how),
            _ => Ended::GuardLost,
        }
    }

    pub(super) fn terminate(&self) {
        self.order(TERMINATE);
    }

    /// Ends the subtree at once; `false` if the guard was stopped or stuck and had to be killed itself.
    pub(super) async fn kill(&mut self) -> bool {
        self.order(KILL);
        let emptied = timeout(KILL_GRACE, self.guard.wait()).await.is_ok();
        if !emptied {
            let _ = timeout(KILL_GRACE, self.guard.kill()).await;
        }
        emptied
    }

    /// One byte into an empty socket buffer: it never waits, and a guard that is gone needs no order.
    fn order(&self, order: u8) {
        let _ = self.orders.try_write(&[order]);
    }
}
