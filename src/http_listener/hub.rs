//! What a session and the connections that serve it share: messages of the agent on their way in, and a stream of messages out for each
//! request.
//!
//! A stream ends with its response. In the legacy era, an event stream can be resumed: what was read of it, or was sent while nobody read
//! it, is kept within [`MAX_KEPT`]. The oldest events are dropped first.

#![expect(
    clippy::disallowed_types,
    reason = "a session and its connections share it; nothing waits while it is locked"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;

use crate::account::MAX_STREAMS;
use crate::session::{Address, AgentMessage};

/// Bytes that are kept so that streams can be resumed. The newest event is kept, however large it is.
pub(super) const MAX_KEPT: usize = 256 << 10;
/// Messages for an agent that reads no stream. A full queue drops the oldest.
pub(super) const MAX_WAITING: usize = 64;

#[derive(Debug)]
pub(super) struct Hub(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Streams can be resumed, and the session outlives its connections.
    is_resumable: bool,
    posts: VecDeque<Post>,
    /// The bytes of `posts`.
    posted: usize,
    /// Bytes of a body that a connection has received so far.
    receiving: usize,
    session: Option<Waker>,
    /// Boxed, because a map has space for several.
    streams: BTreeMap<u64, Box<Stream>>,
    next_stream: u64,
    /// The streams of unanswered requests, by raw id.
    requests: HashMap<Bytes, u64>,
    /// The GET streams, the newest last.
    listening: Vec<u64>,
    /// Messages that no stream could take.
    waiting: VecDeque<Message>,
    unwritten: usize,
    kept: usize,
    /// Messages that were read from streams.
    taken: u64,
    last_use: Instant,
    /// The agent sends nothing any more.
    is_closed: bool,
    closed: Option<Waker>,
    /// The session receives nothing any more.
    has_stopped_receiving: bool,
    /// The session is over.
    has_ended: bool,
}

/// A message of the agent.
#[derive(Debug)]
struct Post {
    message: AgentMessage,
    bytes: usize,
    stream: u64,
}

/// A message to the agent.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// One line together.
    pub(super) parts: Vec<Bytes>,
    pub(super) is_response: bool,
}

/// Messages that belong to one request of the agent, or to one GET.
#[derive(Debug, Default)]
struct Stream {
    /// The raw id of its request.
    request: Option<Bytes>,
    messages: VecDeque<Message>,
    /// The number of the first of these.
    first: u64,
    /// The number of the next message to read.
    next: u64,
    read_bytes: usize,
    unread_bytes: usize,
    reader: Option<Waker>,
    /// The number of the reader that may read; 0 for none.
    attached: u64,
    readers: u64,
    /// It is read as events, which can be resumed.
    has_events: bool,
    has_ended: bool,
}

/// Why a message was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostError {
    /// A request with this id is unanswered.
    IdInUse,
    /// The session is over.
    Ended,
}

/// Reads one stream. The stream is detached when its reader is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    hub: Arc<Hub>,
    stream: u64,
    number: u64,
}

/// A message that was read, and its id among the events of its session.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) stream: u64,
    pub(super) number: u64,
    pub(super) message: Message,
}

fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

impl Message {
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}

impl Stream {
    /// Bytes that are unwritten, and bytes that are kept.
    fn charged(&self) -> (usize, usize) {
        match self.attached {
            0 => (0, self.read_bytes + self.unread_bytes),
            _ => (self.unread_bytes, self.read_bytes),
        }
    }

    fn push(&mut self, message: Message) {
        self.unread_bytes += message.bytes();
        self.has_ended |= message.is_response;
        self.messages.push_back(message);
        wake(&mut self.reader);
    }

    /// The next message. It is kept if the stream can be resumed.
    fn take(&mut self, is_kept: bool) -> Option<(u64, Message)> {
        let at = usize::try_from(self.next - self.first).ok()?;
        let message = self.messages.get(at)?.clone();
        let (number, bytes) = (self.next, message.bytes());
        self.next += 1;
        self.unread_bytes -= bytes;
        if is_kept {
            self.read_bytes += bytes;
        } else {
            self.messages.pop_front();
            self.first += 1;
        }
        Some((number, message))
    }

