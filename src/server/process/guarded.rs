//! A server under a guard: mcpd's end of the guard's socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::reaper_handle::ReaperHandle;
use super::{ProcessEnd, SpawnError};
use crate::fd_passing;
use crate::server::error::Supervisor;
use crate::server::guard::{GuardReport, KILL, TERMINATE};
use crate::server::launch_spec::LaunchSpec;
use crate::server::reaper::Answer;
use crate::server::start_error::StartError;

/// Time for a guard to exit after [`KILL`], before it is killed, and time for the reaper to kill what is left then.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// A running guard. Dropping it kills the subtree. If mcpd dies instead, the lifeline closes, and the guard ends the subtree in order.
#[derive(Debug)]
pub(super) struct GuardedProcess {
    pid: u32,
    /// Becomes readable when the guard exits. Refers to this guard even after its process id was reused.
    guard_pidfd: pipe::Receiver,
    reports: Lines<BufReader<OwnedReadHalf>>,
    commands: OwnedWriteHalf,
}

/// Starts a guard and sends it the server's streams, and copies of mcpd's ends of stdout and stderr. The reaper receives `kill_file` of
/// the server's cgroup.
pub(super) async fn spawn(
    reaper: &ReaperHandle,
    program: &Path,
    streams: [OwnedFd; 3],
    outputs: [OwnedFd; 2],
    kill_file: Option<BorrowedFd<'_>>,
) -> Result<GuardedProcess, SpawnError> {
    let refused = |error: io::Error| SpawnError::Error(StartError::System(error.to_string()));
    let (ours, theirs) = StdUnixStream::pair().map_err(refused)?;
    let ([stdin, stdout, stderr], [written_stdout, written_stderr]) = (streams, outputs);
    fd_passing::send_streams(&ours, &[stdin, stdout, stderr, written_stdout, written_stderr]).map_err(refused)?;
    ours.set_nonblocking(true).map_err(refused)?;
    let socket = UnixStream::from_std(ours).map_err(refused)?;
    reaper.request_guard(program, &theirs.into(), kill_file).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => SpawnError::Lost(Supervisor::Reaper),
        _ => refused(error),
    })?;
    let (answer, pidfd) = receive_answer(&socket).await.map_err(|_| SpawnError::Lost(Supervisor::Reaper))?;
    let (pid, pidfd) = match (answer, pidfd) {
        (Answer::Started(pid), Some(pidfd)) => (pid.unsigned_abs(), pidfd),
        (Answer::NotStarted(error), _) => return Err(refused(io::Error::from_raw_os_error(error))),
        (Answer::Started(_), None) => return Err(SpawnError::Lost(Supervisor::Guard)),
    };
    // The runtime waits for a pidfd as for a pipe.
    let guard_pidfd = pipe::Receiver::from_owned_fd_unchecked(pidfd).map_err(refused)?;
    let (reports, commands) = socket.into_split();
    Ok(GuardedProcess { pid, guard_pidfd, reports: BufReader::new(reports).lines(), commands })
}

/// The reaper's answer, with the guard's pidfd.
async fn receive_answer(socket: &UnixStream) -> io::Result<(Answer, Option<OwnedFd>)> {
    let mut bytes = [0; Answer::LEN];
    let (received, fds) = socket.async_io(Interest::READABLE, || fd_passing::receive(socket, &mut bytes)).await?;
    if received != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((Answer::from_bytes(bytes), fds.into_iter().next()))
}

impl GuardedProcess {
    pub(super) fn guard_pid(&self) -> u32 {
        self.pid
    }

    /// Makes the guard start the server, and returns the server's process id.
    pub(super) async fn start_server(&mut self, spec: &LaunchSpec) -> Result<u32, SpawnError> {
        let mut line =
            serde_json::to_vec(spec).map_err(|error| SpawnError::Error(StartError::System(error.to_string())))?;
        line.push(b'\n');
        self.commands.write_all(&line).await.map_err(|_| SpawnError::Lost(self.lost()))?;
        match self.next_report().await {
            Some(GuardReport::Started { pid }) => Ok(pid),
            Some(GuardReport::NotStarted(error)) => Err(SpawnError::Error(error)),
            _ => Err(SpawnError::Lost(self.lost())),
        }
    }

    /// Waits for the end of the server or of the guard. Cancel-safe.
    pub(super) async fn wait_ended(&mut self) -> ProcessEnd {
        match self.next_report().await {
            Some(GuardReport::Exited(exit)) => ProcessEnd::Exited(exit),
            _ => ProcessEnd::Lost(self.lost()),
        }
    }

    /// Which supervisor was lost, once the guard sends nothing more. A guard that runs has closed its socket because the reaper has died.
    fn lost(&self) -> Supervisor {
        let mut fds = [PollFd::new(&self.guard_pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(0) => Supervisor::Reaper,
            _ => Supervisor::Guard,
        }
    }

    /// The next report. `None` if the guard is gone. Cancel-safe.
    async fn next_report(&mut self) -> Option<GuardReport> {
        let line = tokio::select! {
            biased;
            line = self.reports.next_line() => line,
            // What it sent has arrived already. The socket stays open while the reaper ends the server.
            _ = self.guard_pidfd.readable() => unconstrained(self.reports.next_line()).now_or_never()?,
        };
        serde_json::from_str(&line.ok().flatten()?).ok()
    }

    /// Waits until no process of the server is left. Cancel-safe.
    pub(super) async fn wait_closed(&mut self) {
        while let Ok(Some(_)) = self.reports.next_line().await {}
        // A guard that has lost its reaper closes the socket first.
        let _ = self.guard_pidfd.readable().await;
    }

    pub(super) fn terminate(&self) {
        self.send_command(TERMINATE);
    }

    /// Kills the subtree. A guard that is stuck is killed itself; then the reaper kills the subtree.
    pub(super) async fn kill(&mut self) {
        self.send_command(KILL);
        if timeout(KILL_GRACE, self.guard_pidfd.readable()).await.is_err() {
            // For the reaper, as the guard may have read the first one.
            self.send_command(KILL);
            let _ = pidfd_send_signal(&self.guard_pidfd, Signal::KILL);
        }
        let _ = timeout(KILL_GRACE, self.wait_closed()).await;
    }

    /// Sends a command of one byte, which never waits. A guard that is gone needs none.
    fn send_command(&self, command: u8) {
        // Not through the runtime, which may be shut down while this is dropped.
        let _ = send(self.commands.as_ref(), &[command], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.send_command(KILL);
    }
}
