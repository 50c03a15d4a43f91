//! Bodies of responses: one message, or an event stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{self, Sleep, sleep};

use super::hub::{Event, Reader};
use super::stream::Message;

/// An event stream without a message gets a comment so often, because clients commonly close a silent stream after 5 minutes.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(60);
const COMMENT: &[u8] = b":\n\n";
/// Events up to this size are copied into one buffer, in bytes.
const COPIED: usize = 16 << 10;

/// The body of a response.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Whole(VecDeque<Bytes>),
    Events(Box<EventStream>),
}

/// The messages of one stream as events.
#[derive(Debug)]
pub(super) struct EventStream {
    reader: Reader,
    /// Events have ids.
    has_ids: bool,
    encoded: VecDeque<Bytes>,
    keep_alive: Pin<Box<Sleep>>,
}

impl ResponseBody {
    pub(super) fn empty() -> Self {
        Self::Whole(VecDeque::new())
    }

    pub(super) fn whole(parts: impl IntoIterator<Item = Bytes>) -> Self {
        Self::Whole(parts.into_iter().collect())
    }
}

impl EventStream {
    /// The stream of `reader`. `first` was read already. With `is_primed`, an event without data precedes it, from which a client can
    /// resume the stream.
    pub(super) fn new(reader: Reader, first: Option<Event>, is_primed: bool) -> Box<Self> {
        let has_ids = reader.begin_events(first.as_ref());
        let mut stream = Self { has_ids, encoded: VecDeque::new(), keep_alive: Box::pin(sleep(KEEP_ALIVE)), reader };
        if is_primed && has_ids {
            let before = first.as_ref().map_or(0, |event| event.number);
            let id = EventId { stream: stream.reader.stream(), next: before };
            stream.encoded.push_back(format!("id: {id}\ndata:\n\n").into());
        }
        if let Some(event) = first {
            stream.encode(event);
        }
        Box::new(stream)
    }

    fn encode(&mut self, Event { stream, number, message }: Event) {
        let id = self.has_ids.then(|| format!("id: {}\n", EventId { stream, next: number + 1 }));
        let head = [id.as_deref().unwrap_or_default(), "data: "].concat();
        let Message { parts, .. } = message;
        let is_large = parts.iter().any(|part| part.len() > COPIED);
        let parts = parts.into_iter().map(on_one_line);
        if is_large {
            self.encoded.extend([head.into()].into_iter().chain(parts).chain([Bytes::from_static(b"\n")]));
            return;
        }
        let mut event = BytesMut::from(head.as_bytes());
        parts.for_each(|part| event.extend_from_slice(&part));
        event.extend_from_slice(b"\n");
        self.encoded.push_back(event.freeze());
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(encoded) = self.encoded.pop_front() {
                return Poll::Ready(Some(encoded));
            }
            match self.reader.poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    self.keep_alive.as_mut().reset(time::Instant::now() + KEEP_ALIVE);
                    self.encode(event);
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    std::task::ready!(self.keep_alive.as_mut().poll(cx));
                    self.keep_alive.as_mut().reset(time::Instant::now() + KEEP_ALIVE);
                    self.encoded.push_back(Bytes::from_static(COMMENT));
                }
            }
        }
    }
}

/// A carriage return would end a line of an event. In JSON it is white space.
fn on_one_line(part: Bytes) -> Bytes {
    if memchr::memchr(b'\r', &part).is_none() {
        return part;
    }
    let mut line = BytesMut::from(&part[..]);
    line.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b' ');
    line.freeze()
}

/// The id of an event: its stream, and the number of the event after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) next: u64,
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.stream, self.next)
    }
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, next) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, next: next.parse().ok()? })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match self.get_mut() {
            Self::Whole(parts) => Poll::Ready(parts.pop_front()),
            Self::Events(stream) => stream.poll_frame(cx),
        };
        data.map(|data| data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(parts) if parts.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
