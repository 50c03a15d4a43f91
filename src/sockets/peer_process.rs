//! The process at the other end of a Unix socket, safe against the reuse of its process id.
//!
//! The kernel reports the id that the process had when it connected (`SO_PEERCRED`). Another process may have that id by the time the
//! connection is accepted. A pidfd refers to one process only: Linux 6.5 reports it with the connection (`SO_PEERPIDFD`). On older
//! kernels, the process that has the id has to have the socket at the other end open.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::socket_diag::{DiagError, peer_inode};

/// The process that connected a socket.
#[derive(Debug)]
pub(crate) struct PeerProcess(OwnedFd);

impl PeerProcess {
    /// The process that connected `socket`. `pid` is its id according to `SO_PEERCRED`.
    ///
    /// `None` if the process has ended, so that its id may belong to another process. Before Linux 6.5, also if it has closed the socket
    /// or if its descriptors cannot be read.
    pub(crate) fn of(socket: impl AsFd, pid: i32) -> Option<Self> {
        match getsockopt(&socket, sockopt::PeerPidfd) {
            Ok(pidfd) => Some(Self(pidfd)),
            Err(Errno::ENOPROTOOPT) => Self::with_socket(socket, pid),
            Err(_) => None,
        }
    }

    /// The process `pid`, if it has the peer of `socket` open. A kernel without socket diagnostics cannot tell; there, the process
    /// that has the id now is taken for the peer.
    fn with_socket(socket: impl AsFd, pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let is_peer = match peer_inode(socket) {
            Ok(inode) => has_open(pid, &format!("socket:[{inode}]")),
            Err(DiagError::Unsupported) => true,
            Err(DiagError::Failed) => false,
        };
        is_peer.then_some(Self(pidfd))
    }

    /// Whether the process still runs. If so, what was read in `/proc` about its id before was about this process.
    pub(crate) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        // A pidfd becomes readable when its process ends.
        retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))) == Ok(0)
    }
}

/// Whether one of the process's descriptors refers to `target`.
fn has_open(pid: i32, target: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == target))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    /// Accepts one connection. Returns it with the process id of the peer according to `SO_PEERCRED`.
    fn accepted(listener: &UnixListener) -> (UnixStream, i32) {
        let (stream, _) = listener.accept().expect("a connection");
        let peer = rustix::net::sockopt::socket_peercred(&stream).expect("a Unix socket");
        (stream, peer.pid.as_raw_pid())
    }

    #[test]
    fn process_that_connected_is_recognized_while_it_runs() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a free path");
        let client = UnixStream::connect(&path).expect("it listens");
        let (stream, pid) = accepted(&listener);
        assert_eq!(pid, std::process::id().cast_signed());
        for peer in [PeerProcess::of(&stream, pid), PeerProcess::with_socket(&stream, pid)] {
            assert!(peer.expect("this process").is_alive());
        }
        drop(client);
    }

    #[test]
    fn without_the_kernels_handle_another_process_is_no_peer() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a free path");
        let _client = UnixStream::connect(&path).expect("it listens");
        let (stream, _) = accepted(&listener);
        let mut other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let reused = PeerProcess::with_socket(&stream, other.id().cast_signed());
        drop(other.stdin.take());
        other.wait().expect("it ends");
        assert!(reused.is_none());
    }
}
