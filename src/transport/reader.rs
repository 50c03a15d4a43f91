//! Messages from one peer: parses its lines and bodies. The peer may pause within a line only for a limited time.
//!
//! Each fragment of a line wakes the event loop, however little it brings. So after some fragments of a line there is a pause
//! before each further read. Meanwhile fragments accumulate, and the event loop serves other peers.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use std::vec::IntoIter;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt};
use tokio::io::AsyncRead;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{self, Sleep, sleep};
use tokio_util::codec::Decoder;
use tokio_util::io::poll_read_buf;

use crate::deadline_timer::DeadlineTimer;
use crate::jsonrpc::codec::{Line, LineEnds, NdJson};
use crate::jsonrpc::normalise::{Normalised, Sender, is_suspicious, normalise};
use crate::jsonrpc::{Message, MessageError, oversize, parse};
use crate::message_limit::has_memory;
use crate::tap::{Direction, TapPoint};

/// Minimum and maximum buffer space for one read.
const READ: (usize, usize) = (8 << 10, 64 << 10);
/// Work for one peer before others get their turn: bytes read and parsed. Otherwise the runtime would make a hundred
/// reads from a peer that never pauses before it polls others.
const TURN: usize = 64 << 10;
/// Fixed share of a message in that, beside its bytes.
const MESSAGE: usize = 1 << 10;
/// A larger buffer is freed once its message was taken.
const MAX_RETAINED_BUFFER: usize = 256 << 10;

/// Reads messages from `R` in order, as `T`. `T::from` parses what the owner needs beyond the envelope, on the same
/// thread as the envelope.
#[derive(Debug)]
pub struct MessageReader<R, T = Incoming> {
    stream: R,
    sender: Sender,
    codec: NdJson,
    buffer: BytesMut,
    parsing: Option<Parsing<T>>,
    /// The messages that followed the last one on its line.
    following: IntoIter<T>,
    /// Work done in this turn.
    taken: usize,
    line_timeout: LineTimeout,
    throttle: Throttle,
    /// No reads until it ends.
    pause: Option<Pin<Box<Sleep>>>,
    /// Until then, no messages either.
    holds_back: bool,
    tap: TapPoint,
}

/// A line that is parsed on another thread.
#[derive(Debug)]
struct Parsing<T> {
    bytes: usize,
    parsed: JoinHandle<(T, Vec<T>)>,
}

