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
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::memory_protection::protect_memory;
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
