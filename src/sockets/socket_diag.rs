//! The inode of a Unix socket's peer, from the kernel's socket diagnostics.
//!
//! Source: sock_diag(7), `linux/unix_diag.h`, netlink(7).

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

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

/// Why there is no inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiagError {
    /// The kernel has no diagnostics of Unix sockets.
    Unsupported,
    Failed,
}

/// The inode of the socket to which `socket` is connected.
pub(super) fn peer_inode(socket: impl AsFd) -> Result<u32, DiagError> {
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
    use super::*;

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