    /// Drops the oldest message that is kept.
    fn drop_first(&mut self) -> bool {
        if self.attached != 0 && self.first == self.next {
            return false;
        }
        let Some(message) = self.messages.pop_front() else { return false };
        if self.first < self.next {
            self.read_bytes -= message.bytes();
        } else {
            self.unread_bytes -= message.bytes();
            self.next += 1;
        }
        self.first += 1;
        true
    }

    /// Continues with the message of this number. `false` if it was dropped, or is none of this stream.
    fn rewind(&mut self, next: u64) -> bool {
        if next > self.next || next < self.first {
            return false;
        }
        self.next = next;
        let at = usize::try_from(self.next - self.first).unwrap_or(usize::MAX).min(self.messages.len());
        self.read_bytes = self.messages.iter().take(at).map(Message::bytes).sum();
        self.unread_bytes = self.messages.iter().skip(at).map(Message::bytes).sum();
        true
    }

    fn attach(&mut self) -> u64 {
        self.readers += 1;
        self.attached = self.readers;
        // A former reader ends.
        wake(&mut self.reader);
        self.readers
    }
}

impl State {
    fn wake_session(&mut self) {
        wake(&mut self.session);
    }

    /// Changes a stream, and what it counts for.
    fn change<T>(&mut self, stream: u64, change: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let stream = self.streams.get_mut(&stream)?;
        let (unwritten, kept) = stream.charged();
        let changed = change(stream);
        let (now_unwritten, now_kept) = stream.charged();
        self.unwritten = self.unwritten - unwritten + now_unwritten;
        self.kept = self.kept - kept + now_kept;
        Some(changed)
    }

    fn open(&mut self, request: Option<Bytes>) -> (u64, u64) {
        let number = self.next_stream;
        self.next_stream += 1;
        let mut stream = Box::new(Stream { request, ..Stream::default() });
        let reader = stream.attach();
        self.streams.insert(number, stream);
        (number, reader)
    }

    fn remove(&mut self, number: u64) -> Option<Box<Stream>> {
        let stream = self.streams.remove(&number)?;
        let (unwritten, kept) = stream.charged();
        self.unwritten -= unwritten;
        self.kept -= kept;
        if let Some(id) = stream.request.as_ref().filter(|id| self.requests.get(*id) == Some(&number)) {
            self.requests.remove(id);
        }
        self.listening.retain(|listening| *listening != number);
        Some(stream)
    }

    /// The stream for a message that belongs to no request: the newest GET stream that is read, or else the newest request.
    fn of_session(&self) -> Option<u64> {
        let is_read = |number: &u64| self.streams.get(number).is_some_and(|stream| stream.attached != 0);
        let listening = self.listening.iter().rev().copied().find(is_read);
        let of_request = || self.requests.values().copied().filter(is_read).max();
        listening.or_else(of_request)
    }

    fn send(&mut self, stream: Option<u64>, message: Message) {
        let mut message = Some(message);
        if let Some(stream) = stream {
            self.change(stream, |stream| message.take().map(|message| stream.push(message)));
        }
        if let Some(message) = message.filter(|message| self.is_resumable && !message.is_response) {
            self.waiting.extend([message]);
            if self.waiting.len() > MAX_WAITING {
                self.waiting.pop_front();
            }
        }
        self.drop_surplus();
    }

    /// Drops the oldest kept events beyond the limit, and the streams that have nothing left.
    fn drop_surplus(&mut self) {
        while self.kept > MAX_KEPT {
            let kept = |stream: &Box<Stream>| {
                if stream.attached == 0 || stream.first < stream.next { stream.messages.len() } else { 0 }
            };
            let all: usize = self.streams.values().map(kept).sum();
            let Some(oldest) = self.streams.iter().find(|(_, stream)| kept(stream) > 0).map(|(number, _)| *number)
            else {
                return;
            };
            if all <= 1 || self.change(oldest, Stream::drop_first) != Some(true) {
                return;
            }
            let is_over = |stream: &Box<Stream>| stream.attached == 0 && stream.has_ended && stream.messages.is_empty();
            if self.streams.get(&oldest).is_some_and(is_over) {
                self.remove(oldest);
            }
        }
    }

    fn end_stream(&mut self, number: u64) {
        self.change(number, |stream| {
            stream.has_ended = true;
            wake(&mut stream.reader);
        });
    }
}

