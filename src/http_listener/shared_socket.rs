//! A Unix socket that is watched while hyper reads and writes it. hyper does not read during a response, so it does not notice that its client
//! has left.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

#[derive(Debug, Clone)]
pub(super) struct SharedSocket(Arc<UnixStream>);

impl SharedSocket {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Waits until the peer has closed both directions. If that cannot be seen, one is enough.
    pub(super) async fn closed(self) {
        // Sockets have no data with priority.
        while self.0.ready(Interest::PRIORITY).await.is_ok_and(|ready| !ready.is_read_closed()) {}
        let _ = self.write_closed().await;
    }

    async fn write_closed(&self) -> io::Result<()> {
        // A descriptor of its own: hyper needs to know whether it can write to the other one.
        let other = UnixStream::from_std(self.0.as_fd().try_clone_to_owned()?.into())?;
        while !other.ready(Interest::WRITABLE).await?.is_write_closed() {
            // Forgets that it is writable, so that the next change is awaited.
            let _ = other.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        Ok(())
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&self.0, Shutdown::Write)?))
    }
}
