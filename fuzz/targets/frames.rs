//! Arbitrary bytes of a peer: framing, the envelope, and the retained ends of a line over the cap.
//!
//! The first byte is the cap, the second how the rest is cut into reads. Nothing panics, the cut changes nothing, memory
//! stays below the cap, the lines equal those of a decoder with the whole stream, and a message is the same message to a
//! lenient reader.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use pure_modules::jsonrpc::codec::{Line, LineEnds, NdJson};
use pure_modules::jsonrpc::members::members;
use pure_modules::jsonrpc::normalise::{Normalised, Sender, is_suspicious, normalise};
use pure_modules::jsonrpc::{Message, is_id, oversize, parse};
use tokio_util::codec::Decoder;

/// Retained bytes at either end of a line over the cap, as in the decoder.
const KEEP: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let [cap, cut, stream @ ..] = data else { return };
    // A decoder keeps the ends of a line whole only if its cap is no smaller than they are.
    let cap = KEEP + usize::from(*cap);
    let lines = decode(&[stream], cap);
    assert_eq!(lines, decode(&pieces(stream, *cut), cap), "cutting the stream changes what is read");
    assert_eq!(lines, plainly(stream, cap), "the decoder misreads the stream");
    for line in &lines {
        match line {
            Line::Whole(line) => {
                check_message(line);
                check_normalised(line);
            }
            Line::Oversized(LineEnds { head, tail, .. }) => {
                drop((oversize::id(head, tail), oversize::is_response(head)))
            }
        }
    }
    for line in stream.split(|byte| *byte == b'\n').filter(|line| line.len() > cap) {
        check_id_of_a_large_one(&Bytes::copy_from_slice(line));
    }
});

fn decode(pieces: &[&[u8]], cap: usize) -> Vec<Line> {
    let (mut codec, mut buffer, mut lines) = (NdJson::new(cap), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(line) = codec.decode(&mut buffer).expect("decoding has no errors") {
            lines.push(line);
        }
        assert!(buffer.len() <= cap, "{} bytes are held", buffer.len());
    }
    lines
}

/// Reads of growing and shrinking sizes, one byte among them.
fn pieces(mut stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut pieces, mut size) = (Vec::new(), usize::from(seed));
    while !stream.is_empty() {
        let (piece, rest) = stream.split_at((size % 700 + 1).min(stream.len()));
        pieces.push(piece);
        stream = rest;
        size = size.wrapping_mul(31).wrapping_add(7 + usize::from(seed));
    }
    pieces
}

/// A reference decoder without memory limits.
fn plainly(stream: &[u8], cap: usize) -> Vec<Line> {
    let lines = stream.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let read = lines.filter_map(|line| {
        if line.len() > cap {
            let (head, tail) = (&line[..line.len().min(KEEP)], &line[line.len().saturating_sub(KEEP)..]);
            let (head, tail) = (Bytes::copy_from_slice(head), Bytes::copy_from_slice(tail));
            return Some(Line::Oversized(LineEnds { head, tail, size: line.len() }));
        }
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (!line.trim_ascii().is_empty()).then(|| Line::Whole(Bytes::copy_from_slice(line)))
    });
    read.collect()
}

fn check_message(line: &Bytes) {
    let Ok(message) = parse(line) else { return };
    assert!(!line.contains(&b'\r'), "a careless reader sees two lines");
    let value = Careless::read(line);
    let (id, rest) = match &message {
        Message::Request { id, params, .. } => (Some(id), params.as_ref()),
        Message::Notification { params, .. } => (None, params.as_ref()),
        Message::Response { id, response: Ok(part) | Err(part) } => (Some(id), Some(part)),
    };
    for part in id.into_iter().chain(rest) {
        assert!(line.as_ptr_range().contains(&part.as_ptr()), "a part that is no slice of its line");
    }
    assert!(id.is_none_or(|id| is_id(id)));
    assert_eq!(value.one("id"), id.map(|id| &id[..]).unwrap_or_default());
    assert_eq!(value.one("jsonrpc"), b"\"2.0\"");
    match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            let read: String = serde_json::from_slice(value.one("method")).expect("a string");
            assert_eq!(read.as_bytes(), method);
            let written = value.one("params");
            assert!(params.map_or(["".as_bytes(), b"null"].contains(&written), |params| params == written));
        }
        Message::Response { response: Ok(result), .. } => assert_eq!(value.one("result"), result),
        Message::Response { response: Err(error), .. } => assert_eq!(value.one("error"), error),
    }
}

/// What a nearly valid line is read as is a message, which is not changed again. A valid message of an agent is not changed.
fn check_normalised(line: &Bytes) {
    for sender in [Sender::Agent, Sender::Server] {
        let messages = match normalise(line, sender) {
            None => continue,
            Some(Normalised::Messages(messages)) => messages,
            Some(Normalised::Unversioned(message)) => vec![message],
        };
        assert!(!messages.is_empty() && !line.contains(&b'\r'), "a careless reader sees two lines");
        if let Ok(message) = parse(line) {
            assert!(sender == Sender::Server && is_suspicious(&message, line), "a valid message was changed");
        }
        for message in &messages {
            check_message(message);
            assert!(parse(message).is_ok() && normalise(message, sender).is_none());
        }
    }
}

/// The members of an object for a reader that folds case and cuts names at a zero byte.
struct Careless(Vec<(String, Bytes)>);

impl Careless {
    fn read(line: &Bytes) -> Self {
        let members = serde_json::Deserializer::from_slice(line).into_iter::<Members>().next();
        Self(members.expect("one object").expect("it was read before").0)
    }

    /// The value of the only member of this name; empty without one.
    fn one(&self, name: &str) -> &[u8] {
        let alike = |key: &str| key.trim_end_matches('\0').to_lowercase() == name;
        let mut found = self.0.iter().filter(|(key, _)| alike(key));
        let value = found.next().map(|(_, value)| &value[..]).unwrap_or_default();
        assert!(found.next().is_none(), "a careless reader may see another `{name}`");
        value
    }
}

struct Members(Vec<(String, Bytes)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<Key>()? {
                    let value: &serde_json::value::RawValue = map.next_value()?;
                    members.push((key.0, Bytes::copy_from_slice(value.get().as_bytes())));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A key: text, or bytes with lone surrogates.
struct Key(String);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Key;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a key")
            }
            fn visit_bytes<E>(self, key: &[u8]) -> Result<Key, E> {
                Ok(Key(String::from_utf8_lossy(key).into_owned()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// The id found at either end of a line over the cap equals the id of the whole line.
fn check_id_of_a_large_one(line: &Bytes) {
    let (head, tail) = (line.slice(..KEEP), line.slice(line.len() - KEEP..));
    if let (Some(found), Ok([id])) = (oversize::id(&head, &tail), members(line, ["id"])) {
        assert_eq!(Some(found), id, "another message's id");
    }
}
