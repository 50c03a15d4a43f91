//! Messages from one peer.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio::task::{JoinHandle, yield_now};
use tokio_util::codec::Decoder;
use tokio_util::io::poll_read_buf;

use super::patience::Patience;
use crate::jsonrpc::codec::{Line, NdJson, Oversized};
use crate::jsonrpc::{Malformed, Message, batch, oversize, parse};

/// Larger lines are parsed on another thread, so that one peer's large message does not hold up everybody's small ones.
/// A line of this size takes 0.2 to 2 ms, by what is in it; the hop to the other thread and back costs as much.
pub(super) const INLINE: usize = 2 << 20;
/// Least and most room made for one read.
const READ: (usize, usize) = (8 << 10, 256 << 10);
/// What a peer may have taken in before all others get their turn, in bytes: with a peer that never pauses, the runtime
/// would otherwise look at nobody else for a hundred reads.
const TURN: usize = 256 << 10;
/// What a message counts in that beside its bytes.
const MESSAGE: usize = 4 << 10;
/// A larger buffer is given back when its message was taken, so that one large message does not cost its size for ever.
const KEPT_BUFFER: usize = 256 << 10;

/// Reads messages from `R`, one at a time and in order.
#[derive(Debug)]
pub struct MessageReader<R> {
    stream: R,
    codec: NdJson,
    buffer: BytesMut,
    parsing: Option<JoinHandle<Incoming>>,
    /// Taken in this turn.
    taken: usize,
    patience: Patience,
}

/// What a peer sent.
#[derive(Debug)]
pub enum Incoming {
    /// A message, and the line it is made of.
    Message {
        /// Without its newline; the message's parts are slices of it.
        line: Bytes,
        /// The parsed envelope.
        message: Message,
    },
    /// The members of a batch; none of them is a batch.
    Batch(Vec<Incoming>),
    /// A line that is no message.
    Malformed(Malformed),
    /// A line over the cap, skipped.
    TooLarge {
        /// Its id, if that could be read.
        id: Option<Bytes>,
        /// It is a response to the request of that id.
        is_response: bool,
    },
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of messages of at most `max` bytes.
    pub fn new(stream: R, max: usize) -> Self {
        let (codec, patience) = (NdJson::new(max), Patience::default());
        Self { stream, codec, buffer: BytesMut::new(), parsing: None, taken: 0, patience }
    }

    /// The same, for a peer that may be silent amid a line for `limit` at most: then reading fails.
    #[must_use]
    pub fn line_timeout(self, limit: Duration) -> Self {
        Self { patience: Patience::of(limit), ..self }
    }

    /// The next message, or `None` at the end of the stream. May be cancelled without loss.
    ///
    /// # Errors
    /// Those of the stream.
    pub async fn next(&mut self) -> io::Result<Option<Incoming>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for whoever waits for other things as well: polled by itself it needs no state of its own.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Incoming>>> {
        loop {
            if self.taken >= TURN {
                self.taken = 0;
                // Polled once, it has this task woken after all others.
                let _ = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
            if let Some(parsing) = &mut self.parsing {
                let parsed = ready!(Pin::new(parsing).poll(cx));
                self.parsing = None;
                return Poll::Ready(parsed.map(Some).map_err(io::Error::other));
            }
            if let Some(incoming) = self.buffered() {
                return Poll::Ready(Ok(Some(incoming)));
            }
            if self.parsing.is_none() && ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The next message if it has been read already.
    pub fn buffered(&mut self) -> Option<Incoming> {
        if self.parsing.is_some() || self.buffer.is_empty() {
            return None;
        }
        // Decoding has no errors of its own.
        let line = self.codec.decode(&mut self.buffer).ok()??;
        self.taken += MESSAGE;
        match line {
            Line::Oversized(Oversized { head, tail }) => {
                Some(Incoming::TooLarge { id: oversize::id(&head, &tail), is_response: oversize::is_response(&head) })
            }
            Line::Whole(line) if line.len() <= INLINE => Some(Incoming::of(line)),
            Line::Whole(line) => {
                self.parsing = Some(tokio::task::spawn_blocking(|| Incoming::of(line)));
                None
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(self.buffer.len().clamp(READ.0, READ.1));
        let is_amid_line = !self.buffer.is_empty() || self.codec.is_discarding();
        let read = poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer);
        if is_amid_line {
            ready!(self.patience.poll(cx, read.is_ready()))?;
        }
        let read = ready!(read)?;
        self.taken += read;
        Poll::Ready(Ok(read))
    }

    /// Bytes that were read and are no whole message yet, or were not taken.
    pub fn unfinished(&self) -> usize {
        self.buffer.len()
    }

    /// The stream itself.
    pub fn get_ref(&self) -> &R {
        &self.stream
    }

    /// The stream itself, without what was read from it and not yet taken.
    pub fn into_inner(self) -> R {
        self.stream
    }
}

impl Incoming {
    /// The same as [`Incoming::of`] for what `line` makes of a text, all of it on another thread if the text is so large that others
    /// would have to wait.
    pub async fn of_any_size(text: Bytes, line: impl FnOnce(Bytes) -> Bytes + Send + 'static) -> Self {
        if text.len() <= INLINE {
            return Self::of(line(text));
        }
        let parsing = tokio::task::spawn_blocking(|| Self::of(line(text)));
        parsing.await.unwrap_or(Self::Malformed(Malformed::NotAMessage { id: None }))
    }

    /// What a line says, without its newline.
    #[must_use]
    pub fn of(line: Bytes) -> Self {
        match parse(&line) {
            Ok(message) => Self::Message { line, message },
            Err(Malformed::Batch) => match batch::split(&line) {
                Some(members) => Self::Batch(members.into_iter().map(classify_member).collect()),
                None => Self::Malformed(Malformed::Batch),
            },
            Err(malformed) => Self::Malformed(malformed),
        }
    }
}

fn classify_member(member: Bytes) -> Incoming {
    match parse(&member) {
        Ok(message) => Incoming::Message { line: member, message },
        Err(Malformed::Batch) => Incoming::Malformed(Malformed::NotAMessage { id: None }),
        Err(malformed) => Incoming::Malformed(malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often others have their turn while `stream`, which never pauses, is read to its end.
    async fn turns(stream: &[u8]) -> usize {
        let turns = Cell::new(0);
        let others = async {
            loop {
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        };
        let mut reader = MessageReader::new(stream, 1 << 20);
        let reading = async { while let Some(_message) = reader.next().await.expect("it cannot fail") {} };
        tokio::select! {
            biased;
            () = reading => turns.get(),
            () = others => 0,
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_peer_that_never_pauses_leaves_the_others_their_turns() {
        let small = "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n".repeat(10_000);
        assert!(turns(small.as_bytes()).await >= 100);
        let endless = vec![b'x'; 64 << 20];
        assert!(turns(&endless).await >= 100);
        assert_eq!(turns(b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n").await, 0, "one message is no reason to wait");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nothing_is_done_with_a_large_text_where_others_wait() {
        let here = std::thread::current().id();
        for (size, is_aside) in [(10, false), (INLINE + 1, true)] {
            let made = move |text| {
                assert_eq!(std::thread::current().id() != here, is_aside, "{size} bytes");
                text
            };
            let incoming = Incoming::of_any_size(vec![b' '; size].into(), made).await;
            assert!(matches!(incoming, Incoming::Malformed(_)));
        }
    }
}
