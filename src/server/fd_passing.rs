//! The sockets between mcpd, its reaper, guards and sandbox stages: open files (unix(7), `SCM_RIGHTS`) and messages of one line.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::Serialize;

/// Maximum number of descriptors in one message.
const MAX_FDS: usize = 5;
/// The byte that accompanies the streams of a server: a message must not be empty.
const STREAMS: &[u8] = b"S";

/// Sends `bytes`, which must not be empty, together with up to [`MAX_FDS`] descriptors. Never waits.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message. Returns the number of bytes, which is 0 if the peer has closed the socket, and the descriptors.
pub(super) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((received.bytes, fds.flatten().collect()))
}

/// The socket to the process that started this one.
pub(super) fn inherited_socket() -> io::Result<UnixStream> {
    // `io::stdin` would allocate a permanent buffer.
    Ok(UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?))
}

/// Sends streams of a server, for [`receive_streams`] with the same number.
pub(super) fn send_streams<const N: usize>(socket: impl AsFd, streams: &[OwnedFd; N]) -> io::Result<()> {
    send(socket, STREAMS, &streams.each_ref().map(AsFd::as_fd))
}

pub(super) fn receive_streams<const N: usize>(socket: &UnixStream) -> io::Result<[OwnedFd; N]> {
    let (_, fds) = receive(socket, &mut [0])?;
    fds.try_into().map_err(|_| io::Error::other("expected other descriptors"))
}

/// Sends a message of one line.
pub(super) fn send_line(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    socket.write_all(&line)
}
