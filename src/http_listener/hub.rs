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

use super::stream::{Message, Stream, wake};
use crate::account::MAX_STREAMS;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::session::{Address, AgentMessage};

/// Bytes that are kept so that streams can be resumed. The newest event is kept, however large it is.
pub(super) const MAX_KEPT: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Hub(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Streams can be resumed, and the session outlives its connections.
    is_resumable: bool,
    posts: VecDeque<Post>,
    /// The bytes of `posts`.
    posted: usize,
    session: Option<Waker>,
    /// Boxed, because a map has space for several.
    streams: BTreeMap<u64, Box<Stream>>,
    next_stream: u64,
    /// The streams of unanswered requests, by raw id. The agent may have left a stream before its response.
    requests: HashMap<Bytes, u64>,
    /// The GET streams, the newest last.
    listening: Vec<u64>,
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
    /// As received; empty if mcpd has made it.
    line: Bytes,
    stream: u64,
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

impl State {
    fn wake_session(&mut self) {
        wake(&mut self.session);
    }

    /// Changes a stream, and updates the totals that include it.
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
        let mut stream = Box::new(Stream::new(request));
        let reader = stream.attach();
        self.streams.insert(number, stream);
        (number, reader)
    }

    fn remove(&mut self, number: u64) -> Option<Box<Stream>> {
        let stream = self.streams.remove(&number)?;
        let (unwritten, kept) = stream.charged();
        self.unwritten -= unwritten;
        self.kept -= kept;
        self.listening.retain(|listening| *listening != number);
        Some(stream)
    }

    /// The stream for a message that belongs to no request: the newest GET stream that is read, or else that of the newest request. While
    /// no stream is read, a GET stream without a reader: the client resumes it, or the next GET continues it.
    fn of_session(&mut self) -> Option<u64> {
        let is_read = |number: &u64| self.streams.get(number).is_some_and(|stream| stream.is_read());
        let listening = self.listening.iter().rev().copied().find(is_read);
        let read = listening.or_else(|| self.requests.values().copied().filter(is_read).max());
        read.or_else(|| self.is_resumable.then(|| self.unread()))
    }

    fn unread(&mut self) -> u64 {
        self.listening.last().copied().unwrap_or_else(|| {
            let (number, reader) = self.open(None);
            self.listen_at(number);
            self.change(number, |stream| stream.detach(reader));
            number
        })
    }

    fn listen_at(&mut self, number: u64) {
        self.change(number, |stream| stream.begin_events(None));
        self.listening.push(number);
    }

    /// Drops the oldest kept messages beyond the limit, and the streams that have nothing left.
    fn drop_surplus(&mut self) {
        while self.kept > MAX_KEPT {
            let all: usize = self.streams.values().map(|stream| stream.surplus()).sum();
            let oldest = self.streams.iter().find(|(_, stream)| stream.surplus() > 0).map(|(number, _)| *number);
            let Some(oldest) = oldest.filter(|_| all > 1) else { return };
            self.change(oldest, Stream::drop_first);
            if self.streams.get(&oldest).is_some_and(|stream| stream.is_spent()) {
                self.remove(oldest);
            }
        }
    }

    /// Cancels a request that the agent has left, if it is unanswered. Only a modern agent cancels by leaving.
    fn cancel(&mut self, id: &Bytes, stream: u64) {
        if self.requests.get(id) == Some(&stream) && !self.has_ended {
            self.posts.push_back(Post { message: AgentMessage::cancellation(id), line: Bytes::new(), stream });
            self.wake_session();
        }
    }

    fn next_post(&mut self) -> Option<(AgentMessage, Bytes)> {
        let Post { message, line, stream } = self.posts.pop_front()?;
        self.posted -= line.len();
        self.change(stream, Stream::set_received);
        if message.answered_id().is_none() {
            self.change(stream, Stream::end);
        }
        if let Some(cancelled) = message.cancelled_id().and_then(|id| self.requests.remove(id)) {
            self.change(cancelled, Stream::end);
        }
        Some((message, line))
    }
}

impl Hub {
    /// `is_resumable`: of the legacy era.
    pub(super) fn new(is_resumable: bool) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            is_resumable,
            posts: VecDeque::new(),
            posted: 0,
            session: None,
            streams: BTreeMap::new(),
            next_stream: 1,
            requests: HashMap::new(),
            listening: Vec::new(),
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

    /// Passes a message of the agent with its line to the session. The stream has the response. Without a response, the stream ends once the session
    /// has received it.
    ///
    /// # Errors
    /// If the id is that of an unanswered request, or the session is over.
    pub(super) fn post(self: &Arc<Self>, message: AgentMessage, line: Bytes) -> Result<Reader, PostError> {
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
        state.posted += line.len();
        state.posts.push_back(Post { message, line, stream });
        state.last_use = Instant::now();
        state.wake_session();
        Ok(Reader { hub: Arc::clone(self), stream, number })
    }

