//! Standard streams that are waited for, whatever they are.
//!
//! `O_NONBLOCK` belongs to the description, which the shell or the agent may have in common with the shim and not expect it on. So
//! a pipe is opened once more, a socket is asked not to wait call by call, and of anything else that can be waited for, such as
//! a terminal, it is asked before each call whether that would wait.

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

/// What a pipe takes without waiting when it takes anything (pipe(7), `PIPE_BUF`), in bytes.
const SMALL: usize = 4096;
/// Waits for nothing.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Standard input.
pub(crate) enum Input {
    /// A file or the like, which never has anybody wait.
    Plain(OwnedFd),
    // The runtime's safe way to wait for any descriptor.
    Waited(pipe::Receiver, How),
}

/// Standard output.
pub(super) enum Output {
    /// As of [`Input`].
    Plain(OwnedFd),
    Waited(pipe::Sender, How),
}

/// How nobody waits in a call.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// The description is the shim's own.
    Own,
    Socket,
    /// It is in common with others.
    Asked,
}

impl Input {
    pub(crate) fn open() -> io::Result<Self> {
        let (descriptor, how) = reopen(rustix::stdio::stdin(), OFlags::RDONLY)?;
        match pipe::Receiver::from_owned_fd_unchecked(descriptor.try_clone()?) {
            Ok(waited) => Ok(Self::Waited(waited, how)),
            Err(error) if is_always_ready(&error) => Ok(Self::Plain(descriptor)),
            Err(error) => Err(error),
        }
    }

    /// Reads what is there; 0 bytes are the end.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let (waited, how) = match self {
            Self::Plain(file) => return Poll::Ready(Ok(retry_on_intr(|| rustix::io::read(file, &mut *room))?)),
            Self::Waited(waited, how) => (waited, how),
        };
        loop {
            ready!(waited.poll_read_ready(cx))?;
            match waited.try_io(|| how.read(waited.as_fd(), room)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(read) if how.is_drained(read, room.len()) => {
                    // There is nothing more, which saves asking for it.
                    let _ = waited.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    return Poll::Ready(Ok(read));
                }
                read => return Poll::Ready(read),
            }
        }
    }
}

impl Output {
    pub(super) fn open() -> io::Result<Self> {
        let (descriptor, how) = reopen(rustix::stdio::stdout(), OFlags::WRONLY)?;
        match pipe::Sender::from_owned_fd_unchecked(descriptor.try_clone()?) {
            Ok(waited) => Ok(Self::Waited(waited, how)),
            Err(error) if is_always_ready(&error) => Ok(Self::Plain(descriptor)),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody can read any more what is written.
    pub(super) fn is_closed(&self) -> bool {
        let Self::Waited(waited, _) = self else { return false };
        let mut asked = [PollFd::new(waited, PollFlags::empty())];
        let is_told = retry_on_intr(|| poll(&mut asked, Some(&NOW))).is_ok();
        is_told && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    fn poll_slices(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let (waited, how) = match self {
            Self::Plain(file) => return Poll::Ready(Ok(retry_on_intr(|| rustix::io::writev(file, slices))?)),
            Self::Waited(waited, how) => (waited, how),
        };
        loop {
            ready!(waited.poll_write_ready(cx))?;
            match waited.try_io(|| how.write(waited.as_fd(), slices)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// A descriptor of the shim's own for a standard stream.
fn reopen(standard: BorrowedFd<'_>, access: OFlags) -> io::Result<(OwnedFd, How)> {
    let shared = standard.try_clone_to_owned()?;
    Ok(match FileType::from_raw_mode(rustix::fs::fstat(&shared)?.st_mode) {
        FileType::Fifo => {
            let path = format!("/proc/self/fd/{}", standard.as_raw_fd());
            // It may be another user's pipe, or have no reader any more, which the first write tells.
            match rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
                Ok(own) => (own, How::Own),
                Err(_) => (shared, How::Asked),
            }
        }
        FileType::Socket => (shared, How::Socket),
        _ => (shared, How::Asked),
    })
}

/// What cannot be waited for has nobody wait (epoll_ctl(2), `EPERM`).
fn is_always_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

impl How {
    fn read(self, from: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
        let read = retry_on_intr(|| match self {
            Self::Own => rustix::io::read(from, &mut *room),
            Self::Socket => rustix::net::recv(from, &mut *room, RecvFlags::DONTWAIT).map(|(read, _)| read),
            Self::Asked => would_not_wait(from, PollFlags::IN).and_then(|()| rustix::io::read(from, &mut *room)),
        });
        Ok(read?)
    }

    fn write(self, to: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        let written = retry_on_intr(|| match self {
            Self::Own => rustix::io::writev(to, slices),
            Self::Socket => rustix::net::sendmsg(to, slices, &mut SendAncillaryBuffer::default(), flags),
            Self::Asked => would_not_wait(to, PollFlags::OUT)
                .and_then(|()| rustix::io::write(to, &first[..first.len().min(SMALL)])),
        });
        Ok(written?)
    }

    /// Whether a read of less than there was room for has left nothing. Of a terminal it is one line of several.
    fn is_drained(self, read: usize, room: usize) -> bool {
        (1..room).contains(&read) && !matches!(self, Self::Asked)
    }
}

/// Fails with `AGAIN` if there is nothing of `what` yet.
fn would_not_wait(descriptor: BorrowedFd<'_>, what: PollFlags) -> rustix::io::Result<()> {
    let mut asked = [PollFd::from_borrowed_fd(descriptor, what)];
    match retry_on_intr(|| poll(&mut asked, Some(&NOW)))? {
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
