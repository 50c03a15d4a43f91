//! The kind of token that a byte of JSON text begins. Kinds are bits, so that a set can be tested at once.

pub(super) const STRING: u8 = 1;
/// A number, `true`, `false` or `null`.
pub(super) const SCALAR: u8 = 1 << 1;
pub(super) const OBJECT: u8 = 1 << 2;
pub(super) const ARRAY: u8 = 1 << 3;
pub(super) const END_OBJECT: u8 = 1 << 4;
pub(super) const END_ARRAY: u8 = 1 << 5;
pub(super) const COMMA: u8 = 1 << 6;
pub(super) const COLON: u8 = 1 << 7;
/// The shift from the bit of an opening token to the bit of its closing token.
pub(super) const TO_END: u32 = 2;
pub(super) const END: u8 = END_OBJECT | END_ARRAY;
/// The tokens that begin a value.
pub(super) const VALUE: u8 = STRING | SCALAR | OBJECT | ARRAY;
/// No kind.
pub(super) const NONE: u8 = 0;
/// Blanks between tokens. A carriage return is not a blank.
pub(super) const BLANK: u8 = u8::MAX;

/// The kind that `byte` begins.
pub(super) fn of(byte: u8) -> u8 {
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
