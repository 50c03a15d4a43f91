//! Streams in chunks of all sizes, and over the cap.

use super::*;
use proptest::prelude::*;

const MAX: usize = 64;

/// Parses `stream` in chunks of `size` bytes.
fn read(stream: &[u8], size: usize) -> (Vec<String>, SseParser) {
    let mut parser = SseParser::new(MAX);
    stream.chunks(size).for_each(|chunk| parser.read(Bytes::copy_from_slice(chunk)));
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let queued = std::iter::from_fn(|| parser.pop()).map(|event| match event {
        SseEvent::Data { name, data } => format!("{}:{}", text(&name), text(&data)),
        SseEvent::TooLarge => "too large".to_owned(),
    });
    (queued.collect(), parser)
}

fn check(stream: &str, expected: &[&str]) {
    for size in [1, 2, 3, 7, usize::MAX] {
        assert_eq!(read(stream.as_bytes(), size.min(stream.len())).0, expected, "{stream:?} in pieces of {size}");
    }
}

#[test]
fn line_ends_and_chunk_borders_do_not_matter() {
    check("data: a\n\ndata:b\r\n\r\ndata:  c\r\r", &[":a", ":b", ": c"]);
    check("event: endpoint\ndata: /x\n\nevent: message\ndata: {}\n\n", &["endpoint:/x", "message:{}"]);
    check("data: {\ndata:   \"a\": 1\ndata: }\n\n", &[":{\n  \"a\": 1\n}"]);
    check(": a comment\n\ndata\n\nid: 7\n\n", &[":"]);
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[":a"]);
    check("data: without an end\n", &[]);
    check("database: x\ndata : y\ndata: z\n\n", &[":z"]);
}

#[test]
fn event_over_the_cap_is_reported_once_and_the_next_is_read() {
    let long = "x".repeat(MAX + 1);
    check(&format!("data: {long}\n\ndata: a\n\n"), &["too large", ":a"]);
    check(&format!("data: {}\ndata: {}\ndata: b\n\ndata: a\n\n", &long[..40], &long[..40]), &["too large", ":a"]);
    check(&format!("data: {long}{long}{long}\ndata: {long}\n\ndata: a\n\n"), &["too large", ":a"]);
    check(
        &format!(": {long}\nid: {long}\ndata: a\n\ndata: {}\n\ndata: b\n\n", &long[..MAX - 1]),
        &["too large", "too large", ":b"],
    );
    check(&format!("data: {}\n\n", &long[..MAX - 8]), &[&format!(":{}", &long[..MAX - 8])]);
}

#[test]
fn resume_id_is_that_of_the_last_complete_event() {
    for (stream, id, retry) in [
        ("id: 1\ndata: a\n\nid: 2\ndata: b\n", Some("1"), None),
        ("id: 1\nretry: 500\n\ndata: a\n\n", Some("1"), Some(500)),
        ("id: 1\n\nid\ndata: a\n\n", None, None),
        ("retry: 0\n\n", None, Some(50)),
        ("id: 1\n\nid: a\0b\n\nretry: 5s\n\nretry: 99999999\n\n", Some("1"), Some(300_000)),
    ] {
        let parser = read(stream.as_bytes(), 3).1;
        assert_eq!(parser.last_id().map(|id| &id[..]), id.map(str::as_bytes), "{stream:?}");
        assert_eq!(parser.retry(), retry.map(Duration::from_millis), "{stream:?}");
    }
}

proptest! {
    #[test]
    fn chunk_sizes_do_not_change_the_events(
        stream in prop::collection::vec(prop::sample::select(b"data: id\n\n\r\0x:".to_vec()), 0..300),
        size in 1..40_usize,
    ) {
        let ((whole, first), (pieces, second)) = (read(&stream, stream.len().max(1)), read(&stream, size));
        // Chunks decide which of two limits an event exceeds first, but not the events.
        prop_assert_eq!(whole, pieces);
        prop_assert_eq!(first.last_id(), second.last_id());
    }
}

#[test]
fn long_event_in_chunks_leaves_no_buffer() {
    let mut parser = SseParser::new(1 << 20);
    for piece in [&b"data: "[..], &[b'x'; 600 << 10], b"\n\n"] {
        parser.read(Bytes::copy_from_slice(piece));
    }
    assert!(matches!(parser.pop(), Some(SseEvent::Data { data, .. }) if data.len() == 600 << 10));
    assert_eq!(parser.line.capacity(), 0);
}
