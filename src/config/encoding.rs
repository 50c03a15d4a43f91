//! Errors for files that are not UTF-8, with the command that converts them.
//!
//! Pure.

use std::fmt;

/// Bytes that are read to detect UTF-16 without a byte order mark.
const SAMPLE: usize = 64;

/// A text that is not UTF-8. `Debug` prints nothing of it.
#[derive(thiserror::Error)]
#[error("{}", self.in_one_line())]
pub(crate) struct NotUtf8 {
    encoding: Encoding,
    /// The whole text, with replacement characters for invalid bytes.
    text: String,
    /// The offset of the invalid byte.
    at: usize,
    /// The invalid byte.
    byte: u8,
}

/// The likely encoding, by its name in `iconv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf16(&'static str),
    /// An unknown encoding with one byte per character.
    Bytes,
}

/// Decodes the text of a file.
///
/// # Errors
/// If it is not UTF-8, or is UTF-16 that is also valid UTF-8.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, NotUtf8> {
    if let Some((name, is_big_endian)) = utf16(&bytes) {
        let unit = |pair: &[u8]| match (is_big_endian, pair) {
            (true, [high, low]) | (false, [low, high]) => u16::from_be_bytes([*high, *low]),
            _ => u16::from(char::REPLACEMENT_CHARACTER as u8),
        };
        let units: Vec<_> = bytes.chunks(2).map(unit).collect();
        let text = String::from_utf16_lossy(&units).trim_start_matches('\u{feff}').to_owned();
        return Err(NotUtf8 { encoding: Encoding::Utf16(name), text, at: 0, byte: bytes[0] });
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        NotUtf8 { encoding: Encoding::Bytes, text, at, byte: bytes[at] }
    })
}

/// Detects UTF-16 by its byte order mark, or by the zeros beside ASCII letters. Returns its byte order.
fn utf16(bytes: &[u8]) -> Option<(&'static str, bool)> {
    match bytes {
        [0xff, 0xfe, ..] => return Some(("UTF-16", false)),
        [0xfe, 0xff, ..] => return Some(("UTF-16", true)),
        [] | [_] => return None,
        _ => {}
    }
    let pairs: Vec<_> = bytes[..bytes.len().min(SAMPLE)].chunks_exact(2).collect();
    if pairs.iter().all(|pair| pair[0] != 0 && pair[1] == 0) {
        Some(("UTF-16LE", false))
    } else if pairs.iter().all(|pair| pair[0] == 0 && pair[1] != 0) {
        Some(("UTF-16BE", true))
    } else {
        None
    }
}

impl NotUtf8 {
    /// The whole text, with replacement characters for invalid bytes, and the offset of the first invalid byte.
    pub(super) fn place(&self) -> (&str, usize) {
        (&self.text, self.at)
    }

    /// The message, for a printed location.
    pub(super) fn message(&self) -> String {
        match self.encoding {
            Encoding::Utf16(_) => "this file is UTF-16, and a configuration is UTF-8".to_owned(),
            Encoding::Bytes => format!("byte {:#04x} is not UTF-8", self.byte),
        }
    }

    /// The command that converts the file.
    pub(super) fn help(&self, file: &str) -> String {
        let (name, note) = match self.encoding {
            Encoding::Utf16(name) => (name, ""),
            Encoding::Bytes => ("ISO-8859-1", "; if it has another encoding, name that after `-f`"),
        };
        let file = shlex::try_quote(file).unwrap_or_else(|_| "FILE".into());
        format!("convert it: `iconv -f {name} -t UTF-8 {file} > NEW && mv NEW {file}`{note}")
    }

    fn in_one_line(&self) -> String {
        match self.encoding {
            Encoding::Utf16(_) => "it is UTF-16, not UTF-8".to_owned(),
            Encoding::Bytes => {
                let before = &self.text[..self.at];
                let line = before.split('\n').count();
                let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
                format!("line {line}, column {column}: {}", self.message())
            }
        }
    }
}

impl fmt::Debug for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotUtf8").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_or_refused_with_its_place() {
        for (bytes, expected) in [
            (&b""[..], None),
            (b"a", None),
            (b"a\0", Some("it is UTF-16, not UTF-8")),
            ("é\n".as_bytes(), None),
            ("\u{feff}a".as_bytes(), None),
            (b"a\n\xc3\xa9\xff", Some("line 2, column 2: byte 0xff is not UTF-8")),
            (b"\xe9", Some("line 1, column 1: byte 0xe9 is not UTF-8")),
            (b"\xff\xfea\0", Some("it is UTF-16, not UTF-8")),
            (b"\xff\xfe", Some("it is UTF-16, not UTF-8")),
            (b"\xfe\xff\0a\0", Some("it is UTF-16, not UTF-8")),
            (b"a\0b\0c\0", Some("it is UTF-16, not UTF-8")),
            (b"\0a\0b", Some("it is UTF-16, not UTF-8")),
            (b"ab\0\0", None),
        ] {
            let found = decode(bytes.to_vec()).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn nothing_of_the_text_is_in_debug() {
        let error = decode(b"canary\xff".to_vec()).expect_err("it is not UTF-8");
        assert!(!format!("{error:?} {error}").contains("canary"));
    }
}
