//! Parses a `text/event-stream` into events. Pure.
//!
//! Source: WHATWG HTML, 9.2.6, "Interpreting an event stream". It buffers at most one message cap of an incomplete
//! field, so a stream without line or event ends does not exhaust memory.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::message_limit::has_memory;
use crate::net::body::detached;

/// Longest id that is kept, in bytes: it is sent back in a header. A longer one is ignored.
const MAX_ID: usize = 1 << 10;
/// Shortest delay before a reconnect, whatever the server requests: one that ends each stream at once would otherwise
/// keep mcpd busy.
const MIN_RETRY: Duration = Duration::from_millis(50);
/// Longest delay that a server may request.
const MAX_RETRY: Duration = Duration::from_secs(300);

/// An event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SseEvent {
    /// Its `data`, with lines joined by newlines, and its `event`, which is empty for `message`.
    Data { name: Bytes, data: Bytes },
    /// An event whose `data` exceeds the cap.
    TooLarge,
}

/// Parses one stream.
#[derive(Debug)]
pub(super) struct SseParser {
    /// Maximum size of an event, in bytes.
    max: usize,
    /// An incomplete line.
    line: BytesMut,
    /// The incomplete event.
    open: Open,
    /// The last byte was a carriage return. A newline may follow.
    after_return: bool,
    /// Nothing has been read yet. A byte order mark may follow.
    at_start: bool,
    /// The incomplete line exceeds the cap.
    is_skipping: bool,
    id: Option<Bytes>,
    retry: Option<Duration>,
    read: VecDeque<SseEvent>,
}

#[derive(Debug, Default)]
struct Open {
    name: Bytes,
    data: Option<Data>,
    id: Option<Bytes>,
    is_too_large: bool,
}

#[derive(Debug)]
enum Data {
    /// A slice of the read buffer, not copied.
    One(Bytes),
    Several(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::One(line) => line.len(),
            Self::Several(lines) => lines.len(),
        }
    }
}

impl SseParser {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            line: BytesMut::new(),
            open: Open::default(),
            after_return: false,
            at_start: true,
            is_skipping: false,
            id: None,
            retry: None,
            read: VecDeque::new(),
        }
    }

    /// A parser for a stream that continues after the event with this id.
    pub(super) fn resumed(max: usize, last: &[u8]) -> Self {
        Self { id: Some(Bytes::copy_from_slice(last)), ..Self::new(max) }
    }

    /// The next event of the data read.
    pub(super) fn pop(&mut self) -> Option<SseEvent> {
        self.read.pop_front()
    }

    /// Buffered bytes of the incomplete event.
    pub(super) fn buffered(&self) -> usize {
        self.line.len() + self.open.data.as_ref().map_or(0, Data::len)
    }

    /// The id of the last event that had one. An empty id resets it.
    pub(super) fn last_id(&self) -> Option<&Bytes> {
        self.id.as_ref().filter(|id| !id.is_empty())
    }

    /// The reconnect delay that the stream requested.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Parses the next chunk.
    pub(super) fn read(&mut self, mut chunk: Bytes) {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_return) && chunk[0] == b'\n' {
                chunk.advance(1);
                continue;
            }
            match memchr::memchr2(b'\n', b'\r', &chunk) {
                Some(end) => {
                    let part = chunk.split_to(end);
                    self.after_return = chunk[0] == b'\r';
                    chunk.advance(1);
                    self.end_line(part);
                }
                None => {
                    self.keep(&chunk);
                    return;
                }
            }
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.is_skipping || self.line.len() + part.len() > self.max || !has_memory(&self.line, part.len()) {
            self.is_skipping = true;
            self.line = BytesMut::new();
            self.too_large();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, part: Bytes) {
        // A line is over the cap whether or not it comes in one chunk.
        let line = if self.line.is_empty() && !self.is_skipping && part.len() <= self.max {
            part
        } else {
            self.keep(&part);
            // Takes the buffer itself: `split` would keep its spare capacity in memory.
            std::mem::take(&mut self.line).freeze()
        };
        if std::mem::take(&mut self.is_skipping) {
            self.at_start = false;
            return;
        }
        let is_first = std::mem::take(&mut self.at_start);
        let mark = is_first && line.starts_with(b"\xef\xbb\xbf");
        self.take(if mark { line.slice(3..) } else { line });
    }

    fn take(&mut self, line: Bytes) {
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = memchr::memchr(b':', &line);
        let value = colon.map_or(line.len()..line.len(), |colon| {
            colon + 1 + usize::from(line.get(colon + 1) == Some(&b' '))..line.len()
        });
        match &line[..colon.unwrap_or(line.len())] {
            b"data" => self.add(line.slice(value)),
            b"event" => self.open.name = detached(line.slice(value)),
            b"id" if value.len() <= MAX_ID && !line[value.clone()].contains(&0) => {
                self.open.id = Some(Bytes::copy_from_slice(&line[value]));
            }
            b"retry" => self.retry = milliseconds(&line[value]).or(self.retry),
            _ => {}
        }
    }

    fn add(&mut self, part: Bytes) {
        if self.open.is_too_large {
            return;
        }
        let (before, has_memory) = match &self.open.data {
            Some(Data::Several(lines)) => (lines.len(), has_memory(lines, 1 + part.len())),
            Some(Data::One(line)) => (line.len(), has_memory(&BytesMut::new(), line.len() + 1 + part.len())),
            None => (0, true),
        };
        if !has_memory || before + 1 + part.len() > self.max {
            return self.too_large();
        }
        self.open.data = Some(match self.open.data.take() {
            None => Data::One(part),
            Some(before) => {
                let mut lines = match before {
                    Data::One(line) => BytesMut::from(&line[..]),
                    Data::Several(lines) => lines,
                };
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&part);
                Data::Several(lines)
            }
        });
    }

    /// Reported at once, since such an event may never end.
    fn too_large(&mut self) {
        self.open.data = None;
        if !std::mem::replace(&mut self.open.is_too_large, true) {
            self.read.push_back(SseEvent::TooLarge);
        }
    }

    fn dispatch(&mut self) {
        let Open { name, data, id, is_too_large } = std::mem::take(&mut self.open);
        self.id = id.or(self.id.take());
        let data = match data {
            Some(Data::One(line)) => detached(line),
            Some(Data::Several(lines)) => lines.freeze(),
            None => return,
        };
        if !is_too_large {
            self.read.push_back(SseEvent::Data { name, data });
        }
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(|value| Duration::from_millis(value).clamp(MIN_RETRY, MAX_RETRY))
}

#[cfg(test)]
mod tests;
