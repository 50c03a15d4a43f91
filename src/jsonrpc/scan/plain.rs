//! The bytes of a string that stand for themselves: all but a quote, a backslash and control characters.

/// What follows the plain bytes that `text` begins with. All of those are or-ed into `seen`, and perhaps what follows.
///
/// Short strings are looked at in words, long ones in large blocks.
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
    // The text ends within the next bytes, and so does the string or it is no JSON.
    while let [byte, rest @ ..] = text
        && !is_special(*byte)
    {
        *seen |= u64::from(*byte);
        text = rest;
    }
    text
}

/// Blocks of a size that the compiler makes vector instructions for.
fn skip_blocks<'a>(mut text: &'a [u8], seen: &mut u64) -> &'a [u8] {
    while let Some((block, rest)) = text.split_first_chunk::<BLOCK>()
        && !block.iter().fold(false, |found, byte| found | is_special(*byte))
    {
        *seen |= if block.is_ascii() { 0 } else { BEYOND_ASCII };
        text = rest;
    }
    text
}

/// Words of a string before it is looked at in blocks.
const NEAR: usize = 4;
/// In bytes.
const BLOCK: usize = 64;

const ONES: u64 = 0x0101_0101_0101_0101;
/// The bits of a word that are set in no ASCII text.
pub(super) const BEYOND_ASCII: u64 = ONES << 7;

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The same for eight bytes at once: the first special one has its highest bit set, and those before it have not.
fn specials(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & BEYOND_ASCII
}
