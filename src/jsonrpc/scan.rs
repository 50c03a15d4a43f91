//! Walking over JSON text without decoding it.
//!
//! Accepts what RFC 8259 does, at any depth and with lone surrogates, except that a carriage return is no blank (see
//! [`super::message::parse`]). Looks at each byte once, and at the bytes of a long string many at a time.

mod nesting;
mod plain;

use self::nesting::{Kind, Nesting};

/// A walk over JSON text.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    /// What of it is still ahead.
    ahead: &'a [u8],
    /// Bytes of strings, or-ed eight at a time: tells whether there may be more than ASCII in one.
    seen: u64,
}

/// The text is not JSON.
pub(super) struct NotJson;

type Result<T = ()> = std::result::Result<T, NotJson>;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, ahead: text, seen: 0 }
    }

    /// Steps over `byte`, and blanks before it, if that comes next.
    pub(super) fn takes(&mut self, byte: u8) -> bool {
        self.blanks();
        self.takes_at_once(byte)
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result {
        self.takes(byte).then_some(()).ok_or(NotJson)
    }

    /// Steps over a key and its colon. The key as it is spelled, in its quotes.
    pub(super) fn key(&mut self) -> Result<&'a [u8]> {
        self.blanks();
        let start = self.ahead;
        self.expect(b'"')?;
        self.rest_of_string()?;
        let key = self.since(start);
        self.expect(b':')?;
        Ok(key)
    }

    /// Steps over a value. The value as it is spelled.
    pub(super) fn value(&mut self) -> Result<&'a [u8]> {
        self.blanks();
        let start = self.ahead;
        let mut within = Nesting::default();
        'value: loop {
            self.blanks();
            match self.next()? {
                b'"' => self.rest_of_string()?,
                b'{' if !self.takes(b'}') => {
                    within.push(Kind::Object);
                    self.key()?;
                    continue;
                }
                b'[' if !self.takes(b']') => {
                    within.push(Kind::Array);
                    continue;
                }
                // Empty.
                b'{' | b'[' => {}
                b't' => self.rest_of_word(b"rue")?,
                b'f' => self.rest_of_word(b"alse")?,
                b'n' => self.rest_of_word(b"ull")?,
                first => self.rest_of_number(first)?,
            }
            // A value has ended, and may be the last one in another.
            while let Some(kind) = within.innermost() {
                if self.takes(b',') {
                    if kind == Kind::Object {
                        self.key()?;
                    }
                    continue 'value;
                }
                self.expect(if kind == Kind::Object { b'}' } else { b']' })?;
                within.pop();
            }
            return Ok(self.since(start));
        }
    }

    /// Whether only blanks are left, and all of the text was UTF-8.
    pub(super) fn end(mut self) -> Result {
        self.blanks();
        let is_text = self.seen & plain::BEYOND_ASCII == 0 || std::str::from_utf8(self.text).is_ok();
        (is_text && self.ahead.is_empty()).then_some(()).ok_or(NotJson)
    }

    fn since(&self, start: &'a [u8]) -> &'a [u8] {
        &start[..start.len() - self.ahead.len()]
    }

    fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n', ahead @ ..] = self.ahead {
            self.ahead = ahead;
        }
    }

    fn next(&mut self) -> Result<u8> {
        let (byte, ahead) = self.ahead.split_first().ok_or(NotJson)?;
        self.ahead = ahead;
        Ok(*byte)
    }

    fn takes_at_once(&mut self, byte: u8) -> bool {
        match self.ahead {
            [next, ahead @ ..] if *next == byte => self.ahead = ahead,
            _ => return false,
        }
        true
    }

    fn rest_of_word(&mut self, rest: &[u8]) -> Result {
        self.ahead = self.ahead.strip_prefix(rest).ok_or(NotJson)?;
        Ok(())
    }

    fn rest_of_number(&mut self, first: u8) -> Result {
        match if first == b'-' { self.next()? } else { first } {
            b'0' => {}
            b'1'..=b'9' => self.any_digits(),
            _ => return Err(NotJson),
        }
        if self.takes_at_once(b'.') {
            self.digits()?;
        }
        if self.takes_at_once(b'e') || self.takes_at_once(b'E') {
            let _signed = self.takes_at_once(b'-') || self.takes_at_once(b'+');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result {
        let is_digit = self.next()?.is_ascii_digit();
        self.any_digits();
        is_digit.then_some(()).ok_or(NotJson)
    }

    fn any_digits(&mut self) {
        while let [b'0'..=b'9', ahead @ ..] = self.ahead {
            self.ahead = ahead;
        }
    }

    fn rest_of_string(&mut self) -> Result {
        loop {
            self.ahead = plain::skip(self.ahead, &mut self.seen);
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => self.rest_of_escape()?,
                _ => return Err(NotJson),
            }
        }
    }

    fn rest_of_escape(&mut self) -> Result {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => (0..4).try_for_each(|_| self.next()?.is_ascii_hexdigit().then_some(()).ok_or(NotJson)),
            _ => Err(NotJson),
        }
    }
}

#[cfg(test)]
mod tests;
