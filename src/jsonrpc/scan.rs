//! Walks over JSON text without decoding it.
//!
//! Accepts RFC 8259 at any depth and with lone surrogates. Rejects carriage returns between tokens (see [`super::message::parse`]). Reads
//! each byte once, and long strings in blocks.
//!
//! One loop handles all values, with a set of kinds of tokens that may come next. Kinds are bits, so that a set is tested at once. For small messages, fetching code costs more than
//! running it, so the loop exists once.
//!
//! A walk over a part of an accepted text skips nested arrays and objects by their brackets, which takes 1 to 60 % of the time.
//!
//! A walk over a large text lets other threads run now and then: they may wait for the same core, and a slice of the scheduler is long.

#[cfg(test)]
mod tests;

/// A walk over the parts of an array or object.
pub(super) struct Walk<'a> {
    text: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    /// The kinds of token that may come next.
    expected: u8,
    within: Nesting,
    /// The bytes of strings, or-ed eight at a time: shows whether a string may have non-ASCII characters.
    seen: u64,
    /// Another walk has accepted the text, or one that it is a part of.
    is_accepted: bool,
    /// The offset at which other threads may run.
    pause_at: usize,
}

/// An element of an array, or a member of an object.
pub(super) struct Part<'a> {
    /// The raw key with its quotes. Empty in an array.
    pub(super) key: &'a [u8],
    /// The raw value.
    pub(super) value: &'a [u8],
}

/// The text is not JSON, or not of the expected kind.
pub(super) struct NotJson;

type Result<T = ()> = std::result::Result<T, NotJson>;

impl<'a> Walk<'a> {
    /// Walks over an object.
    pub(super) fn object(text: &'a [u8]) -> Self {
        Self::new(text, OBJECT)
    }

    /// Walks over an array.
    pub(super) fn array(text: &'a [u8]) -> Self {
        Self::new(text, ARRAY)
    }

    /// Walks over any value.
    pub(super) fn any(text: &'a [u8]) -> Self {
        Self::new(text, VALUE)
    }

    fn new(text: &'a [u8], expected: u8) -> Self {
        let (within, seen) = (Nesting::default(), 0);
        Self { text, at: 0, expected, within, seen, is_accepted: false, pause_at: PAUSE }
    }

    /// The same for a text that another walk has accepted, or a part of it.
    pub(super) fn accepted(self) -> Self {
        Self { is_accepted: true, ..self }
    }

