//! Events of a `text/event-stream`, from its bytes. Pure.
//!
//! Source: WHATWG HTML, 9.2.6, "Interpreting an event stream". Of a field that is split over chunks no more is kept than one
//! message may have, so a stream without an end of line, or of event, fills no memory.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

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
        let line = if self.line.is_empty() && !self.is_skipping {
            part
        } else {
            self.keep(&part);
            self.line.split().freeze()
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
            b"event" => self.open.name = line.slice(value),
            b"id" if value.len() <= MAX_ID && !line[value.clone()].contains(&0) => {
                self.open.id = Some(Bytes::copy_from_slice(&line[value]));
            }
            b"retry" => self.retry = milliseconds(&line[value]).or(self.retry),
            _ => {}
        }
    }

    fn add(&mut self, part: Bytes) {
        let length = |data: &Data| match data {
            Data::One(line) => line.len(),
            Data::Several(lines) => lines.len(),
        };
        if self.open.is_too_large {
            return;
        }
        if self.open.data.as_ref().map_or(0, length) + 1 + part.len() > self.max {
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
            Some(Data::One(line)) => line,
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 64;

    /// What is read of `stream` that comes in pieces of `size` bytes.
    fn read(stream: &[u8], size: usize) -> (Vec<String>, Events) {
        let mut events = Events::new(MAX);
        stream.chunks(size).for_each(|chunk| events.read(Bytes::copy_from_slice(chunk)));
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let told = std::iter::from_fn(|| events.pop()).map(|event| match event {
            Event::Data { name, data } => format!("{}:{}", text(&name), text(&data)),
            Event::TooLarge => "too large".to_owned(),
        });
        (told.collect(), events)
    }

    fn check(stream: &str, expected: &[&str]) {
        for size in [1, 2, 3, 7, usize::MAX] {
            assert_eq!(read(stream.as_bytes(), size.min(stream.len())).0, expected, "{stream:?} in pieces of {size}");
        }
    }

    #[test]
    fn events_are_read_however_lines_end_and_wherever_they_are_cut() {
        check("data: a\n\ndata:b\r\n\r\ndata:  c\r\r", &[":a", ":b", ": c"]);
        check("event: endpoint\ndata: /x\n\nevent: message\ndata: {}\n\n", &["endpoint:/x", "message:{}"]);
        check("data: {\ndata:   \"a\": 1\ndata: }\n\n", &[":{\n  \"a\": 1\n}"]);
        check(": a comment\n\ndata\n\nid: 7\n\n", &[":"]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[":a"]);
        check("data: without an end\n", &[]);
        check("database: x\ndata : y\ndata: z\n\n", &[":z"]);
    }

    #[test]
    fn an_event_over_the_cap_is_told_once_and_the_next_is_read() {
        let long = "x".repeat(MAX + 1);
        check(&format!("data: {long}\n\ndata: a\n\n"), &["too large", ":a"]);
        check(&format!("data: {}\ndata: {}\ndata: b\n\ndata: a\n\n", &long[..40], &long[..40]), &["too large", ":a"]);
        check(&format!("data: {long}{long}{long}\ndata: {long}\n\ndata: a\n\n"), &["too large", ":a"]);
        check(&format!("data: {}\n\n", &long[..MAX - 8]), &[&format!(":{}", &long[..MAX - 8])]);
    }

    #[test]
    fn the_place_to_go_on_from_is_that_of_the_last_whole_event() {
        for (stream, id, retry) in [
            ("id: 1\ndata: a\n\nid: 2\ndata: b\n", Some("1"), None),
            ("id: 1\nretry: 500\n\ndata: a\n\n", Some("1"), Some(500)),
            ("id: 1\n\nid\ndata: a\n\n", None, None),
            ("retry: 0\n\n", None, Some(50)),
            ("id: 1\n\nid: a\0b\n\nretry: 5s\n\nretry: 99999999\n\n", Some("1"), Some(300_000)),
        ] {
            let events = read(stream.as_bytes(), 3).1;
            assert_eq!(events.last_id().map(|id| &id[..]), id.map(str::as_bytes), "{stream:?}");
            assert_eq!(events.retry(), retry.map(Duration::from_millis), "{stream:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_the_same_whole_and_in_pieces(
            stream in prop::collection::vec(prop::sample::select(b"data: id\n\n\r\0x:".to_vec()), 0..300),
            size in 1..40_usize,
        ) {
            let ((whole, first), (pieces, second)) = (read(&stream, stream.len().max(1)), read(&stream, size));
            // Which of two causes makes an event too large may be seen earlier, but the same events are.
            prop_assert_eq!(whole, pieces);
            prop_assert_eq!(first.last_id(), second.last_id());
        }
    }
}