impl<R: AsyncRead + Unpin, T: From<Incoming> + Send + 'static> MessageReader<R, T> {
    /// A reader of messages of at most `max` bytes.
    pub fn new(stream: R, sender: Sender, max: usize) -> Self {
        Self {
            stream,
            sender,
            codec: NdJson::new(max),
            buffer: BytesMut::new(),
            parsing: None,
            following: Vec::new().into_iter(),
            taken: 0,
            line_timeout: LineTimeout::default(),
            throttle: Throttle::default(),
            pause: None,
            holds_back: false,
            tap: TapPoint::default(),
        }
    }

    /// Notes each line here.
    pub(crate) fn set_tap(&mut self, tap: TapPoint) {
        self.tap = tap;
    }

    /// Limits how long a peer may pause within a line. After that, reading fails.
    #[must_use]
    pub fn line_timeout(self, limit: Duration) -> Self {
        Self { line_timeout: LineTimeout::new(limit), ..self }
    }

    /// The next message, or `None` at the end of the stream. Cancel-safe.
    ///
    /// # Errors
    /// Errors of the stream.
    pub async fn next(&mut self) -> io::Result<Option<T>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The polling form of [`MessageReader::next`]. It allocates no future.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<T>>> {
        if self.holds_back {
            ready!(self.poll_pause(cx));
        }
        loop {
            if self.taken >= TURN {
                self.taken = 0;
                // One poll wakes this task after all others.
                let _ = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
            if let Some(parsing) = &mut self.parsing {
                let parsed = ready!(Pin::new(&mut parsing.parsed).poll(cx));
                self.parsing = None;
                return Poll::Ready(parsed.map(|parsed| Some(self.first_of(parsed))).map_err(io::Error::other));
            }
            if let Some(incoming) = self.next_buffered() {
                return Poll::Ready(Ok(Some(incoming)));
            }
            if self.parsing.is_none() && self.following.len() == 0 && ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The next message, if it is buffered and the turn is not over.
    pub fn next_buffered(&mut self) -> Option<T> {
        if self.parsing.is_some() || self.taken >= TURN || self.holds_back {
            return None;
        }
        if let Some(next) = self.following.next() {
            self.taken += MESSAGE;
            return Some(next);
        }
        if self.buffer.is_empty() {
            return None;
        }
        // Decoding cannot fail.
        let line = self.codec.decode(&mut self.buffer).ok()??;
        self.taken += MESSAGE;
        match line {
            Line::Oversized(LineEnds { head, tail, size }) => {
                self.tap.note_cut(Direction::From, &head, size);
                let (id, is_response) = (oversize::id(&head, &tail), oversize::is_response(&head));
                Some(Incoming::TooLarge { id, is_response, size }.into())
            }
            Line::Whole(line) if line.len() <= INLINE => {
                self.tap.note(Direction::From, &line);
                self.taken += line.len();
                self.throttle.end_line(line.len());
                let parsed = read(line, self.sender);
                Some(self.first_of(parsed))
            }
            Line::Whole(line) => {
                self.tap.note(Direction::From, &line);
                let bytes = line.len();
                self.throttle.end_line(bytes);
                let sender = self.sender;
                let parsed = tokio::task::spawn_blocking(move || read(line, sender));
                self.parsing = Some(Parsing { bytes, parsed });
                None
            }
        }
    }

    fn first_of(&mut self, (first, following): (T, Vec<T>)) -> T {
        if !following.is_empty() {
            self.following = following.into_iter();
        }
        first
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_pause(cx));
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_RETAINED_BUFFER {
            self.buffer = BytesMut::new();
        }
        let more = self.buffer.len().clamp(READ.0, READ.1);
        if !has_memory(&self.buffer, more) {
            self.codec.discard(&mut self.buffer);
        }
        self.buffer.reserve(more);
        let is_amid_line = !self.buffer.is_empty() || self.codec.is_discarding();
        let read = poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer);
        if is_amid_line {
            ready!(self.line_timeout.poll(cx, read.is_ready()))?;
        }
        let read = ready!(read)?;
        self.taken += read;
        self.pause = self.throttle.pause_after(read).map(|pause| Box::pin(sleep(pause)));
        Poll::Ready(Ok(read))
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
        }
        self.resume();
        Poll::Ready(())
    }

    /// Ends a pause.
    pub fn resume(&mut self) {
        (self.pause, self.holds_back) = (None, false);
    }

    /// Bytes that were read and not returned as messages.
    pub fn unreturned_bytes(&self) -> usize {
        self.buffer.len() + self.parsing.as_ref().map_or(0, |parsing| parsing.bytes)
    }

    /// What was read of a line whose end was not. Empty while a line is parsed.
    pub fn unended(&self) -> &[u8] {
        if self.parsing.is_none() { &self.buffer } else { &[] }
    }

    /// Reads and returns nothing for this time. A longer pause that has begun continues.
    pub fn pause(&mut self, pause: Duration) {
        self.holds_back = true;
        match &mut self.pause {
            // A new timer would not wake the task that was polled with the old one.
            Some(current) => {
                let deadline = current.deadline().max(time::Instant::now() + pause);
                current.as_mut().reset(deadline);
            }
            None => self.pause = Some(Box::pin(sleep(pause))),
        }
    }

    /// The stream itself, without what was read from it and not yet taken.
    pub fn into_inner(self) -> R {
        self.stream
    }
}

fn read<T: From<Incoming>>(line: Bytes, sender: Sender) -> (T, Vec<T>) {
    let (first, following) = Incoming::read(line, sender);
    (first.into(), following.into_iter().map(T::from).collect())
}

/// Limits how long a peer may pause within a line. No timer is set for a line whose rest can be read at once.
#[derive(Default)]
pub(super) struct LineTimeout {
    limit: Option<Duration>,
    /// Set while the peer pauses.
    timer: Option<BoxFuture<'static, ()>>,
}

