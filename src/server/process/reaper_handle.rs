//! mcpd's end of the [reaper](crate::server::reaper): starts it, has it start guards, and replaces one that ends.

#![expect(clippy::disallowed_types, reason = "server tasks share the reaper, and any of them may have to start it")]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::SIGCHLD;
use signal_hook_tokio::Signals;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::fd_passing;
use crate::server::reaper::{ARGV0, START_GUARD};
use crate::server::{subtree, subtree_owner};

/// Time for a reaper to exit after its socket was closed. It is needed only where the system hardly runs these processes, or where they
/// cannot be killed. systemd kills what is left before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay between two looks at the remains of a lost reaper.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Time for these remains to die, after the guards among them have had their time.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle of the reaper of all guards of one owner. The reaper is started together with the first guard. When the last clone of the
/// handle is dropped, the reaper kills everything below it and exits.
#[derive(Debug, Clone, Default)]
pub struct ReaperHandle(Arc<ReaperState>);

#[derive(Debug, Default)]
struct ReaperState {
    /// The descendants that this process had before its first server. They are never killed. `None` if it is no child subreaper, so that
    /// it does not inherit the descendants of a lost reaper.
    preexisting: Option<Vec<u32>>,
    running: Mutex<Option<RunningReaper>>,
    /// Reapers that have ended unexpectedly.
    lost: AtomicU64,
    /// Of the first reaper.
    tracer: Mutex<Option<Tracer>>,
}

/// A program that traces the reaper and everything below it, and so becomes the reaper: it leaves a process of its own beside it
/// that traces.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) program: PathBuf,
    /// They end with the name of the reaper's program, which the tracer executes.
    pub(crate) arguments: Vec<OsString>,
    /// A directory in which that program has the name [`ARGV0`].
    pub(crate) directory: PathBuf,
    /// Where the tracer writes: its standard error.
    pub(crate) output: OwnedFd,
}

#[derive(Debug)]
struct RunningReaper {
    pid: u32,
    requests: UnixStream,
    watch: JoinHandle<()>,
}

impl ReaperHandle {
    /// The handle for a child subreaper that has started no server yet. In other Unix sessions, this process may start only servers.
    #[must_use]
    pub fn of_subreaper() -> Self {
        Self(Arc::new(ReaperState { preexisting: Some(subtree::all_descendants()), ..ReaperState::default() }))
    }

    /// Has the first reaper traced.
    #[must_use]
    pub(crate) fn traced_by(self, tracer: Tracer) -> Self {
        *self.0.tracer.lock().unwrap_or_else(PoisonError::into_inner) = Some(tracer);
        self
    }

    /// The process id of the running reaper.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.0.running().as_ref().map(|running| running.pid)
    }

    /// The descendants that this process had before its first server. Empty if it is no child subreaper.
    pub(crate) fn preexisting(&self) -> &[u32] {
        self.0.preexisting.as_deref().unwrap_or_default()
    }

    /// How many reapers have ended unexpectedly, and were replaced.
    pub(crate) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Asks the reaper for a guard with this standard input. The answer comes on the other end of that socket. `kill_file` is the
    /// `cgroup.kill` of the cgroup that the guard will be in. Does not wait.
    ///
    /// # Errors
    /// If the reaper cannot be started, has just ended, or is suspended and has too many requests.
    pub(super) fn request_guard(
        &self,
        program: &Path,
        stdin: &OwnedFd,
        kill_file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut running = self.0.running();
        let reaper = match running.take() {
            Some(reaper) => reaper,
            None => {
                let tracer = self.0.tracer.lock().unwrap_or_else(PoisonError::into_inner).take();
                RunningReaper::start(program, tracer, Arc::downgrade(&self.0))?
            }
        };
        let reaper = running.insert(reaper);
        let fds: Vec<_> = [stdin.as_fd()].into_iter().chain(kill_file).collect();
        fd_passing::send(&reaper.requests, &[START_GUARD], &fds)
    }

    /// Ends the reaper, which kills what is left below it. Waits up to [`CLOSE_TIMEOUT`] for its exit, and then for the end of what lost
    /// reapers have left. Returns the processes that are left.
    pub async fn close(&self) -> Vec<u32> {
        self.close_within(CLOSE_TIMEOUT).await
    }

    async fn close_within(&self, limit: Duration) -> Vec<u32> {
        let deadline = Instant::now() + limit;
        let mut left = Vec::new();
        let running = self.0.running().take();
        if let Some(RunningReaper { pid, requests, watch }) = running {
            drop(requests);
            if timeout(limit, watch).await.is_err() {
                left.push(pid);
            }
        }
        let Some(preexisting) = &self.0.preexisting else { return left };
        while subtree::kill_orphans(preexisting, false) {
            if Instant::now() > deadline {
                left.extend(subtree::all_descendants().into_iter().filter(|pid| !preexisting.contains(pid)));
                break;
            }
            sleep(LOOK_AGAIN).await;
        }
        left.sort_unstable();
        left.dedup();
        left
    }
}

