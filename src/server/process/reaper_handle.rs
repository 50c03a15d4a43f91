//! mcpd's end of the [reaper](crate::server::reaper): starts it, has it start guards, and replaces one that ends.

#![expect(clippy::disallowed_types, reason = "server tasks share the reaper, and any of them may have to start it")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::SIGCHLD;
use signal_hook_tokio::Signals;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::server::reaper::{ARGV0, START};
use crate::server::{fd_passing, subtree};

/// Time for a reaper to exit after its socket was closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay between attempts to kill the remains of a lost reaper.
const KILL_AGAIN: Duration = Duration::from_millis(20);
/// Time for these remains to die.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The reaper of all guards of one owner. It starts with the first guard, and ends with everything below it when the last clone is
/// dropped.
#[derive(Debug, Clone, Default)]
pub struct Reaper(Arc<ReaperState>);

#[derive(Debug, Default)]
struct ReaperState {
    /// `Some` if this process inherits what a lost reaper leaves behind: the descendants that it had before the first server.
    not_ours: Option<Vec<u32>>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    pid: u32,
    requests: UnixStream,
    watch: JoinHandle<()>,
}

impl Reaper {
    /// For a process that is a child subreaper, starts only servers in other Unix sessions, and has started none yet.
    #[must_use]
    pub fn of_subreaper() -> Self {
        Self(Arc::new(ReaperState { not_ours: Some(subtree::all_descendants()), running: Mutex::default() }))
    }

    /// The descendants that this process had before the first server, if it is a child subreaper.
    pub(crate) fn not_ours(&self) -> &[u32] {
        self.0.not_ours.as_deref().unwrap_or_default()
    }

    /// Requests a guard with this standard input. The answer comes on the other end of that socket. Does not wait.
    ///
    /// # Errors
    /// If the reaper cannot be started, has just ended, or is suspended and has too many requests.
    pub(super) fn start_guard(&self, program: &Path, stdin: &OwnedFd) -> io::Result<()> {
        let mut running = self.0.running();
        let reaper = match running.take() {
            Some(reaper) => reaper,
            None => Running::start(program, Arc::downgrade(&self.0))?,
        };
        let reaper = running.insert(reaper);
        fd_passing::send(&reaper.requests, &[START], &[stdin.as_fd()])
    }

    /// Ends the reaper, which kills what is left below it. Returns when it has exited.
    pub async fn close(&self) {
        let running = self.0.running().take();
        if let Some(Running { requests, watch, .. }) = running {
            drop(requests);
            if timeout(CLOSE_TIMEOUT, watch).await.is_err() {
                tracing::warn!("the reaper of servers does not exit");
            }
        }
    }
}

impl Running {
    fn start(program: &Path, shared: Weak<ReaperState>) -> io::Result<Self> {
        let changes = Signals::new([SIGCHLD])?;
        let (requests, theirs) = UnixStream::pair()?;
        let child = Command::new(program)
            .arg0(ARGV0)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("no process id"))?;
        Ok(Self { pid, requests, watch: tokio::spawn(watch(child, pid, changes, shared)) })
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
        tracing::warn!(pid, "the reaper of servers was killed: all servers are restarted");
        shared.kill_orphans().await;
    }
}

/// The reaper is not reaped meanwhile, as its owner calls this, so the number cannot have been reused.
fn continue_suspended(reaper: u32) {
    let Some(pid) = i32::try_from(reaper).ok().and_then(Pid::from_raw) else { return };
    let suspended = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
    if suspended.is_ok_and(|status| status.is_some()) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

impl ReaperState {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills every descendant of this process outside its own Unix session, except those that were there before the first server, and
    /// the next reaper with its guards.
    async fn kill_orphans(&self) {
        let Some(not_ours) = &self.not_ours else { return };
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            let next = self.running().as_ref().map(|running| running.pid);
            let spared: Vec<u32> = not_ours.iter().copied().chain(next).collect();
            if !subtree::kill_orphans(&spared) || Instant::now() > deadline {
                return;
            }
            sleep(KILL_AGAIN).await;
        }
    }
}
