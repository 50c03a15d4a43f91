//! What the guard and the reaper have in common: a process that inherits all orphans below it and ends them before it exits.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::subtree;

/// Delay between attempts to kill a subtree.
pub(super) const KILL_AGAIN: Duration = Duration::from_millis(20);

/// Makes this process ready to have a subtree. Returns the stream that becomes readable when a child stops or dies.
pub(super) fn prepare(name: &CStr) -> io::Result<UnixStream> {
    isolate(name)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (child_signals, notify) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, notify)?;
    Ok(child_signals)
}

/// Protects this process, and lets it start programs with the usual signals.
pub(super) fn isolate(name: &CStr) -> io::Result<()> {
    protect_memory()?;
    rustix::thread::set_name(name)?;
    SigSet::empty().thread_set_mask()?;
    let ignored = std::sync::Arc::default();
    // `exec` resets handlers to the default. So a server gets the default actions, even if mcpd runs in the background of a shell or
    // under `nohup`, where these signals are ignored.
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&ignored))?;
    }
    Ok(())
}

/// Closes all descriptors except the standard ones, so that no server inherits a descriptor that mcpd inherited.
///
/// Lists them with a buffer on the stack: heap memory of the standard library would stay with the guard.
pub(crate) fn close_inherited() -> io::Result<()> {
    let directory = open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 1024];
    let mut listing = RawDir::new(&directory, &mut space);
    while let Some(entry) = listing.next() {
        let fd = entry?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
        if let Some(fd) = fd.filter(|fd| *fd > 2 && *fd != directory.as_raw_fd()) {
            // The listing is ordered by number, so closing one skips no other.
            let _ = nix::unistd::close(fd);
        }
    }
    Ok(())
}

/// Kills and reaps everything below this process.
pub(super) fn kill_subtree(child_signals: &UnixStream) -> io::Result<()> {
    while subtree::reap_all() {
        subtree::kill(&[], |_| true, |_, _| true);
        let mut fds = [PollFd::new(child_signals, PollFlags::IN)];
        poll_until(&mut fds, Some(Instant::now() + KILL_AGAIN))?;
        if !fds[0].revents().is_empty() {
            drain(child_signals);
        }
    }
    Ok(())
}

/// Waits until one of these is ready or has hung up, a signal arrives, or `deadline` has come.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<()> {
    let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = remaining.map(|remaining| Timespec {
        tv_sec: i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: remaining.subsec_nanos().into(),
    });
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads what has arrived. Bytes beyond the buffer stay, so the next `poll` returns at once.
pub(super) fn drain(mut pipe: &UnixStream) {
    let _ = io::Read::read(&mut pipe, &mut [0; 64]);
}

/// From the end of file to SIGTERM.
const EOF_PAUSE: Duration = Duration::from_millis(1500);
/// From SIGTERM to SIGKILL of the subtree.
const TERM_PAUSE: Duration = Duration::from_secs(2);
/// Time for a guard to end a server, until the reaper kills both.
pub(super) const END_LIMIT: Duration = Duration::from_secs(5);

/// The progress of the end of a server whose daemon or guard was killed: end of file, SIGTERM and SIGKILL, with pauses between them.
///
/// Whoever survives carries out the steps: the guard if the daemon was killed, the reaper if the guard was killed. The end of file comes
/// without them, because the daemon holds the other end of the server's stdin. The pauses are shorter than those of an ordered stop
/// ([`EOF_GRACE`](super::process::EOF_GRACE)): meanwhile a new daemon may start the same servers again.
#[derive(Debug)]
pub(super) enum SubtreeEnd {
    /// The server has been sent end of file, and is sent SIGTERM at this time.
    Eof(Instant),
    /// It was sent SIGTERM, and its subtree is killed at this time.
    Terminated(Instant),
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndStep {
    Wait,
    Terminate,
    Kill,
}

impl SubtreeEnd {
    /// Begins at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self::Eof(now + EOF_PAUSE)
    }

    /// The time of the next step.
    pub(super) fn due(&self) -> Instant {
        match self {
            Self::Eof(due) | Self::Terminated(due) => *due,
        }
    }

    /// The step at `now`.
    pub(super) fn step(&mut self, now: Instant) -> EndStep {
        match self {
            _ if now < self.due() => EndStep::Wait,
            Self::Eof(_) => {
                *self = Self::Terminated(now + TERM_PAUSE);
                EndStep::Terminate
            }
            Self::Terminated(_) => EndStep::Kill,
        }
    }
}

/// `RLIM_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

/// Forbids other processes of this user to trace this process and to read its memory, environment and open files in `/proc`, and
/// prevents core dumps (`PR_SET_DUMPABLE` in prctl(2)). `execve` makes the process dumpable again. The guard restores the
/// limit of core files before it starts a server.
pub(crate) fn protect_memory() -> rustix::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })
}

/// The soft limit of core files, in bytes.
pub(crate) fn core_size() -> u64 {
    getrlimit(Resource::Core).current.unwrap_or(UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_follows_its_pause_and_is_never_skipped() {
        let began = Instant::now();
        let mut ending = SubtreeEnd::new(began);
        let instant = Duration::from_millis(1);
        for (after, step) in [
            (Duration::ZERO, EndStep::Wait),
            (EOF_PAUSE - instant, EndStep::Wait),
            // Later than SIGKILL would be due, as a suspended process wakes up.
            (END_LIMIT, EndStep::Terminate),
            (END_LIMIT + TERM_PAUSE - instant, EndStep::Wait),
            (END_LIMIT + TERM_PAUSE, EndStep::Kill),
            (END_LIMIT + TERM_PAUSE, EndStep::Kill),
        ] {
            assert_eq!(ending.step(began + after), step, "{after:?}");
        }
    }
}
