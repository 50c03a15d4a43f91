//! What a text is once escapes are decoded, with the place of each part in the text. Pure.

use std::ops::Range;

/// How often escapes of JSON are decoded: a string may have JSON with strings.
const ESCAPED: usize = 3;
/// How often percent-encoding is decoded.
const PERCENT_ENCODED: usize = 2;

/// A decoded text.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) text: Vec<u8>,
    /// Pairs of offsets in `text` and in the source. After each pair, both advance byte by byte until the next pair.
    places: Vec<(usize, usize)>,
}

/// Decodes what stands at the beginning: returns the decoded bytes and the length of what they stand for.
type Decoder = fn(&[u8]) -> Option<(Vec<u8>, usize)>;

impl View {
    fn new(source: &[u8], first: u8, decode: Decoder) -> Self {
        let (mut view, mut at) = (Self::default(), 0);
        view.places.push((0, 0));
        while let Some(next) = memchr::memchr(first, &source[at..]) {
            view.text.extend(&source[at..at + next]);
            at += next;
            match decode(&source[at..]) {
                Some((decoded, len)) => {
                    view.places.push((view.text.len(), at));
                    view.text.extend(decoded);
                    at += len;
                    view.places.push((view.text.len(), at));
                }
                None => {
                    view.text.push(first);
                    at += 1;
                }
            }
        }
        view.text.extend(&source[at..]);
        view
    }

    /// Strings of JSON without their escapes. A half of a character that stands alone becomes another character.
    pub(super) fn unescaped(source: &[u8]) -> Self {
        Self::new(source, b'\\', unescape)
    }

    /// Where a range stands in the source.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let place = |offset| {
            let after = self.places.partition_point(|(from, _)| *from <= offset);
            let (from, source) = self.places[after.saturating_sub(1)];
            source + (offset - from)
        };
        place(range.start)..place(range.end)
    }
}

/// Calls `find` for a text and for each decoded form of it. Returns the matches as ranges of the text.
pub(super) fn find_in_all(
    source: &[u8],
    is_json: bool,
    find: impl Fn(&[u8]) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let mut views: Vec<View> = Vec::new();
    let mut found = Vec::new();
    for depth in 0..=ESCAPED {
        let text = views.last().map_or(source, |view| &view.text);
        let has_escapes = text.contains(&b'\\');
        // JSON with escapes is searched only once it is decoded, because a match could lie within an escape.
        if depth > 0 || !is_json || !has_escapes {
            let up = |range: Range<usize>| views.iter().rev().fold(range, |range, view| view.place(&range));
            found.extend(find(text).into_iter().map(up));
            let mut decoded: Vec<View> = Vec::new();
            for _ in 0..PERCENT_ENCODED {
                let last = decoded.last().map_or(text, |view| &view.text);
                if !last.contains(&b'%') {
                    break;
                }
                let next = View::new(last, b'%', percent_decode);
                let in_next = find(&next.text);
                decoded.push(next);
                let down = |range| decoded.iter().rev().fold(range, |range, view| view.place(&range));
                found.extend(in_next.into_iter().map(down).map(up));
            }
        }
        if !has_escapes {
            break;
        }
        let next = View::unescaped(text);
        views.push(next);
    }
    found
}

fn unescape(source: &[u8]) -> Option<(Vec<u8>, usize)> {
    let simple = |byte| Some((vec![byte], 2));
    match source.get(1)? {
        b'n' => simple(b'\n'),
        b't' => simple(b'\t'),
        b'r' => simple(b'\r'),
        b'b' => simple(8),
        b'f' => simple(12),
        byte @ (b'"' | b'\\' | b'/') => simple(*byte),
        b'u' => {
            let unit = |at: usize| {
                let digits = source.get(at..at + 6)?.strip_prefix(b"\\u")?;
                u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
            };
            let first = unit(0)?;
            let both = unit(6).and_then(|second| char::decode_utf16([first, second]).next()?.ok());
            let (decoded, len) = match both {
                Some(character) if character.len_utf16() == 2 => (character, 12),
                _ => (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            };
            Some((decoded.to_string().into_bytes(), len))
        }
        _ => None,
    }
}

fn percent_decode(source: &[u8]) -> Option<(Vec<u8>, usize)> {
    let digits = source.get(1..3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    Some((vec![u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?], 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_text_knows_its_place_in_the_source() {
        for (source, expected) in [
            (r#"plain"#, "plain"),
            (r#"a\"b\\c\/d\n"#, "a\"b\\c/d\n"),
            (r#"\u0041\u00e9\ud83d\ude00x"#, "Aé😀x"),
            (r#"\ud83dx\q\u12"#, "\u{fffd}x\\q\\u12"),
        ] {
            let view = View::unescaped(source.as_bytes());
            assert_eq!(String::from_utf8_lossy(&view.text), expected, "{source}");
            assert_eq!(view.place(&(0..view.text.len())), 0..source.len(), "{source}");
        }
        let view = View::unescaped(br#"ab\n\u0041c"#);
        assert_eq!((view.place(&(2..3)), view.place(&(3..4)), view.place(&(4..5))), (2..4, 4..10, 10..11));
    }
}
