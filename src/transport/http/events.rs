//! Events of a `text/event-stream`, from its bytes. Pure.
//!
//! Source: WHATWG HTML, 9.2.6, "Interpreting an event stream". Of a field that is split over chunks no more is kept than one
//! message may have, so a stream without an end of line, or of event, fills no memory.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::net::body::by_itself;

/// Longest id that is kept, in bytes: it goes back in a header. A longer one is none.
const MAX_ID: usize = 1 << 10;
/// Shortest wait before a server is connected to again, whatever it asks for: one that ends each stream at once would otherwise be
/// all that mcpd has to do.
const MIN_RETRY: Duration = Duration::from_millis(50);
/// Longest wait that it may ask for.
const MAX_RETRY: Duration = Duration::from_secs(300);

/// What a stream says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Its `data`, lines joined by newlines, and its `event`, which is empty for `message`.
    Data { name: Bytes, data: Bytes },
    /// One whose `data` is over the cap.
    TooLarge,
}

/// Reads one stream.
#[derive(Debug)]
pub(super) struct Events {
    /// Most bytes of one event.
    max: usize,
    /// A line that has not ended.
    line: BytesMut,
    /// What has been said of the event that has not ended.
    open: Open,
    /// The last byte was a carriage return, whose newline may follow.
    after_return: bool,
    /// Nothing has been read, so that a byte order mark may follow.
    at_start: bool,
    /// The line that has not ended is over the cap.
    is_skipping: bool,
    id: Option<Bytes>,
    retry: Option<Duration>,
    read: VecDeque<Event>,
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
    /// Part of what was read, which is not copied.
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

impl Events {
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

    /// The same for a stream that goes on behind the event of this id.
    pub(super) fn going_on(max: usize, last: &[u8]) -> Self {
        Self { id: Some(Bytes::copy_from_slice(last)), ..Self::new(max) }
    }

    /// The next event of what was read.
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.read.pop_front()
    }

    /// Bytes of what has not ended.
    pub(super) fn held(&self) -> usize {
        self.line.len() + self.open.data.as_ref().map_or(0, Data::len)
    }

    /// That of the last event that had one. An empty one takes it back.
    pub(super) fn last_id(&self) -> Option<&Bytes> {
        self.id.as_ref().filter(|id| !id.is_empty())
    }

    /// How long it wants to be left alone before it is connected to again.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes in a piece of the stream.
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
        if self.is_skipping || self.line.len() + part.len() > self.max {
            self.is_skipping = true;
            self.line = BytesMut::new();
            self.too_large();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, part: Bytes) {
        // One over the cap is that whether or not it comes at once.
        let line = if self.line.is_empty() && !self.is_skipping && part.len() <= self.max {
            part
        } else {
            self.keep(&part);
            // As a whole: what is left of its room would keep all of it in memory until the next one.
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
            b"event" => self.open.name = by_itself(line.slice(value)),
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
        if self.open.data.as_ref().map_or(0, Data::len) + 1 + part.len() > self.max {
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

    /// Tells it at once: the end of such an event may never come.
    fn too_large(&mut self) {
        self.open.data = None;
        if !std::mem::replace(&mut self.open.is_too_large, true) {
            self.read.push_back(Event::TooLarge);
        }
    }

    fn dispatch(&mut self) {
        let Open { name, data, id, is_too_large } = std::mem::take(&mut self.open);
        self.id = id.or(self.id.take());
        let data = match data {
            Some(Data::One(line)) => by_itself(line),
            Some(Data::Several(lines)) => lines.freeze(),
            None => return,
        };
        if !is_too_large {
            self.read.push_back(Event::Data { name, data });
        }
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(|value| Duration::from_millis(value).clamp(MIN_RETRY, MAX_RETRY))
}

#[cfg(test)]
mod tests;
