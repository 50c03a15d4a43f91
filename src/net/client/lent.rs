//! Connections for one answer each: hyper writes the request and reads the head of the answer, and the rest is read here.
//!
//! A stream that stays open waits nearly all of its life. hyper keeps 21 KiB for a connection through that; here it takes what its
//! socket takes.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use crossbeam_queue::ArrayQueue;
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answer::cause;
use super::framing::Framing;
use super::head::Head;
use super::stream::Stream;

/// Bytes that are read at once of a body. Nothing is kept for them while there are none.
const PART: usize = 8 << 10;

/// A connection as hyper has it: at its end, to all appearances, where the head of the answer ends.
pub(super) struct Lent {
    /// Until then.
    stream: Option<Box<Stream>>,
    head: Head,
    back: Back,
}

/// Where it comes back from hyper: with the answer whose head ended there.
#[derive(Clone)]
struct Back(Arc<ArrayQueue<Rest>>);

/// What is behind the head of an answer.
struct Rest {
    stream: Box<Stream>,
    /// What was read of it already.
    ahead: Bytes,
}

/// The body of an answer on a connection of its own, which is closed when this is dropped.
pub(super) struct Body {
    rest: Rest,
    framing: Framing,
}

impl Lent {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream: Some(Box::new(stream)), head: Head::default(), back: Back(Arc::new(ArrayQueue::new(1))) }
    }

    fn ended() -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
}

impl Connection for Lent {
    fn connected(&self) -> Connected {
        let connected = self.stream.as_ref().map_or_else(Connected::new, |stream| stream.connected());
        connected.extra(self.back.clone())
    }
}

impl AsyncRead for Lent {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(stream) = &mut this.stream else { return Poll::Ready(Ok(())) };
        let before = buf.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        if let Some(end) = this.head.end_in(read) {
            let ahead = Bytes::copy_from_slice(&read[end..]);
            buf.set_filled(before + end);
            if let Some(stream) = this.stream.take() {
                // There is room for one, and there is one.
                let _ = this.back.0.push(Rest { stream, ahead });
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Lent {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().map_or_else(Self::ended, |stream| Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().map_or(Poll::Ready(Ok(())), |stream| Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().map_or(Poll::Ready(Ok(())), |stream| Pin::new(stream).poll_shutdown(cx))
    }
}

impl Body {
    /// That of an answer with this head, if the connection came back with it. `length` is what hyper knows of it.
    pub(super) fn of(head: &mut http::response::Parts, length: Option<u64>) -> Option<Self> {
        let Back(back) = head.extensions.remove()?;
        Some(Self { rest: back.pop()?, framing: Framing::of(&head.headers, length) })
    }

    /// How much of it is still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        if let Framing::Length(length) = self.framing { Some(length) } else { None }
    }

    /// The next part of it; `None` behind the last.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, String>> {
        let Self { rest: Rest { stream, ahead }, framing } = self;
        loop {
            if let Some(data) = framing.data(ahead).map_err(|_| "its chunks are none")? {
                return Poll::Ready(Ok(Some(data)));
            }
            if framing.is_over() {
                return Poll::Ready(Ok(None));
            }
            let mut room = [const { MaybeUninit::uninit() }; PART];
            let mut part = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut part)).map_err(|error| cause(&error))?;
            if part.filled().is_empty() {
                let is_whole = framing.may_end();
                return Poll::Ready(if is_whole { Ok(None) } else { Err("it ended too early".to_owned()) });
            }
            *ahead = Bytes::copy_from_slice(part.filled());
        }
    }
}

/// The other end hears of it as well where TLS is between, if there is room to say so.
impl Drop for Body {
    fn drop(&mut self) {
        let _ = Pin::new(&mut self.rest.stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

/// What it holds may be a secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("framing", &self.framing).finish_non_exhaustive()
    }
}