impl LineTimeout {
    /// Lets a peer pause for `limit` at most.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit: Some(limit), timer: None }
    }

    /// Call this after each read within a line: `has_data` if the read returned. Pending while the peer may still pause.
    ///
    /// # Errors
    /// `TimedOut` if the pause was too long. Data that arrived in time counts, even if it is read late.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, has_data: bool) -> Poll<io::Result<()>> {
        if has_data {
            self.timer = None;
            return Poll::Ready(Ok(()));
        }
        if let (Some(limit), None) = (self.limit, &self.timer)
            // Without a free descriptor there is no limit.
            && let Ok(mut timer) = DeadlineTimer::new()
        {
            timer.set(Some(Instant::now() + limit));
            self.timer = Some(timer.elapsed().boxed());
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        timer
            .poll_unpin(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer paused too long within a line")))
    }
}

impl fmt::Debug for LineTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Reads of fewer bytes are fragments. A program that buffers its output sends a large message in larger parts.
const FRAGMENT: usize = 1 << 10;
/// Fragments of a line that cause no pause: some programs write a message in several parts.
const FREE: u8 = 4;
/// A shorter line is no message, so what follows is still counted with it.
const MIN_MESSAGE: usize = 16;
/// Pauses begin with one millisecond and are doubled so many times, up to 32 ms. During a pause the kernel still wakes the
/// event loop for each fragment, until the socket buffer is full after some hundred fragments. Long pauses make that rare.
const DOUBLINGS: u8 = 5;

/// The fragments of the current line of one peer.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    fragments: u8,
}

impl Throttle {
    /// Counts a read of this many bytes. Returns the pause before the next read, if there is one.
    pub(super) fn pause_after(&mut self, bytes: usize) -> Option<Duration> {
        if bytes >= FRAGMENT {
            return None;
        }
        self.fragments = self.fragments.saturating_add(1);
        let doublings = self.fragments.checked_sub(FREE + 1)?.min(DOUBLINGS);
        Some(Duration::from_millis(1 << doublings))
    }

    /// A line of this many bytes is complete.
    pub(super) fn end_line(&mut self, bytes: usize) {
        if bytes >= MIN_MESSAGE {
            self.fragments = 0;
        }
    }
}

/// Larger lines are parsed on another thread, so that one peer's large messages do not delay other peers.
///
/// To parse a line of this size takes 3 to 60 µs, depending on the number of its values. The way to another thread and
/// back takes about as long.
pub(crate) const INLINE: usize = 32 << 10;

/// What a peer sent.
#[derive(Debug)]
pub enum Incoming {
    /// A message with its line.
    Message {
        /// Without its newline; the message's parts are slices of it.
        line: Bytes,
        /// The parsed envelope.
        message: Message,
    },
    /// A line that is not a message.
    Malformed(MessageError),
    /// A line of a server that is not a message. Its connection decides whether it is used.
    Unclear(Box<UnclearLine>),
    /// A line over the cap, skipped.
    TooLarge {
        /// Its id, if it could be read.
        id: Option<Bytes>,
        /// It is a response to the request with that id.
        is_response: bool,
        /// In bytes.
        size: usize,
    },
}

/// A line that is not a message.
#[derive(Debug)]
pub struct UnclearLine {
    /// As received.
    pub line: Bytes,
    /// Why it is not a message.
    pub error: MessageError,
    /// The response that it is on a connection that tolerates missing versions, with its line.
    pub unversioned: Option<(Bytes, Message)>,
}

impl Incoming {
    /// Parses the body `line(text)` of a server. A text so large that others would have to wait is handled on another thread.
    pub async fn of_any_size(text: Bytes, line: impl FnOnce(Bytes) -> Bytes + Send + 'static) -> Self {
        // A body is one message.
        let parse = |text| Self::read(line(text), Sender::Server).0;
        if text.len() <= INLINE {
            return parse(text);
        }
        let parsing = tokio::task::spawn_blocking(|| parse(text));
        parsing.await.unwrap_or(Self::Malformed(MessageError::NotAMessage { id: None }))
    }