impl Hub {
    /// `is_resumable`: of the legacy era.
    pub(super) fn new(is_resumable: bool) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            is_resumable,
            posts: VecDeque::new(),
            posted: 0,
            receiving: 0,
            session: None,
            streams: BTreeMap::new(),
            next_stream: 1,
            requests: HashMap::new(),
            listening: Vec::new(),
            waiting: VecDeque::new(),
            unwritten: 0,
            kept: 0,
            taken: 0,
            last_use: Instant::now(),
            is_closed: false,
            closed: None,
            has_stopped_receiving: false,
            has_ended: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a message of the agent to the session. The stream has the response; that of a message without one ends once the session
    /// has received it.
    ///
    /// # Errors
    /// If the id is that of an unanswered request, or the session is over.
    pub(super) fn post(self: &Arc<Self>, message: AgentMessage, bytes: usize) -> Result<Reader, PostError> {
        let mut state = self.state();
        if state.has_ended || state.is_closed {
            return Err(PostError::Ended);
        }
        let id = message.answered_id().map(|id| Bytes::copy_from_slice(id));
        if id.as_ref().is_some_and(|id| state.requests.contains_key(id)) {
            return Err(PostError::IdInUse);
        }
        let (stream, number) = state.open(id.clone());
        state.requests.extend(id.map(|id| (id, stream)));
        // Most agents send one request at a time.
        if state.posts.capacity() == 0 {
            state.posts.reserve_exact(1);
        }
        state.posts.push_back(Post { message, bytes, stream });
        state.posted += bytes;
        state.last_use = Instant::now();
        state.wake_session();
        Ok(Reader { hub: Arc::clone(self), stream, number })
    }

    /// Opens a stream for messages that belong to no request. It begins with those that nobody has read. `None` if there are too many.
    pub(super) fn listen(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.state();
        let is_read =
            |state: &State, number: &u64| state.streams.get(number).is_some_and(|stream| stream.attached != 0);
        let (read, left): (Vec<u64>, Vec<u64>) = state.listening.iter().partition(|number| is_read(&state, number));
        if read.len() >= MAX_STREAMS {
            return None;
        }
        let (stream, number) = state.open(None);
        for left in left.into_iter().filter_map(|left| state.remove(left)).collect::<Vec<_>>() {
            let unread = usize::try_from(left.next - left.first).unwrap_or(usize::MAX);
            for message in left.messages.into_iter().skip(unread) {
                state.send(Some(stream), message);
            }
        }
        for message in std::mem::take(&mut state.waiting) {
            state.send(Some(stream), message);
        }
        state.listening.push(stream);
        state.change(stream, |stream| stream.has_events = true);
        Some(Reader { hub: Arc::clone(self), stream, number })
    }

    /// Continues a stream with the event of this number. `None` if the event is not known, or not any more.
    pub(super) fn resume(self: &Arc<Self>, stream: u64, next: u64) -> Option<Reader> {
        let mut state = self.state();
        let number =
            state.change(stream, |stream| (stream.has_events && stream.rewind(next)).then(|| stream.attach()))??;
        state.last_use = Instant::now();
        Some(Reader { hub: Arc::clone(self), stream, number })
    }

