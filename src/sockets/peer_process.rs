//! The process at the other end of a Unix socket, safe against the reuse of its process id.
//!
//! The kernel reports the id that the process had when it connected (`SO_PEERCRED`). Another process may have that id by the time the
//! connection is accepted. A pidfd refers to one process only: Linux 6.5 reports it with the connection (`SO_PEERPIDFD`). On older
//! kernels, the process that has the id has to have the socket at the other end open.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::tcp_sockets::open_sockets;

/// `SOCK_DIAG_BY_FAMILY`, and the type of the response.
const BY_FAMILY: u16 = 20;
/// The flag of a request to the kernel.
const NLM_F_REQUEST: u16 = 1;
/// `UDIAG_SHOW_PEER`.
const SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER`.
const PEER: u16 = 2;
/// Bytes of `nlmsghdr`.
const HEADER_LEN: usize = 16;
/// Bytes of `unix_diag_req`.
const REQUEST_BODY_LEN: u32 = 24;
/// Bytes of `unix_diag_msg`, which attributes follow.
const RESPONSE_BODY_LEN: usize = 16;

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
            Err(nix::errno::Errno::ENOPROTOOPT) => Self::with_socket(socket, pid),
            Err(_) => None,
        }
    }

    /// The process `pid`, if it has the peer of `socket` open. A kernel without socket diagnostics cannot tell; there, the process
    /// that has the id now is taken for the peer.
    fn with_socket(socket: impl AsFd, pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let is_peer = match peer_inode(socket) {
            Ok(inode) => open_sockets(pid).any(|open| open == u64::from(inode)),
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

/// Why there is no inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiagError {
    /// The kernel has no diagnostics of Unix sockets.
    Unsupported,
    Failed,
}

/// The inode of the socket to which `socket` is connected, from the kernel's socket diagnostics. Source: sock_diag(7),
/// `linux/unix_diag.h`, netlink(7).
fn peer_inode(socket: impl AsFd) -> Result<u32, DiagError> {
    match inode_of_peer(socket) {
        // The socket of a peer in another network namespace is not found, either. So a socket of this process decides.
        Err(DiagError::Unsupported) if is_supported() => Err(DiagError::Failed),
        result => result,
    }
}

/// Whether the kernel finds a socket of this process.
fn is_supported() -> bool {
    UnixStream::pair().is_ok_and(|(one, _other)| inode_of_peer(&one).is_ok())
}

fn inode_of_peer(socket: impl AsFd) -> Result<u32, DiagError> {
    let inode = rustix::fs::fstat(socket).map_err(|_| DiagError::Failed)?.st_ino;
    let request = encode_request(u32::try_from(inode).map_err(|_| DiagError::Failed)?);
    let mut response = [0; 1024];
    let received = exchange(&request, &mut response).map_err(|error| match error {
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::OPNOTSUPP => DiagError::Unsupported,
        _ => DiagError::Failed,
    })?;
    parse(&response[..received])
}

fn exchange(request: &[u8], response: &mut [u8]) -> rustix::io::Result<usize> {
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&netlink, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    // The kernel has answered already.
    retry_on_intr(|| recv(&netlink, &mut *response, RecvFlags::DONTWAIT)).map(|(received, _)| received)
}

/// A request for one socket by its inode.
fn encode_request(inode: u32) -> Vec<u8> {
    const UNIX: u8 = 1;
    let length = u32::try_from(HEADER_LEN).unwrap_or(u32::MAX) + REQUEST_BODY_LEN;
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port.
    bytes.extend([0; 8]);
    bytes.extend([UNIX, 0, 0, 0]);
    // Sockets in any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(inode.to_ne_bytes());
    bytes.extend(SHOW_PEER.to_ne_bytes());
    // No cookie.
    bytes.extend([u8::MAX; 8]);
    bytes
}

fn parse(response: &[u8]) -> Result<u32, DiagError> {
    match u16_at(response, 4) {
        Some(BY_FAMILY) => {}
        // The socket or the kernel's handler does not exist.
        _ if u32_at(response, HEADER_LEN) == Some(Errno::NOENT.raw_os_error().wrapping_neg().cast_unsigned()) => {
            return Err(DiagError::Unsupported);
        }
        _ => return Err(DiagError::Failed),
    }
    let mut rest = response.get(HEADER_LEN + RESPONSE_BODY_LEN..).ok_or(DiagError::Failed)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        if kind == PEER {
            // A socket without a process has no inode.
            return u32_at(rest, 4).filter(|inode| *inode != 0).ok_or(DiagError::Failed);
        }
        rest = rest.get(usize::from(length).next_multiple_of(4).max(4)..).unwrap_or_default();
    }
    Err(DiagError::Failed)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
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

    #[test]
    fn inode_is_that_of_the_other_end() {
        let (one, other) = UnixStream::pair().expect("sockets");
        let expected = rustix::fs::fstat(&other).expect("it is open").st_ino;
        match peer_inode(&one) {
            Err(DiagError::Unsupported) => {}
            found => assert_eq!(found.map(u64::from), Ok(expected)),
        }
    }

    #[test]
    fn socket_without_a_peer_has_no_inode() {
        let (one, other) = UnixStream::pair().expect("sockets");
        drop(other);
        assert!(peer_inode(&one).is_err());
    }

    #[test]
    fn missing_handler_is_unsupported() {
        let error = |errno: i32| {
            let mut response = vec![0; HEADER_LEN + 4];
            response[4] = 2;
            response[HEADER_LEN..].copy_from_slice(&(-errno).to_ne_bytes());
            response
        };
        assert_eq!(parse(&error(2)), Err(DiagError::Unsupported));
        assert_eq!(parse(&error(22)), Err(DiagError::Failed));
        assert_eq!(parse(&[]), Err(DiagError::Failed));
    }
}