impl RunningReaper {
    fn start(program: &Path, tracer: Option<Tracer>, shared: Weak<ReaperState>) -> io::Result<Self> {
        let changes = Signals::new([SIGCHLD])?;
        let (requests, theirs) = UnixStream::pair()?;
        let mut command = match tracer {
            None => {
                let mut command = Command::new(program);
                command.arg0(ARGV0).env_clear().stderr(Stdio::null());
                command
            }
            Some(tracer) => tracer.command(),
        };
        command.current_dir("/").process_group(0).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("no process id"))?;
        Ok(Self { pid, requests, watch: tokio::spawn(watch(child, pid, changes, shared)) })
    }
}

impl Tracer {
    fn command(self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.arguments).env_clear().env("PATH", self.directory).stderr(Stdio::from(self.output));
        command
    }
}

/// Continues the reaper whenever it was suspended. When it has ended unexpectedly, kills what it leaves behind.
async fn watch(mut child: Child, pid: u32, mut changes: Signals, shared: Weak<ReaperState>) {
    loop {
        tokio::select! {
            _ = child.wait() => break,
            Some(_) = changes.next() => continue_suspended(pid),
        }
    }
    let Some(shared) = shared.upgrade() else { return };
    if shared.running().take_if(|running| running.pid == pid).is_some() {
        shared.lost.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(pid, "the reaper of servers was killed: all servers are restarted");
        shared.kill_orphans().await;
    }
}

/// Continues the reaper if it is suspended. Only [`watch`] waits for the reaper, and `watch` calls this, so the process id still belongs
/// to the reaper.
fn continue_suspended(reaper: u32) {
    let Some(pid) = i32::try_from(reaper).ok().and_then(Pid::from_raw) else { return };
    let suspended = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
    if suspended.is_ok_and(|status| status.is_some()) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

impl ReaperState {
    fn running(&self) -> MutexGuard<'_, Option<RunningReaper>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills every descendant of this process outside its own Unix session, except those that existed before the first server,
    /// and the next reaper with its guards. The guards of the lost reaper have time to end their servers.
    async fn kill_orphans(&self) {
        let Some(preexisting) = &self.preexisting else { return };
        let began = Instant::now();
        loop {
            let next = self.running().as_ref().map(|running| running.pid);
            let spared: Vec<u32> = preexisting.iter().copied().chain(next).collect();
            let elapsed = began.elapsed();
            if !subtree::kill_orphans(&spared, elapsed < subtree_owner::END_LIMIT)
                || elapsed > subtree_owner::END_LIMIT + KILL_TIMEOUT
            {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reaper_that_does_not_exit_is_among_the_processes_that_are_left() {
        for (program, exits) in [("cat", true), ("yes", false)] {
            let handle = ReaperHandle::default();
            let (_, stdin) = UnixStream::pair().expect("a pair of sockets");
            handle.request_guard(Path::new(program), &stdin.into(), None).expect("it starts");
            let pid = handle.0.running().as_ref().expect("it runs").pid;
            // `yes` does not read its input.
            let limit = if exits { CLOSE_TIMEOUT * 2 } else { Duration::ZERO };
            let left = handle.close_within(limit).await;
            assert_eq!(left, if exits { vec![] } else { vec![pid] }, "{program}");
            if !exits {
                let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
                kill_process(pid, Signal::KILL).expect("it runs");
            }
        }
    }
}
