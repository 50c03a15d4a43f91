//! The sockets between mcpd, its reaper, guards and sandbox stages, and to the program after a restart: open files (unix(7), `SCM_RIGHTS`) and
//! messages of one line.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::Pid;
use serde::Serialize;

/// Maximum number of descriptors in one message.
pub(crate) const MAX_FDS: usize = 64;
/// The byte that accompanies the streams of a server: a message must not be empty.
const STREAMS: &[u8] = b"S";

/// Sends `bytes`, which must not be empty, together with up to [`MAX_FDS`] descriptors. Never waits.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A message with the process id of its sender, as this process sees it.
pub(crate) struct Received {
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) sender: Option<Pid>,
}

/// Receives one message of a socket that reports senders (`SO_PASSCRED`). The number of bytes is 0 if the peer has closed the socket.
pub(crate) fn receive_with_sender(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let mut message = Received { bytes: received.bytes, fds: Vec::new(), sender: None };
    for part in ancillary.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(fds) => message.fds.extend(fds),
            RecvAncillaryMessage::ScmCredentials(credentials) => message.sender = Some(credentials.pid),
            _ => {}
        }
    }
    Ok(message)
}

/// Receives one message. Returns the number of bytes, which is 0 if the peer has closed the socket, and the descriptors.
pub(crate) fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((received.bytes, fds.flatten().collect()))
}

/// The path that `/proc` has for a descriptor of this process.
pub(crate) fn path_of(fd: impl AsFd) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_fd().as_raw_fd().to_string())
}

/// The socket to the process that started this one.
pub(crate) fn inherited_socket() -> io::Result<UnixStream> {
    // `io::stdin` would allocate a permanent buffer.
    Ok(UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?))
}

/// Sends streams of a server, for [`receive_streams`] with the same number.
pub(crate) fn send_streams<const N: usize>(socket: impl AsFd, streams: &[OwnedFd; N]) -> io::Result<()> {
    send(socket, STREAMS, &streams.each_ref().map(AsFd::as_fd))
}

pub(crate) fn receive_streams<const N: usize>(socket: &UnixStream) -> io::Result<[OwnedFd; N]> {
    let (_, fds) = receive(socket, &mut [0])?;
    fds.try_into().map_err(|_| io::Error::other("expected other descriptors"))
}

/// Sends a message of one line.
pub(crate) fn send_line(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    socket.write_all(&line)
}