    /// Parses a line without its newline. Returns what it contains, and what follows that if a server has written several messages on one
    /// line.
    #[must_use]
    pub fn read(line: Bytes, sender: Sender) -> (Self, Vec<Self>) {
        match parse(&line) {
            Ok(message) if sender != Sender::Server || !is_suspicious(&message, &line) => {
                (Self::Message { line, message }, Vec::new())
            }
            parsed => Self::read_unclear(line, parsed, sender),
        }
    }

    #[cold]
    fn read_unclear(line: Bytes, parsed: Result<Message, MessageError>, sender: Sender) -> (Self, Vec<Self>) {
        let mut unversioned = None;
        match normalise(&line, sender) {
            Some(Normalised::Messages(lines)) => {
                let mut messages = lines.into_iter().map(Self::of);
                if let Some(first) = messages.next() {
                    return (first, messages.collect());
                }
            }
            Some(Normalised::Unversioned(line)) => unversioned = parse(&line).ok().map(|message| (line, message)),
            None => {}
        }
        let incoming = match parsed {
            Ok(message) => Self::Message { line, message },
            Err(error) if sender != Sender::Server => Self::Malformed(error),
            Err(error) => Self::Unclear(Box::new(UnclearLine { line, error, unversioned })),
        };
        (incoming, Vec::new())
    }

    /// The response, if it is one or may be one, with its id.
    pub(crate) fn as_response(&self) -> Option<(&Bytes, &Result<Bytes, Bytes>)> {
        let message = match self {
            Self::Message { message, .. } => message,
            Self::Unclear(unclear) => &unclear.unversioned.as_ref()?.1,
            Self::Malformed(_) | Self::TooLarge { .. } => return None,
        };
        match message {
            Message::Response { id, response } => Some((id, response)),
            Message::Request { .. } | Message::Notification { .. } => None,
        }
    }