    /// Returns the next part. `None` after the last one, or for a value without parts.
    pub(super) fn next(&mut self) -> Result<Option<Part<'a>>> {
        let mut part = Part { key: &[], value: &[] };
        let mut value_from = 0;
        loop {
            let kind = self.token();
            if kind & self.expected == 0 {
                return Err(NotJson);
            }
            let from = self.at - 1;
            let is_value = self.expected & SCALAR != 0;
            let is_of_part = self.within.depth() == 1;
            if is_value && is_of_part {
                value_from = from;
            }
            if kind == STRING {
                self.rest_of_string()?;
                if !is_value {
                    if is_of_part {
                        part.key = &self.text[from..self.at];
                    }
                    self.expected = COLON;
                    continue;
                }
            } else if kind == SCALAR {
                self.at = from + length(&self.text[from..]).ok_or(NotJson)?;
            } else if kind & END != 0 {
                self.within.pop();
            } else if is_value && is_of_part && self.is_accepted {
                self.at = from + nested_length(&self.text[from..]).ok_or(NotJson)?;
            } else {
                self.expected = self.after(kind);
                continue;
            }
            // A value has ended. It may be the last one of its parent.
            self.expected = match self.within.innermost() {
                Some(Kind::Object) => COMMA | END_OBJECT,
                Some(Kind::Array) => COMMA | END_ARRAY,
                None => return Ok(None),
            };
            if self.within.depth() == 1 {
                part.value = &self.text[value_from..self.at];
                return Ok(Some(part));
            }
            if self.at >= self.pause_at {
                self.pause();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn pause(&mut self) {
        self.pause_at = self.at + PAUSE;
        std::thread::yield_now();
    }

    /// The length of the value, which other text may follow.
    pub(super) fn len(mut self) -> Result<usize> {
        while self.next()?.is_some() {}
        Ok(self.at)
    }

    /// The tokens that may follow the beginning of an array or object, a comma or a colon.
    fn after(&mut self, kind: u8) -> u8 {
        let opens = kind & (OBJECT | ARRAY);
        if opens != 0 {
            self.within.push(if kind == OBJECT { Kind::Object } else { Kind::Array });
        }
        let is_before_key = kind == OBJECT || kind == COMMA && self.expected & END_OBJECT != 0;
        let follows = if is_before_key { STRING } else { VALUE };
        follows | opens << TO_END
    }

    /// Whether only blanks follow the last part, and the whole text is UTF-8.
    pub(super) fn end(self) -> Result {
        let is_over = self.text[self.at..].iter().all(|byte| of(*byte) == BLANK);
        let is_text = self.is_accepted || self.seen & BEYOND_ASCII == 0 || std::str::from_utf8(self.text).is_ok();
        (is_over && is_text).then_some(()).ok_or(NotJson)
    }

    /// Skips blanks and the byte after them, and returns the kind of token that it begins. Returns no kind at the end.
    fn token(&mut self) -> u8 {
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            let kind = of(*byte);
            if kind != BLANK {
                return kind;
            }
        }
        NONE
    }

    fn rest_of_string(&mut self) -> Result {
        let mut ahead = &self.text[self.at..];
        loop {
            ahead = match skip(ahead, &mut self.seen) {
                [b'"', after @ ..] => {
                    self.at = self.text.len() - after.len();
                    return Ok(());
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => after,
                [b'\\', b'u', a, b, c, d, after @ ..] if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit) => after,
                _ => return Err(NotJson),
            };
        }
    }
}

const STRING: u8 = 1;
/// A number, `true`, `false` or `null`.
const SCALAR: u8 = 1 << 1;
const OBJECT: u8 = 1 << 2;
const ARRAY: u8 = 1 << 3;
const END_OBJECT: u8 = 1 << 4;
const END_ARRAY: u8 = 1 << 5;
const COMMA: u8 = 1 << 6;
const COLON: u8 = 1 << 7;
/// The shift from the bit of an opening token to the bit of its closing token.
const TO_END: u32 = 2;
const END: u8 = END_OBJECT | END_ARRAY;
/// The tokens that begin a value.
const VALUE: u8 = STRING | SCALAR | OBJECT | ARRAY;
/// No kind.
const NONE: u8 = 0;
/// Blanks between tokens. A carriage return is not a blank.
const BLANK: u8 = u8::MAX;

/// The kind that `byte` begins.
fn of(byte: u8) -> u8 {
    OF[usize::from(byte)]
}

static OF: [u8; 256] = {
    let mut of = [NONE; 256];
    let mut byte = 0;
    while byte < of.len() {
        of[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' => BLANK,
            b'"' => STRING,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => SCALAR,
            b'{' => OBJECT,
            b'[' => ARRAY,
            b'}' => END_OBJECT,
            b']' => END_ARRAY,
            b',' => COMMA,
            b':' => COLON,
            _ => NONE,
        };
        byte += 1;
    }
    of
};

/// The length of the array or object at the start of `text`, which another walk has accepted. `None` only for another text.
///
/// Counts brackets outside of strings, eight bytes at once where no escape and not the end is among them.
#[inline(never)]
fn nested_length(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth, mut in_string) = (0, 0_u32, false);
    loop {
        if let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            let brackets = word & (ONES * u64::from(!CASE));
            let (quotes, escapes) = (equal(word, b'"'), equal(word, b'\\'));
            let (opening, closing) = (equal(brackets, b'['), equal(brackets, b']'));
            // The number of quotes up to each byte is odd within a string.
            let mut inside = quotes;
            for shift in [8, 16, 32] {
                inside ^= inside << shift;
            }
            inside ^= if in_string { ONES } else { 0 };
            let closed = sum(closing & !inside);
            if escapes == 0 && depth > closed {
                depth = depth + sum(opening & !inside) - closed;
                in_string = inside >> 56 == 1;
                at += 8;
                if quotes | opening | closing == 0 {
                    at += plain_blocks(&text[at..]);
                }
                continue;
            }
        }
        for _ in 0..8 {
            match (text.get(at)?, in_string) {
                (b'"', _) => in_string = !in_string,
                (b'\\', true) => at += 1,
                (b'[' | b'{', false) => depth += 1,
                (b']' | b'}', false) => depth = depth.checked_sub(1)?,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

/// The length of the blocks at the start of `text` that have no bracket, quote or backslash.
fn plain_blocks(text: &[u8]) -> usize {
    let is_plain = |byte: u8| byte != b'"' && !matches!(byte & !CASE, b'[' | b'\\' | b']');
    let blocks = text.chunks_exact(BLOCK);
    BLOCK * blocks.take_while(|block| block.iter().fold(true, |plain, byte| plain & is_plain(*byte))).count()
}

/// The length of the number or word at the start of `text`. `None` if there is none.
#[inline(never)]
fn length(text: &[u8]) -> Option<usize> {
    let after = if let [b't' | b'f' | b'n', ..] = text { word(text)? } else { number(text)? };
    Some(text.len() - after.len())
}

#[inline(never)]
fn word(text: &[u8]) -> Option<&[u8]> {
    ["true", "false", "null"].into_iter().find_map(|word| text.strip_prefix(word.as_bytes()))
}

fn number(text: &[u8]) -> Option<&[u8]> {
    let mut after = match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0', after @ ..] => after,
        integer => digits(integer)?,
    };
    if let [b'.', fraction @ ..] = after {
        after = digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = after {
        let unsigned = if let [b'-' | b'+', unsigned @ ..] = exponent { unsigned } else { exponent };
        after = digits(unsigned)?;
    }
    Some(after)
}

/// The text after one or more digits.
fn digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}

/// The text after the leading plain bytes of `text`. Ors these bytes into `seen`, and possibly bytes after them.
///
/// Reads short strings in words and long ones in large blocks.
fn skip<'a>(mut text: &'a [u8], seen: &mut u64) -> &'a [u8] {
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
/// Bytes between two moments at which other threads may run. Takes at most half a millisecond.
const PAUSE: usize = 128 << 10;

const ONES: u64 = 0x0101_0101_0101_0101;
/// The bits of a word that ASCII text never sets.
const BEYOND_ASCII: u64 = ONES << 7;

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Tests eight bytes at once: the first special byte has its highest bit set, and the bytes before it do not.
fn specials(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, b' ') | equal(b'"') | equal(b'\\')) & BEYOND_ASCII
}