    /// Opens a stream for messages that belong to no request. It begins with those that nobody has read. `None` if there are too many.
    pub(super) fn listen(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.state();
        let is_read = |number: &u64| state.streams.get(number).is_some_and(|stream| stream.is_read());
        let (read, left): (Vec<u64>, Vec<u64>) = state.listening.iter().partition(|number| is_read(number));
        if read.len() >= MAX_STREAMS {
            return None;
        }
        let (stream, number) = state.open(None);
        let left: Vec<_> = left.into_iter().filter_map(|left| state.remove(left)).collect();
        for message in left.into_iter().flat_map(|left| left.into_unread()) {
            state.change(stream, |stream| stream.push(message));
        }
        state.drop_surplus();
        state.listen_at(stream);
        Some(Reader { hub: Arc::clone(self), stream, number })
    }

    /// Continues a stream with the event of this number. `None` if the event is not known, or not any more.
    pub(super) fn resume(self: &Arc<Self>, stream: u64, next: u64) -> Option<Reader> {
        let mut state = self.state();
        let number = state.change(stream, |stream| stream.rewind(next).then(|| stream.attach()))??;
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

    /// Whether a message belongs here: a request if its id is free, a cancellation if it names an unanswered request.
    pub(super) fn accepts(&self, message: &AgentMessage) -> bool {
        let state = self.state();
        let is_unanswered = |id: &Bytes| state.requests.contains_key(id);
        let is_free = message.answered_id().is_none_or(|id| !is_unanswered(id));
        let is_about = message.cancelled_id().is_none_or(is_unanswered);
        !state.has_ended && !state.is_closed && is_free && is_about
    }

    /// Whether the session is over, or is about to be.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.has_ended || state.is_closed
    }

    // The session's end.

    pub(super) fn poll_post(&self, cx: &mut Context<'_>) -> Poll<Option<(AgentMessage, Bytes)>> {
        let mut state = self.state();
        let message = state.next_post();
        if message.is_some() || state.is_closed || state.has_stopped_receiving {
            return Poll::Ready(message);
        }
        state.session = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn next_post(&self) -> Option<(AgentMessage, Bytes)> {
        self.state().next_post()
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

    /// Returns whether the message has a stream.
    pub(super) fn send(&self, to: Address<'_>, parts: Vec<Bytes>) -> bool {
        let mut state = self.state();
        let (stream, is_response) = match to {
            Address::Response(id) => (state.requests.remove(id), true),
            Address::DuringCall(id) => (state.requests.get(id).copied(), false),
            Address::Session => (state.of_session(), false),
        };
        let message = Message { parts, is_response };
        // The stream of a request has gone if its reader has.
        if let Some(stream) = stream {
            let is_sent = state.change(stream, |stream| stream.push(message)).is_some();
            state.drop_surplus();
            return is_sent;
        }
        false
    }

    pub(super) fn unwritten(&self) -> usize {
        self.state().unwritten
    }

    pub(super) fn unreturned(&self) -> usize {
        let state = self.state();
        state.posted + state.kept
    }

    /// Ready once more messages than `seen` were read. Updates `seen`.
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
        for stream in state.streams.keys().copied().collect::<Vec<_>>() {
            state.change(stream, Stream::drop_unread);
        }
    }

    /// The time since the agent last used the session. `None` while it reads a stream.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (!state.streams.values().any(|stream| stream.is_read())).then_some(state.last_use)
    }

    /// The session is over. What was sent can still be read.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.posts.clear();
        state.posted = 0;
        for stream in state.streams.keys().copied().collect::<Vec<_>>() {
            state.change(stream, Stream::end);
        }
    }
}

impl Reader {
    /// The next message; `None` at the end of the stream.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.hub.state();
        let (is_resumable, number) = (state.is_resumable, self.number);
        let polled = state.change(self.stream, |stream| stream.poll_next(number, is_resumable, cx));
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

    /// From now on the stream is read as events, of which `first` was read already. Returns whether it can be resumed.
    pub(super) fn begin_events(&self, first: Option<&Event>) -> bool {
        let mut state = self.hub.state();
        let is_resumable = state.is_resumable;
        let kept = first.filter(|_| is_resumable).map(|first| (first.number, &first.message));
        state.change(self.stream, |stream| stream.begin_events(kept));
        state.drop_surplus();
        is_resumable
    }

    /// Whether its session is of the legacy era.
    pub(super) fn is_legacy(&self) -> bool {
        self.hub.state().is_resumable
    }

    /// The raw id of its request, if the session has ended without a response to it, and whether the session may have received it.
    pub(super) fn lost_request(&self) -> Option<(Bytes, Delivery)> {
        let state = self.hub.state();
        let stream = state.streams.get(&self.stream).filter(|_| state.has_ended)?;
        let id = stream.request().filter(|id| state.requests.get(*id) == Some(&self.stream))?;
        let delivery = if stream.is_received() { Delivery::Unknown } else { Delivery::NotSent };
        Some((id.clone(), delivery))
    }

    /// Whether it is the stream of a request.
    pub(super) fn is_of_request(&self) -> bool {
        self.hub.state().streams.get(&self.stream).is_some_and(|stream| stream.request().is_some())
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
        let is_kept = state.change(self.stream, |stream| stream.detach(number));
        if is_kept == Some(false) || !state.is_resumable {
            let request = state.remove(self.stream).and_then(|stream| stream.request().cloned());
            if let Some(id) = request.filter(|_| !state.is_resumable) {
                state.cancel(&id, self.stream);
            }
        }
        state.drop_surplus();
        // The session may wait for these bytes to be read.
        state.taken += 1;
        state.wake_session();
    }
}