    /// Parses a line without its newline, strictly.
    #[must_use]
    pub fn of(line: Bytes) -> Self {
        match parse(&line) {
            Ok(message) => Self::Message { line, message },
            Err(malformed) => Self::Malformed(malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread::{self, ThreadId};

    use tokio::io::ReadBuf;

    use super::*;
    use crate::jsonrpc::Message;

    /// How often others have their turn while `stream`, which never pauses, is read to its end.
    async fn turns(stream: &[u8]) -> usize {
        let turns = Cell::new(0);
        let others = async {
            loop {
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        };
        let mut reader: MessageReader<_> = MessageReader::new(stream, Sender::Server, 1 << 20);
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

    fn dense(size: usize) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"dense\",\"params\":[{}1]}}\n", "1,".repeat(size / 2))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn messages_parsed_in_one_turn_have_together_a_bounded_size() {
        let burst = dense(INLINE - 100).repeat(8);
        let mut reader: MessageReader<_> = MessageReader::new(burst.as_bytes(), Sender::Server, 1 << 20);
        let mut most = 0;
        while let Some(_message) = reader.next().await.expect("it cannot fail") {
            most = most.max(1 + std::iter::from_fn(|| reader.next_buffered()).count());
        }
        assert!(most <= TURN / INLINE, "{most} messages");
    }

    /// The method of a message, and the thread that parsed it.
    #[derive(Debug, PartialEq)]
    struct ReadResult(Bytes, ThreadId);

    impl From<Incoming> for ReadResult {
        fn from(incoming: Incoming) -> Self {
            let Incoming::Message { message: Message::Notification { method, .. }, .. } = incoming else {
                panic!("{incoming:?}")
            };
            Self(method, thread::current().id())
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn large_messages_are_parsed_on_another_thread_and_stay_in_order() {
        let large = dense(INLINE);
        let small = "{\"jsonrpc\":\"2.0\",\"method\":\"small\"}\n";
        let stream = [small, &large, small, &large, &large, small].concat();
        let mut reader = MessageReader::new(stream.as_bytes(), Sender::Server, 1 << 20);
        let mut methods = Vec::new();
        while let Some(ReadResult(method, parser)) = reader.next().await.expect("it cannot fail") {
            assert_eq!(parser != thread::current().id(), method == "dense", "{method:?}");
            methods.push(method);
        }
        assert_eq!(methods, ["small", "dense", "small", "dense", "dense", "small"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_of_a_message_that_is_being_parsed_are_unreturned() {
        let large = dense(INLINE);
        let mut reader: MessageReader<_> = MessageReader::new(large.as_bytes(), Sender::Server, 1 << 20);
        let mut most = 0;
        let message = poll_fn(|cx| {
            let polled = reader.poll_next(cx);
            most = most.max(if reader.parsing.is_some() { reader.unreturned_bytes() } else { 0 });
            polled
        });
        assert!(message.await.expect("it cannot fail").is_some());
        assert_eq!((most, reader.unreturned_bytes()), (large.len() - 1, 0));
    }

    /// A stream of single bytes, each of which can be read at once.
    struct SingleBytes<'a> {
        reads: &'a Cell<usize>,
    }

    impl AsyncRead for SingleBytes<'_> {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.reads.set(self.reads.get() + 1);
            buffer.put_slice(b"x");
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn reads_of_single_bytes_soon_pause() {
        let reads = Cell::new(0);
        let mut reader: MessageReader<_> = MessageReader::new(SingleBytes { reads: &reads }, Sender::Server, 1 << 20);
        let polled = poll_fn(|cx| Poll::Ready(reader.poll_next(cx))).await;
        assert!(polled.is_pending() && reads.get() < 100, "{} reads at once", reads.get());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn reader_that_is_paused_again_during_a_pause_is_woken() {
        let reads = Cell::new(0);
        let mut reader: MessageReader<_> = MessageReader::new(SingleBytes { reads: &reads }, Sender::Server, 1 << 20);
        let mut paused_at = None;
        let read_on = poll_fn(|cx| {
            let polled = reader.poll_next(cx);
            assert!(polled.is_pending(), "{polled:?}");
            match paused_at {
                None => {
                    reader.pause(Duration::from_millis(1));
                    paused_at = Some(reads.get());
                    Poll::Pending
                }
                Some(before) if before == reads.get() => Poll::Pending,
                Some(_) => Poll::Ready(()),
            }
        });
        tokio::time::timeout(Duration::from_secs(60), read_on).await.expect("the end of the pause wakes the reader");
    }

    /// The pauses, in milliseconds, of a peer that sends lines in fragments of these sizes.
    fn pauses(fragments: &[usize], lines: usize) -> Vec<u128> {
        let (mut throttle, mut pauses) = (Throttle::default(), Vec::new());
        for _ in 0..lines {
            let found = fragments.iter().filter_map(|bytes| throttle.pause_after(*bytes));
            pauses.extend(found.map(|pause| pause.as_millis()));
            throttle.end_line(fragments.iter().sum());
        }
        pauses
    }

    #[test]
    fn messages_cause_no_pause_whole_or_in_a_few_parts() {
        for fragments in [&[40][..], &[40, 1], &[1, 40, 1], &[1, 1, 40, 1], &[64 << 10], &[FRAGMENT; 100]] {
            assert_eq!(pauses(fragments, 1000), [0; 0], "{fragments:?}");
        }
    }

    #[test]
    fn pauses_grow_with_the_fragments_of_a_line() {
        assert_eq!(pauses(&[1; 12], 1), [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(pauses(&[300; 1000], 1).len(), 1000 - usize::from(FREE));
    }

    #[test]
    fn message_ends_the_pauses_and_an_empty_line_does_not() {
        assert_eq!(pauses(&[8; 6], 3), [1, 2, 1, 2, 1, 2]);
        assert_eq!(pauses(&[1], 7), [1, 2, 4]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn large_texts_are_parsed_on_another_thread() {
        let here = thread::current().id();
        for (size, is_elsewhere) in [(10, false), (INLINE + 1, true)] {
            let made = move |text| {
                assert_eq!(thread::current().id() != here, is_elsewhere, "{size} bytes");
                text
            };
            let incoming = Incoming::of_any_size(vec![b' '; size].into(), made).await;
            assert!(matches!(incoming, Incoming::Unclear(_)));
        }
    }
}
