//! The reaper: one process between mcpd and all guards. It starts the guards, and kills what a killed guard leaves behind.
//!
//! mcpd re-executes itself under the name [`ARGV0`]. The reaper's standard input is a socket to mcpd. Each [request](START_GUARD) carries
//! the socket of a guard to start.
//!
//! The reaper is a child subreaper above the guards, so it inherits the orphans of a guard that was killed, and kills them at once. It
//! continues guards that were suspended. When its socket closes, because mcpd has died or needs no more guards, it kills everything
//! below it and exits. Guards have the read end of a pipe to the reaper, so that they also notice its death.
//!
//! The reaper stays in mcpd's Unix session, but has its own process group. If mcpd dies while the reaper is suspended, the kernel
//! continues the reaper: its process group is orphaned then (setpgid(2)).
//!
//! Single-threaded, without tokio. It never sees the launch spec or data of a server.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, wait};

use super::{fd_passing, guard, subtree, subtree_owner};

/// The process name of a reaper, by which `main` recognizes one.
pub(super) const ARGV0: &str = "mcpd-reaper";

/// The request of mcpd: start a guard whose standard input is the descriptor that comes with it.
pub(super) const START_GUARD: u8 = b'S';

/// The answer to a request, which is sent on the guard's socket. With [`Answer::Started`], the message also carries the guard's pidfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The process id of the guard.
    Started(i32),
    /// The error number of the system.
    NotStarted(i32),
}

impl Answer {
    pub(super) const LEN: usize = 4;

    fn to_bytes(self) -> [u8; Self::LEN] {
        match self {
            Self::Started(pid) => pid,
            Self::NotStarted(error) => -error,
        }
        .to_ne_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let number = i32::from_ne_bytes(bytes);
        if number > 0 { Self::Started(number) } else { Self::NotStarted(-number) }
    }
}

struct Reaper {
    /// Guards whose exit was not seen yet.
    guards: Vec<u32>,
    /// The read end of a pipe, given to guards: it reports a hang-up when this process ends.
    liveness_read: OwnedFd,
}

pub(super) fn run() -> io::Result<()> {
    let child_signals = subtree_owner::prepare(c"mcpd-reaper")?;
    let control = fd_passing::inherited_socket()?;
    let (liveness_read, _liveness_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut reaper = Reaper { guards: Vec::new(), liveness_read };
    // Whatever fails, the subtree is killed before the reaper exits.
    let served = reaper.serve(&control, &child_signals);
    subtree_owner::kill_subtree(&child_signals)?;
    served
}

impl Reaper {
    /// Serves requests until the socket closes.
    fn serve(&mut self, control: &UnixStream, child_signals: &UnixStream) -> io::Result<()> {
        let again = Timespec { tv_sec: 0, tv_nsec: subtree_owner::KILL_AGAIN_MS * 1_000_000 };
        let mut has_orphans = false;
        loop {
            let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(child_signals, PollFlags::IN)];
            match poll(&mut fds, has_orphans.then_some(&again)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = fds.map(|fd| !fd.revents().is_empty());
            if ready[1] {
                subtree_owner::drain(child_signals);
            }
            if self.reap() || has_orphans {
                has_orphans = subtree::kill_descendants(&self.guards);
            }
            if ready[0] {
                match fd_passing::receive(control, &mut [0]) {
                    Ok((1, fds)) => fds.into_iter().for_each(|socket| self.start_guard(socket)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => return Ok(()),
                }
            }
        }
    }

    /// Reaps dead children and continues suspended ones. Returns whether a child died.
    fn reap(&mut self) -> bool {
        let mut has_died = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if status.stopped() {
                // Not reaped yet, so the process id cannot have been reused.
                let _ = kill_process(pid, Signal::CONT);
            } else {
                self.guards.retain(|guard| *guard != pid.as_raw_pid().unsigned_abs());
                has_died = true;
            }
        }
        has_died
    }

    fn start_guard(&mut self, socket: OwnedFd) {
        let (answer, pidfd) = match self.spawn(&socket) {
            Ok((pid, pidfd)) => {
                self.guards.push(pid.as_raw_pid().unsigned_abs());
                (Answer::Started(pid.as_raw_pid()), Some(pidfd))
            }
            Err(error) => (Answer::NotStarted(error.raw_os_error().unwrap_or_default()), None),
        };
        let fds: Vec<_> = pidfd.iter().map(AsFd::as_fd).collect();
        // An error means that mcpd has closed the socket. The guard notices that too.
        let _ = fd_passing::send(&socket, &answer.to_bytes(), &fds);
    }

    fn spawn(&self, socket: &OwnedFd) -> io::Result<(Pid, OwnedFd)> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(guard::ARGV0).env_clear().current_dir("/").stderr(Stdio::null());
        command.stdin(socket.try_clone()?).stdout(self.liveness_read.try_clone()?);
        let pid = Pid::from_child(&command.spawn()?);
        Ok((pid, pidfd_open(pid, PidfdFlags::NONBLOCK)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        for answer in [Answer::Started(1), Answer::Started(i32::MAX), Answer::NotStarted(11), Answer::NotStarted(0)] {
            assert_eq!(Answer::from_bytes(answer.to_bytes()), answer);
        }
    }
}
