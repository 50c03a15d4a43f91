//! Walking over JSON text without decoding it.
//!
//! Accepts what RFC 8259 does, at any depth and with lone surrogates, except that a carriage return is no blank (see
//! [`super::message::parse`]). Looks at each byte once, and at the bytes of a long string many at a time.
//!
//! One loop does it all, and what may come next is a set of [`token`] kinds: a small message costs what its code has to be
//! fetched for rather than what that does, so there is one copy of everything.

mod nesting;
mod plain;
mod scalar;
mod token;

use self::nesting::{Kind, Nesting};

/// A walk over the parts of an array or object.
pub(super) struct Walk<'a> {
    text: &'a [u8],
    /// How much of it is behind.
    at: usize,
    /// The kinds of token that may come next.
    expected: u8,
    within: Nesting,
    /// Bytes of strings, or-ed eight at a time: tells whether there may be more than ASCII in one.
    seen: u64,
}

/// An element of an array, or a member of an object.
pub(super) struct Part<'a> {
    /// As it is spelled, in its quotes. Empty in an array.
    pub(super) key: &'a [u8],
    /// As it is spelled.
    pub(super) value: &'a [u8],
}

/// The text is not JSON, or not of the kind that was wanted.
pub(super) struct NotJson;

type Result<T = ()> = std::result::Result<T, NotJson>;

impl<'a> Walk<'a> {
    /// Over an object.
    pub(super) fn object(text: &'a [u8]) -> Self {
        Self::new(text, token::OBJECT)
    }

    /// Over an array.
    pub(super) fn array(text: &'a [u8]) -> Self {
        Self::new(text, token::ARRAY)
    }

    /// Over whatever it is.
    pub(super) fn any(text: &'a [u8]) -> Self {
        Self::new(text, token::VALUE)
    }

    fn new(text: &'a [u8], expected: u8) -> Self {
        Self { text, at: 0, expected, within: Nesting::default(), seen: 0 }
    }

    /// Steps over the next part. `None` at the end of the last one, or of what has no parts.
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
            // A value has ended, and may be the last one in another.
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

    /// What may follow the beginning of an array or object, a comma or a colon.
    fn after(&mut self, kind: u8) -> u8 {
        let opens = kind & (token::OBJECT | token::ARRAY);
        if opens != 0 {
            self.within.push(if kind == token::OBJECT { Kind::Object } else { Kind::Array });
        }
        let is_before_key = kind == token::OBJECT || kind == token::COMMA && self.expected & token::END_OBJECT != 0;
        let follows = if is_before_key { token::STRING } else { token::VALUE };
        follows | opens << token::TO_END
    }

    /// Whether only blanks are left behind the last part, and all of the text was UTF-8.
    pub(super) fn end(self) -> Result {
        let is_over = self.text[self.at..].iter().all(|byte| token::of(*byte) == token::BLANK);
        let is_text = self.seen & plain::BEYOND_ASCII == 0 || std::str::from_utf8(self.text).is_ok();
        (is_over && is_text).then_some(()).ok_or(NotJson)
    }

    /// Steps over blanks and the byte behind them, and tells what that begins; at the end of the text nothing.
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