    /// The agent sends nothing any more, and reads nothing.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        wake(&mut state.closed);
        state.wake_session();
    }

    /// Whether a message waits for the session.
    pub(super) fn has_posts(&self) -> bool {
        !self.state().posts.is_empty()
    }

    /// Whether the session is over, or is about to be.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.has_ended || state.is_closed
    }

    /// Counts the body that its connection receives. Returns all bytes that are counted for the connection.
    pub(super) fn receiving(&self, bytes: usize) -> usize {
        let mut state = self.state();
        state.receiving = bytes;
        state.unwritten + state.posted + state.receiving
    }

    // The session's end.

    pub(super) fn poll_post(&self, cx: &mut Context<'_>) -> Poll<Option<AgentMessage>> {
        match self.next_post() {
            Some(message) => Poll::Ready(Some(message)),
            None => {
                let mut state = self.state();
                if state.is_closed || state.has_stopped_receiving {
                    return Poll::Ready(None);
                }
                state.session = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn next_post(&self) -> Option<AgentMessage> {
        let mut state = self.state();
        let Post { message, bytes, stream } = state.posts.pop_front()?;
        state.posted -= bytes;
        if message.answered_id().is_none() {
            state.end_stream(stream);
        }
        if let Some(cancelled) = message.cancelled_id().and_then(|id| state.requests.remove(id)) {
            state.end_stream(cancelled);
        }
        Some(message)
    }

    pub(super) fn stop_receiving(&self) {
        self.state().has_stopped_receiving = true;
    }

    pub(super) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_closed {
            return Poll::Ready(());
        }
        state.closed = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn send(&self, to: Address<'_>, parts: Vec<Bytes>) {
        let mut state = self.state();
        let (stream, is_response) = match to {
            Address::Response(id) => match state.requests.remove(id) {
                Some(stream) => (Some(stream), true),
                // Its connection is gone.
                None => return,
            },
            Address::DuringCall(id) => match state.requests.get(id) {
                Some(stream) => (Some(*stream), false),
                None => return,
            },
            Address::Session => (state.of_session(), false),
        };
        state.send(stream, Message { parts, is_response });
    }

    pub(super) fn unwritten(&self) -> usize {
        self.state().unwritten
    }

    pub(super) fn unreturned(&self) -> usize {
        let state = self.state();
        state.posted + state.receiving + state.kept
    }

    /// Ready once more messages were read than `seen`, which it updates.
    pub(super) fn poll_written(&self, seen: &mut u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.taken != std::mem::replace(seen, state.taken) || state.unwritten == 0 {
            return Poll::Ready(());
        }
        state.session = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn drop_unwritten(&self) {
        let mut state = self.state();
        state.waiting.clear();
        for stream in state.streams.keys().copied().collect::<Vec<_>>() {
            state.change(stream, |stream| {
                let read = usize::try_from(stream.next - stream.first).unwrap_or(usize::MAX);
                stream.messages.truncate(read);
                stream.unread_bytes = 0;
            });
        }
    }

    /// The time since the agent last used the session. `None` while it reads a stream.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        state.streams.values().all(|stream| stream.attached == 0).then_some(state.last_use)
    }

    /// The session is over. What was sent can still be read.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.posts.clear();
        state.posted = 0;
        for stream in state.streams.keys().copied().collect::<Vec<_>>() {
            state.end_stream(stream);
        }
    }
}

impl Reader {
    /// The next message; `None` at the end of the stream.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.hub.state();
        let (is_resumable, number) = (state.is_resumable, self.number);
        let polled = state.change(self.stream, |stream| {
            if stream.attached != number {
                return Poll::Ready(None);
            }
            if let Some(taken) = stream.take(is_resumable && stream.has_events) {
                return Poll::Ready(Some(taken));
            }
            if stream.has_ended {
                return Poll::Ready(None);
            }
            stream.reader = Some(cx.waker().clone());
            Poll::Pending
        });
        match polled {
            Some(Poll::Ready(Some((number, message)))) => {
                state.taken += 1;
                state.wake_session();
                state.drop_surplus();
                Poll::Ready(Some(Event { stream: self.stream, number, message }))
            }
            Some(Poll::Pending) => Poll::Pending,
            None | Some(Poll::Ready(None)) => Poll::Ready(None),
        }
    }

    /// From now on the stream is read as events. Returns whether it can be resumed.
    pub(super) fn begin_events(&self) -> bool {
        let mut state = self.hub.state();
        state.change(self.stream, |stream| stream.has_events = true);
        state.is_resumable
    }

    /// Whether its session has ended before it has answered.
    pub(super) fn has_lost_session(&self) -> bool {
        let state = self.hub.state();
        state.has_ended && self.is_unanswered(&state)
    }

    fn is_unanswered(&self, state: &State) -> bool {
        state.streams.get(&self.stream).is_some_and(|stream| {
            stream.request.as_ref().is_some_and(|id| state.requests.get(id) == Some(&self.stream))
        })
    }

    /// Whether it is the stream of a request.
    pub(super) fn is_of_request(&self) -> bool {
        self.hub.state().streams.get(&self.stream).is_some_and(|stream| stream.request.is_some())
    }

    /// Its number, for the ids of events.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.last_use = Instant::now();
        let number = self.number;
        let is_kept = state.change(self.stream, |stream| {
            if stream.attached != number {
                // Another reader continues it.
                return true;
            }
            stream.attached = 0;
            stream.has_events && (!stream.has_ended || !stream.messages.is_empty())
        });
        if is_kept == Some(false) || !state.is_resumable {
            state.remove(self.stream);
        }
        state.drop_surplus();
        // The session may wait for these bytes to be read.
        state.taken += 1;
        state.wake_session();
    }
}
