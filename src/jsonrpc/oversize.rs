//! Whose message it was that was too large: the id, read from what was kept of its line.

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::message::is_id;

/// The raw id of a message of which only the first and last bytes are known.
///
/// Sound for valid JSON: before the first nested value only members of the message itself can stand, and an `"id"`
/// followed by one closing brace and the end can only be the message's own.
#[must_use]
pub fn id(head: &Bytes, tail: &Bytes) -> Option<Bytes> {
    let found = id_in_head(head).or_else(|| id_in_tail(tail))?;
    (is_id(&found) && serde_json::from_slice::<IgnoredAny>(&found).is_ok()).then_some(found)
}

/// Whether the message may be a request rather than a response.
#[must_use]
pub fn may_be_request(head: &[u8], tail: &[u8]) -> bool {
    [head, tail].iter().any(|part| memchr::memmem::find(part, b"\"method\"").is_some())
}

fn id_in_head(head: &Bytes) -> Option<Bytes> {
    let mut rest = skip_space(head).strip_prefix(b"{")?;
    loop {
        let (key, after) = scalar(skip_space(rest))?;
        let (value, after) = scalar(skip_space(skip_space(after).strip_prefix(b":")?))?;
        // What follows shows that the value was not cut.
        rest = skip_space(after).strip_prefix(b",")?;
        if key == b"\"id\"" {
            return Some(head.slice_ref(value));
        }
    }
}

fn id_in_tail(tail: &Bytes) -> Option<Bytes> {
    let end = trim_space(tail).strip_suffix(b"}")?;
    let key = memchr::memmem::rfind(end, b"\"id\"")?;
    let value = skip_space(skip_space(&end[key + 4..]).strip_prefix(b":")?);
    let (value, after) = scalar(value)?;
    skip_space(after).is_empty().then(|| tail.slice_ref(value))
}

/// A string, number or word, and what follows it.
fn scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = match text.first()? {
        b'"' => string_end(text)?,
        b'{' | b'[' => return None,
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b':') || byte.is_ascii_whitespace();
            text.iter().position(ends).unwrap_or(text.len())
        }
    };
    (end > 0).then(|| text.split_at(end))
}

fn string_end(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.iter().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return Some(index + 1),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn skip_space(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

fn trim_space(text: &[u8]) -> &[u8] {
    text.trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &'static str, tail: &'static str, expected: Option<&'static str>) {
        let found = id(&Bytes::from_static(head.as_bytes()), &Bytes::from_static(tail.as_bytes()));
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{head} … {tail}");
    }

    #[test]
    fn finds_the_id_at_either_end() {
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"x":"aaa"#, "aaa", Some("7"));
        check(r#" { "id" : "a\"b" , "result":"#, "", Some(r#""a\"b""#));
        check(r#"{"result":{"x":"#, r#"aaa"},"jsonrpc":"2.0","id":12}"#, Some("12"));
        check(r#"{"result":{"#, r#"} , "id" : "q" } "#, Some("\"q\""));
    }

    #[test]
    fn does_not_take_a_nested_one() {
        check(r#"{"result":{"id":7,"x":"aaa"#, r#"aaa","id":8}}"#, None);
        check(r#"{"result":"aa"#, r#"aa \"id\":8}"#, None);
        check("aaa", "aaa", None);
        check(r#"{"id":12"#, "", None);
        check(r#"{"id":@@@,"result":"#, "", None);
        check(r#"{"id":tru,"result":"#, "", None);
        check(r#"{"id":null,"x":[1"#, "1]}", None);
    }
}
