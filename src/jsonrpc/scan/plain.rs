//! The bytes of a string that stand for themselves: all but a quote, a backslash and control characters.

/// What a text begins with.
pub(super) struct Plain {
    /// In bytes.
    pub(super) length: usize,
    /// It may be followed or interrupted by more than ASCII.
    pub(super) beyond_ascii: bool,
}

/// The plain bytes that `text` begins with, looked at in a few words first, then in large blocks as far as they go.
pub(super) fn begin(text: &[u8]) -> Plain {
    let (mut length, mut beyond_ascii) = (0, false);
    for near in 0.. {
        let rest = &text[length..];
        let word = u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| padded(rest)));
        beyond_ascii |= word & HIGHEST != 0;
        let plain = specials(word).trailing_zeros() / 8;
        length += plain as usize;
        if plain < 8 {
            break;
        }
        if near == NEAR {
            let blocks = plain_blocks(&text[length..]);
            beyond_ascii |= !blocks.is_ascii();
            length += blocks.len();
        }
    }
    Plain { length, beyond_ascii }
}

/// Blocks of a size that the compiler makes vector instructions for.
fn plain_blocks(text: &[u8]) -> &[u8] {
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | is_special(*byte));
    &text[..text.chunks_exact(BLOCK).take_while(is_plain).count() * BLOCK]
}

/// Words of a string before it is looked at in blocks.
const NEAR: usize = 4;
/// In bytes.
const BLOCK: usize = 64;

/// The last bytes of the text; what is special ends a string, and there is nothing behind them to end.
fn padded(rest: &[u8]) -> [u8; 8] {
    let mut word = [b'"'; 8];
    word[..rest.len()].copy_from_slice(rest);
    word
}

const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte of a word.
const HIGHEST: u64 = ONES << 7;

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The same for eight bytes at once: the first special one has its highest bit set, and those before it have not.
fn specials(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & HIGHEST
}
