//! Text of agents, cut to a bounded length. Whoever shows it escapes it.

use std::sync::Arc;

/// Longest name of a tool that is kept, in bytes.
const LONGEST_TOOL: usize = 128;
/// Longest arguments that are kept, in bytes; of longer ones the beginning.
const LONGEST_ARGUMENTS: usize = 4 << 10;
/// Longest request id that is logged, in bytes.
const LONGEST_ID: usize = 64;

/// The name of a tool that leads nowhere.
pub(crate) fn unknown_tool(name: &[u8]) -> Arc<str> {
    cut(name, LONGEST_TOOL).into()
}

/// Raw arguments that are to be kept.
pub(crate) fn arguments(raw: &[u8]) -> Box<str> {
    cut(raw, LONGEST_ARGUMENTS).into()
}

/// A raw request id.
pub(super) fn request_id(raw: &[u8]) -> String {
    cut(raw, LONGEST_ID)
}

/// The name of a tool as its server spells it.
pub(super) fn tool(name: &str) -> String {
    cut(name.as_bytes(), LONGEST_TOOL)
}

/// Text of at most `longest` bytes, with a sign where it was cut.
fn cut(text: &[u8], longest: usize) -> String {
    let kept = &text[..text.len().min(longest)];
    let characters = kept.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    let sign = (kept.len() < text.len()).then_some('…');
    characters.chain(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, longest, expected) in [
            (&b"abc"[..], 3, "abc"),
            (b"abcd", 3, "abc…"),
            (b"", 3, ""),
            ("aé".as_bytes(), 2, "a…"),
            (b"a\x1b[2J\n", 9, "a\u{1b}[2J\n"),
            (b"a\xffb", 9, "ab"),
        ] {
            assert_eq!(cut(text, longest), expected);
        }
    }
}
