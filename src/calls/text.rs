//! Cuts text of agents to a bounded length. The code that prints it escapes it.

use std::sync::Arc;

/// Bytes of a tool name.
const MAX_TOOL_LEN: usize = 128;
/// Bytes of arguments; longer ones are cut.
const MAX_ARGUMENTS_LEN: usize = 4 << 10;
/// Bytes of a request id in the log.
const MAX_ID_LEN: usize = 64;

/// The name of an unknown tool.
pub(crate) fn unknown_tool(name: &[u8]) -> Arc<str> {
    cut(name, MAX_TOOL_LEN).into()
}

pub(crate) fn arguments(raw: &[u8]) -> Box<str> {
    cut(raw, MAX_ARGUMENTS_LEN).into()
}

pub(super) fn request_id(raw: &[u8]) -> String {
    cut(raw, MAX_ID_LEN)
}

pub(super) fn tool(name: &str) -> String {
    cut(name.as_bytes(), MAX_TOOL_LEN)
}

/// At most `max_len` bytes of a text, with `…` if it was cut.
fn cut(text: &[u8], max_len: usize) -> String {
    let start = &text[..text.len().min(max_len)];
    let characters = start.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    let sign = (start.len() < text.len()).then_some('…');
    characters.chain(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, max_len, expected) in [
            (&b"abc"[..], 3, "abc"),
            (b"abcd", 3, "abc…"),
            (b"", 3, ""),
            ("aé".as_bytes(), 2, "a…"),
            (b"a\x1b[2J\n", 9, "a\u{1b}[2J\n"),
            (b"a\xffb", 9, "ab"),
        ] {
            assert_eq!(cut(text, max_len), expected);
        }
    }
}
