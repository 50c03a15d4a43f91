//! Reads the id of a message that is too large from the beginning and end of its line.

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::message::is_id;

/// The raw id of a message, from its first and last bytes.
///
/// Correct for valid JSON: only members of the message itself can precede the first nested value or follow the last one.
#[must_use]
pub fn id(head: &Bytes, tail: &Bytes) -> Option<Bytes> {
    let found = id_in_head(head).or_else(|| id_in_tail(tail))?;
    (is_id(&found) && serde_json::from_slice::<IgnoredAny>(&found).is_ok()).then_some(found)
}

/// Whether the message is a response: its large member is its result or error.
#[must_use]
pub fn is_response(head: &Bytes) -> bool {
    let mut members = Members::of(head);
    let has_method = members.by_ref().any(|(key, _)| key == b"\"method\"");
    !has_method && matches!(members.unfinished(), Some(b"\"result\"" | b"\"error\""))
}

fn id_in_head(head: &Bytes) -> Option<Bytes> {
    Members::of(head).find(|(key, _)| *key == b"\"id\"").map(|(_, value)| head.slice_ref(value))
}

/// The leading members of a truncated object, as long as they are complete and not nested.
struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Members<'a> {
    fn of(head: &'a [u8]) -> Self {
        Self { rest: skip_space(head).strip_prefix(b"{").unwrap_or_default() }
    }

    /// The key of the first nested or truncated member.
    fn unfinished(&self) -> Option<&'a [u8]> {
        Some(scalar(skip_space(self.rest))?.0)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value, after) = member(self.rest)?;
        // The comma shows that the value is complete.
        self.rest = after.strip_prefix(b",")?;
        Some((key, value))
    }
}

fn id_in_tail(tail: &Bytes) -> Option<Bytes> {
    let end = trim_space(tail).strip_suffix(b"}")?;
    let from_id = &end[memchr::memmem::rfind(end, b"\"id\"")?..];
    let (_, value, mut after) = member(from_id)?;
    // No value is nested between the id and the end, so the id belongs to the message itself.
    while !after.is_empty() {
        (_, _, after) = member(after.strip_prefix(b",")?)?;
    }
    Some(tail.slice_ref(value))
}

/// A key, its scalar value, and the text after them.
fn member(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key, after) = scalar(skip_space(text))?;
    let (value, after) = scalar(skip_space(skip_space(after).strip_prefix(b":")?))?;
    Some((key, value, skip_space(after)))
}

/// A string, number or word, and the text after it.
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
        check(r#"{"result":{"#, r#"},"id":3,"jsonrpc":"2.0"}"#, Some("3"));
    }

    #[test]
    fn tells_a_response_by_the_member_that_is_too_large() {
        let check = |head: &'static str, expected| {
            assert_eq!(is_response(&Bytes::from_static(head.as_bytes())), expected, "{head}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"method":"GET","x":"aaa"#, true);
        check(r#"{"result":"aaa"#, true);
        check(r#"{"id":7,"error":{"data":["#, true);
        check(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"#, false);
        check(r#"{"id":7,"params":{"#, false);
        check(r#"{"level":30,"id":7,"msg":"aaa"#, false);
        check("aaa", false);
    }

    #[test]
    fn does_not_take_a_nested_one() {
        check(r#"{"result":{"id":7,"x":"aaa"#, r#"aaa","id":8}}"#, None);
        check(r#"{"result":"aa"#, r#"aa \"id\":8}"#, None);
        check(r#"{"result":{"#, r#""id":3,"x":{}}"#, None);
        check("aaa", "aaa", None);
        check(r#"{"id":12"#, "", None);
        check(r#"{"id":@@@,"result":"#, "", None);
        check(r#"{"id":tru,"result":"#, "", None);
        check(r#"{"id":null,"x":[1"#, "1]}", None);
    }
}
