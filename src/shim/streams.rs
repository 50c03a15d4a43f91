//! Standard streams without blocking reads and writes, whatever they are.
//!
//! `O_NONBLOCK` belongs to the open file description, which the shell or the agent may share with the shim. So a pipe
//! is reopened, a socket is used with non-blocking calls, and other pollable files such as terminals are polled before
//! each call.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;

/// Bytes that a writable pipe accepts without blocking (pipe(7), `PIPE_BUF`).
const SMALL: usize = 4096;
/// No wait.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Standard input.
pub(crate) enum Input {
    /// A file or the like, which never blocks.
    Plain(OwnedFd),
    // The runtime's safe way to poll any descriptor.
    Pollable(pipe::Receiver, WaitMode),
}

/// Standard output.
pub(super) enum Output {
    /// See [`Input`].
    Plain(OwnedFd),
    Pollable(pipe::Sender, WaitMode),
}

/// How a call avoids blocking.
#[derive(Clone, Copy)]
pub(crate) enum WaitMode {
    /// The description is the shim's own.
    Reopened,
    Socket,
    /// The description is shared, so each call is preceded by a poll.
    Polled,
}

impl Input {
    pub(crate) fn open() -> io::Result<Self> {
        let (descriptor, mode) = reopen(rustix::stdio::stdin(), OFlags::RDONLY)?;
        match pipe::Receiver::from_owned_fd_unchecked(descriptor.try_clone()?) {
            Ok(stream) => Ok(Self::Pollable(stream, mode)),
            Err(error) if is_always_ready(&error) => Ok(Self::Plain(descriptor)),
            Err(error) => Err(error),
        }
    }

    /// Reads available bytes; 0 is the end.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let (stream, mode) = match self {
            Self::Plain(file) => return Poll::Ready(Ok(retry_on_intr(|| rustix::io::read(file, &mut *buffer))?)),
            Self::Pollable(stream, mode) => (stream, mode),
        };
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_io(|| mode.read(stream.as_fd(), buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(read) if mode.is_drained(read, buffer.len()) => {
                    // There is nothing more, which saves another call.
                    let _ = stream.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    return Poll::Ready(Ok(read));
                }
                read => return Poll::Ready(read),
            }
        }
    }
}

impl Output {
    pub(super) fn open() -> io::Result<Self> {
        let (descriptor, mode) = reopen(rustix::stdio::stdout(), OFlags::WRONLY)?;
        match pipe::Sender::from_owned_fd_unchecked(descriptor.try_clone()?) {
            Ok(stream) => Ok(Self::Pollable(stream, mode)),
            Err(error) if is_always_ready(&error) => Ok(Self::Plain(descriptor)),
            Err(error) => Err(error),
        }
    }

    /// Whether the reading end is closed.
    pub(super) fn is_closed(&self) -> bool {
        let Self::Pollable(stream, _) = self else { return false };
        let mut polled = [PollFd::new(stream, PollFlags::empty())];
        let is_known = retry_on_intr(|| poll(&mut polled, Some(&NOW))).is_ok();
        is_known && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    fn poll_slices(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let (stream, mode) = match self {
            Self::Plain(file) => return Poll::Ready(Ok(retry_on_intr(|| rustix::io::writev(file, slices))?)),
            Self::Pollable(stream, mode) => (stream, mode),
        };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(|| mode.write(stream.as_fd(), slices)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// The shim's own descriptor for a standard stream.
fn reopen(standard: BorrowedFd<'_>, access: OFlags) -> io::Result<(OwnedFd, WaitMode)> {
    let shared = standard.try_clone_to_owned()?;
    Ok(match FileType::from_raw_mode(rustix::fs::fstat(&shared)?.st_mode) {
        FileType::Fifo => {
            let path = format!("/proc/self/fd/{}", standard.as_raw_fd());
            // It may be another user's pipe, or have no reader any more, which the first write reports.
            match rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
                Ok(reopened) => (reopened, WaitMode::Reopened),
                Err(_) => (shared, WaitMode::Polled),
            }
        }
        FileType::Socket => (shared, WaitMode::Socket),
        _ => (shared, WaitMode::Polled),
    })
}

/// Files that cannot be polled never block (epoll_ctl(2), `EPERM`).
fn is_always_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

impl WaitMode {
    fn read(self, from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let read = retry_on_intr(|| match self {
            Self::Reopened => rustix::io::read(from, &mut *buffer),
            Self::Socket => rustix::net::recv(from, &mut *buffer, RecvFlags::DONTWAIT).map(|(read, _)| read),
            Self::Polled => would_not_block(from, PollFlags::IN).and_then(|()| rustix::io::read(from, &mut *buffer)),
        });
        Ok(read?)
    }

    fn write(self, to: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        let written = retry_on_intr(|| match self {
            Self::Reopened => rustix::io::writev(to, slices),
            Self::Socket => rustix::net::sendmsg(to, slices, &mut SendAncillaryBuffer::default(), flags),
            Self::Polled => would_not_block(to, PollFlags::OUT)
                .and_then(|()| rustix::io::write(to, &first[..first.len().min(SMALL)])),
        });
        Ok(written?)
    }

    /// Whether a short read has emptied the stream. A terminal returns single lines.
    fn is_drained(self, read: usize, buffer: usize) -> bool {
        (1..buffer).contains(&read) && !matches!(self, Self::Polled)
    }
}

/// Fails with `AGAIN` if the call would block.
fn would_not_block(descriptor: BorrowedFd<'_>, what: PollFlags) -> rustix::io::Result<()> {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, what)];
    match retry_on_intr(|| poll(&mut polled, Some(&NOW)))? {
        0 => Err(rustix::io::Errno::AGAIN),
        _ => Ok(()),
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_slices(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_slices(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
