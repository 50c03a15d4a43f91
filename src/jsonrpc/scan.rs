//! Walks over JSON text without decoding it.
//!
//! Accepts RFC 8259 at any depth and with lone surrogates. Rejects carriage returns between tokens (see [`super::message::parse`]). Reads
//! each byte once, and long strings in blocks.
//!
//! One loop handles all values, with a set of [`token`] kinds that may come next. For small messages, fetching code costs more than
//! running it, so the loop exists once.

mod nesting;
mod plain;
mod scalar;
mod token;

use self::nesting::{Kind, Nesting};

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
        Self::new(text, token::OBJECT)
    }

    /// Walks over an array.
    pub(super) fn array(text: &'a [u8]) -> Self {
        Self::new(text, token::ARRAY)
    }

    /// Walks over any value.
    pub(super) fn any(text: &'a [u8]) -> Self {
        Self::new(text, token::VALUE)
    }

    fn new(text: &'a [u8], expected: u8) -> Self {
        Self { text, at: 0, expected, within: Nesting::default(), seen: 0 }
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
            let is_value = self.expected & token::SCALAR != 0;
            let is_of_part = self.within.depth() == 1;
            if is_value && is_of_part {
                value_from = from;
            }
            if kind == token::STRING {
                self.rest_of_string()?;
                if !is_value {
                    if is_of_part {
                        part.key = &self.text[from..self.at];
                    }
                    self.expected = token::COLON;
                    continue;
                }
            } else if kind == token::SCALAR {
                self.at = from + scalar::length(&self.text[from..]).ok_or(NotJson)?;
            } else if kind & token::END != 0 {
                self.within.pop();
            } else {
                self.expected = self.after(kind);
                continue;
            }
            // A value has ended. It may be the last one of its parent.
            self.expected = match self.within.innermost() {
                Some(Kind::Object) => token::COMMA | token::END_OBJECT,
                Some(Kind::Array) => token::COMMA | token::END_ARRAY,
                None => return Ok(None),
            };
            if self.within.depth() == 1 {
                part.value = &self.text[value_from..self.at];
                return Ok(Some(part));
            }
        }
    }

    /// The length of the value, which other text may follow.
    pub(super) fn len(mut self) -> Result<usize> {
        while self.next()?.is_some() {}
        Ok(self.at)
    }

    /// The tokens that may follow the beginning of an array or object, a comma or a colon.
    fn after(&mut self, kind: u8) -> u8 {
        let opens = kind & (token::OBJECT | token::ARRAY);
        if opens != 0 {
            self.within.push(if kind == token::OBJECT { Kind::Object } else { Kind::Array });
        }
        let is_before_key = kind == token::OBJECT || kind == token::COMMA && self.expected & token::END_OBJECT != 0;
        let follows = if is_before_key { token::STRING } else { token::VALUE };
        follows | opens << token::TO_END
    }

    /// Whether only blanks follow the last part, and the whole text is UTF-8.
    pub(super) fn end(self) -> Result {
        let is_over = self.text[self.at..].iter().all(|byte| token::of(*byte) == token::BLANK);
        let is_text = self.seen & plain::BEYOND_ASCII == 0 || std::str::from_utf8(self.text).is_ok();
        (is_over && is_text).then_some(()).ok_or(NotJson)
    }

    /// Skips blanks and the byte after them, and returns the kind of token that it begins. Returns no kind at the end.
    fn token(&mut self) -> u8 {
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            let kind = token::of(*byte);
            if kind != token::BLANK {
                return kind;
            }
        }
        token::NONE
    }

    fn rest_of_string(&mut self) -> Result {
        let mut ahead = &self.text[self.at..];
        loop {
            ahead = match plain::skip(ahead, &mut self.seen) {
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

#[cfg(test)]
mod tests;
