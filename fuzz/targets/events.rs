//! Arbitrary `text/event-stream` input: the result does not depend on how it is cut, and follows the standard.
//!
//! The first byte is the cap, the second how the rest is cut into reads. Source: WHATWG HTML, 9.2.6, "Interpreting an event stream".

#![no_main]

use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use pure_modules::transport::http::{EventStreamResult, parse_events};

fuzz_target!(|data: &[u8]| {
    let [cap, cut, stream @ ..] = data else { return };
    // Small caps, and some large enough for ids of any length.
    let max = 8 + usize::from(*cap) * 16;
    let whole = parse_events(&[stream], max);
    let pieces: Vec<_> = stream.chunks(usize::from(*cut) + 1).collect();
    assert_eq!(parse_events(&pieces, max), whole, "cutting the stream changes what it tells");
    assert_eq!(plainly(stream, max), whole, "the stream is misread");
});

/// A reference parser without memory limits.
fn plainly(stream: &[u8], max: usize) -> EventStreamResult {
    let (mut parse_events, mut open, mut id) = (EventStreamResult::default(), Open::default(), Bytes::new());
    let mut rest = stream;
    let mut is_first = true;
    while let Some(end) = rest.iter().position(|byte| b"\r\n".contains(byte)) {
        let (line, after) = rest.split_at(end);
        rest = after.strip_prefix(b"\r\n").unwrap_or(&after[1..]);
        let marked = std::mem::take(&mut is_first).then(|| line.strip_prefix(b"\xef\xbb\xbf")).flatten();
        match marked.unwrap_or(line) {
            _ if line.len() > max => open.drop_data(&mut parse_events),
            b"" => open.end(&mut parse_events, &mut id),
            line => open.take(line, max, &mut parse_events),
        }
    }
    if rest.len() > max {
        open.drop_data(&mut parse_events);
    }
    parse_events.last_id = Some(id).filter(|id| !id.is_empty());
    parse_events
}

/// An unfinished event.
#[derive(Default)]
struct Open {
    name: Vec<u8>,
    data: Option<Vec<u8>>,
    id: Option<Bytes>,
    is_too_large: bool,
}

impl Open {
    fn take(&mut self, line: &[u8], max: usize, parse_events: &mut EventStreamResult) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (field, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = value.to_vec(),
            b"id" if value.len() <= 1024 && !value.contains(&0) => self.id = Some(Bytes::copy_from_slice(value)),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                let millis = millis.map(|millis: u64| Duration::from_millis(millis.clamp(50, 300_000)));
                parse_events.retry = millis.or(parse_events.retry);
            }
            b"data" if !self.is_too_large => {
                let before = self.data.as_ref().map_or(0, Vec::len);
                if before + 1 + value.len() > max {
                    return self.drop_data(parse_events);
                }
                self.data = Some(match self.data.take() {
                    Some(lines) => [&lines, &b"\n"[..], value].concat(),
                    None => value.to_vec(),
                });
            }
            _ => {}
        }
    }

    fn drop_data(&mut self, parse_events: &mut EventStreamResult) {
        self.data = None;
        if !std::mem::replace(&mut self.is_too_large, true) {
            parse_events.events.push(None);
        }
    }

    fn end(&mut self, parse_events: &mut EventStreamResult, last_id: &mut Bytes) {
        let Self { name, data, id, .. } = std::mem::take(self);
        *last_id = id.unwrap_or(std::mem::take(last_id));
        parse_events.events.extend(data.map(|data| Some((name.into(), data.into()))));
    }
}
