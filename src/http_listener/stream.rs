//! One stream: the messages that belong to one request of the agent, or to one GET.
//!
//! It ends with its response. What was read of a resumable stream is kept, so that another reader can continue at any kept event.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// A message to the agent.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// One line together.
    pub(super) parts: Vec<Bytes>,
    pub(super) is_response: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The raw id of its request.
    request: Option<Bytes>,
    messages: VecDeque<Message>,
    /// The number of the first of these.
    first: u64,
    /// The number of the next message to read.
    next: u64,
    read_bytes: usize,
    unread_bytes: usize,
    waker: Option<Waker>,
    /// The number of the reader that may read; 0 for none.
    attached: u64,
    readers: u64,
    /// It is read as events, which can be resumed.
    has_events: bool,
    /// The session has received its request.
    is_received: bool,
    has_ended: bool,
}

impl Message {
    fn bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }
}

pub(super) fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

impl Stream {
    /// The stream of a request with this raw id, or of a GET.
    pub(super) fn new(request: Option<Bytes>) -> Self {
        Self { request, ..Self::default() }
    }

    pub(super) fn request(&self) -> Option<&Bytes> {
        self.request.as_ref()
    }

    /// Bytes that are unwritten, and bytes that are kept.
    pub(super) fn charged(&self) -> (usize, usize) {
        if self.is_read() { (self.unread_bytes, self.read_bytes) } else { (0, self.read_bytes + self.unread_bytes) }
    }

    /// Whether it has a reader.
    pub(super) fn is_read(&self) -> bool {
        self.attached != 0
    }

    /// Whether nobody reads it, and nothing is left to read.
    pub(super) fn is_spent(&self) -> bool {
        !self.is_read() && self.has_ended && self.messages.is_empty()
    }

    /// From now on it is read as events. `first` was read before, and is kept.
    pub(super) fn begin_events(&mut self, first: Option<(u64, &Message)>) {
        self.has_events = true;
        if let Some((number, message)) = first.filter(|(number, _)| number + 1 == self.first) {
            self.first = number;
            self.read_bytes += message.bytes();
            self.messages.push_front(message.clone());
        }
    }

    pub(super) fn is_received(&self) -> bool {
        self.is_received
    }

    pub(super) fn set_received(&mut self) {
        self.is_received = true;
    }

    pub(super) fn push(&mut self, message: Message) {
        self.unread_bytes += message.bytes();
        self.has_ended |= message.is_response;
        self.messages.push_back(message);
        wake(&mut self.waker);
    }

    /// No message follows.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
        wake(&mut self.waker);
    }

    /// Attaches a reader, and returns its number. A former reader ends.
    pub(super) fn attach(&mut self) -> u64 {
        self.readers += 1;
        self.attached = self.readers;
        wake(&mut self.waker);
        self.readers
    }

    /// Detaches this reader. Returns whether the stream can still be resumed, or another reader continues it.
    pub(super) fn detach(&mut self, reader: u64) -> bool {
        if self.attached != reader {
            return true;
        }
        self.attached = 0;
        self.has_events && !self.is_spent()
    }

    /// The next message for this reader, and its number; `None` at the end. If `is_kept`, an event that was read is kept.
    pub(super) fn poll_next(
        &mut self,
        reader: u64,
        is_kept: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(u64, Message)>> {
        if self.attached != reader {
            return Poll::Ready(None);
        }
        let taken = self.take(is_kept && self.has_events);
        if taken.is_some() || self.has_ended {
            return Poll::Ready(taken);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn take(&mut self, is_kept: bool) -> Option<(u64, Message)> {
        let message = self.messages.get(self.read())?.clone();
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

    /// How many messages were read and are kept.
    fn read(&self) -> usize {
        usize::try_from(self.next - self.first).unwrap_or(usize::MAX)
    }

    /// How many messages may be dropped: all that were read, and the others if nobody reads them.
    pub(super) fn surplus(&self) -> usize {
        if self.is_read() { self.read() } else { self.messages.len() }
    }

    /// Drops the oldest message of [`Stream::surplus`].
    pub(super) fn drop_first(&mut self) {
        if self.surplus() == 0 {
            return;
        }
        let Some(message) = self.messages.pop_front() else { return };
        if self.first < self.next {
            self.read_bytes -= message.bytes();
        } else {
            self.unread_bytes -= message.bytes();
            self.next += 1;
        }
        self.first += 1;
    }

    pub(super) fn drop_unread(&mut self) {
        self.messages.truncate(self.read());
        self.unread_bytes = 0;
    }

    pub(super) fn into_unread(self) -> impl Iterator<Item = Message> {
        let read = self.read();
        self.messages.into_iter().skip(read)
    }

    /// Continues with the message of this number. `false` if it was dropped, or is none of this stream.
    pub(super) fn rewind(&mut self, next: u64) -> bool {
        if !self.has_events || next > self.next || next < self.first {
            return false;
        }
        self.next = next;
        let read = self.read();
        self.read_bytes = self.messages.iter().take(read).map(Message::bytes).sum();
        self.unread_bytes = self.messages.iter().skip(read).map(Message::bytes).sum();
        true
    }
}
