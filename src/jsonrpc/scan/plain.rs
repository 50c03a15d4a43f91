//! Skips the plain bytes of a string: all except quotes, backslashes and control characters.

/// The text after the leading plain bytes of `text`. Ors these bytes into `seen`, and possibly bytes after them.
///
/// Reads short strings in words and long ones in large blocks.
pub(super) fn skip<'a>(mut text: &'a [u8], seen: &mut u64) -> &'a [u8] {
    for near in 0.. {
        let Some(word) = text.first_chunk() else { break };
        let word = u64::from_le_bytes(*word);
        *seen |= word;
        let special = specials(word);
        if special != 0 {
            return &text[special.trailing_zeros() as usize / 8..];
        }
        text = &text[8..];
        if near == NEAR {
            text = skip_blocks(text, seen);
        }
    }
    // Less than a word is left, so the string ends here or the text is not JSON.
    while let [byte, rest @ ..] = text
        && !is_special(*byte)
    {
        *seen |= u64::from(*byte);
        text = rest;
    }
    text
}

/// A block size for which the compiler uses vector instructions.
fn skip_blocks<'a>(mut text: &'a [u8], seen: &mut u64) -> &'a [u8] {
    while let Some((block, rest)) = text.split_first_chunk::<BLOCK>()
        && !block.iter().fold(false, |found, byte| found | is_special(*byte))
    {
        *seen |= if block.is_ascii() { 0 } else { BEYOND_ASCII };
        text = rest;
    }
    text
}

/// Words of a string that are read before blocks are used.
const NEAR: usize = 4;
/// In bytes.
const BLOCK: usize = 64;

const ONES: u64 = 0x0101_0101_0101_0101;
/// The bits of a word that ASCII text never sets.
pub(super) const BEYOND_ASCII: u64 = ONES << 7;

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Tests eight bytes at once: the first special byte has its highest bit set, and the bytes before it do not.
fn specials(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & BEYOND_ASCII
}