/// Tests eight bytes at once: those equal to `byte` become 1, others 0.
fn equal(word: u64, byte: u8) -> u64 {
    let differing = word ^ (ONES * u64::from(byte));
    let below = (differing & !BEYOND_ASCII) + !BEYOND_ASCII;
    (!(below | differing) & BEYOND_ASCII) >> 7
}

/// The sum of the bytes of `word`, if it is below 256.
fn sum(word: u64) -> u32 {
    (word.wrapping_mul(ONES) >> 56) as u32
}

/// The bit that a brace has and a bracket has not.
const CASE: u8 = b'{' ^ b'[';

/// An array or an object.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Array,
    Object,
}

/// One bit for each level: the innermost 64 in a word, the outer ones in a vector.
#[derive(Default)]
struct Nesting {
    depth: usize,
    objects: u64,
    further_out: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, kind: Kind) {
        if self.depth.is_multiple_of(64) {
            self.put_further_out();
        }
        self.objects = self.objects << 1 | u64::from(kind == Kind::Object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
        if self.depth.is_multiple_of(64) {
            self.take_from_further_out();
        }
    }

    #[cold]
    fn put_further_out(&mut self) {
        if self.depth > 0 {
            self.further_out.push(self.objects);
        }
    }

    #[cold]
    fn take_from_further_out(&mut self) {
        self.objects = self.further_out.pop().unwrap_or_default();
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn innermost(&self) -> Option<Kind> {
        (self.depth > 0).then_some(if self.objects & 1 == 1 { Kind::Object } else { Kind::Array })
    }
}
