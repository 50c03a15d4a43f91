//! What a text is once it is decoded, with the place of each part in the text. Pure.

use std::ops::Range;

/// Decodes what stands at the beginning: returns the decoded bytes and the length of what they stand for.
type Decoder = fn(&[u8]) -> Option<(Vec<u8>, usize)>;

/// A way to write a text.
struct Encoding {
    /// What is encoded begins with one of them.
    marks: [u8; 2],
    decode: Decoder,
    /// How often a text is decoded.
    times: usize,
}

/// Encodings in the order in which they are decoded.
const ENCODINGS: [Encoding; 3] = [
    // A string of JSON may have JSON with strings.
    Encoding { marks: [b'\\'; 2], decode: unescape, times: 3 },
    Encoding { marks: [b'%'; 2], decode: percent_decode, times: 2 },
    // Base64 is often written in lines.
    Encoding { marks: [b'\r', b'\n'], decode: join_lines, times: 1 },
];

/// Bytes of the longest part of an escape.
const MAX_CUT_UNIT: usize = r"\u000".len();

/// A decoded text.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) text: Vec<u8>,
    /// Pairs of offsets in `text` and in the source. After each pair, both advance byte by byte until the next pair.
    places: Vec<(usize, usize)>,
}

impl View {
    fn new(source: &[u8], encoding: &Encoding) -> Self {
        let (mut view, mut at) = (Self::default(), 0);
        view.places.push((0, 0));
        while let Some(next) = encoding.find(&source[at..]) {
            view.text.extend(&source[at..at + next]);
            at += next;
            match (encoding.decode)(&source[at..]) {
                Some((decoded, len)) => {
                    view.places.push((view.text.len(), at));
                    view.text.extend(decoded);
                    at += len;
                    view.places.push((view.text.len(), at));
                }
                None => {
                    view.text.push(source[at]);
                    at += 1;
                }
            }
        }
        view.text.extend(&source[at..]);
        view
    }

    /// Strings of JSON without their escapes. A half of a character that stands alone becomes another character.
    pub(super) fn unescaped(source: &[u8]) -> Self {
        Self::new(source, &ENCODINGS[0])
    }

    /// Where a range stands in the source.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let place = |after: usize, offset| {
            let (from, source) = self.places[after.saturating_sub(1)];
            source + (offset - from)
        };
        // Of what stands for nothing, neither the start nor the end is in the range.
        let starts = self.places.partition_point(|(from, _)| *from <= range.start);
        let ends = self.places.partition_point(|(from, _)| *from < range.end);
        let ends = ends + usize::from(self.places.get(ends).is_some_and(|(from, _)| *from == range.end));
        place(starts, range.start)..place(ends, range.end)
    }
}

impl Encoding {
    fn find(&self, text: &[u8]) -> Option<usize> {
        memchr::memchr2(self.marks[0], self.marks[1], text)
    }
}

/// Calls `find` for a text and for each decoded form of it. Returns the matches as ranges of the text.
pub(super) fn find_in_all(
    source: &[u8],
    is_json: bool,
    find: impl Fn(&[u8]) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    find_in_views(source, &ENCODINGS, is_json, &find)
}

fn find_in_views(
    source: &[u8],
    encodings: &[Encoding],
    is_json: bool,
    find: &dyn Fn(&[u8]) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let Some((encoding, inner)) = encodings.split_first() else { return find(source) };
    let mut views: Vec<View> = Vec::new();
    let mut found = Vec::new();
    loop {
        let text = views.last().map_or(source, |view| &view.text);
        let is_encoded = encoding.find(text).is_some();
        // JSON with escapes is searched only once it is decoded, because a match could lie within an escape.
        if !is_json || !is_encoded || !views.is_empty() {
            let up = |range: Range<usize>| views.iter().rev().fold(range, |range, view| view.place(&range));
            found.extend(find_in_views(text, inner, false, find).into_iter().map(up));
        }
        if !is_encoded || views.len() == encoding.times {
            return found;
        }
        let next = View::new(text, encoding);
        views.push(next);
    }
}

/// A text that was cut off, without a part of an escape, of percent-encoding or of a character at its end.
pub(super) fn without_cut_unit(text: &[u8]) -> &[u8] {
    let is_cut = |unit: &[u8]| match unit {
        [b'\\' | b'%'] => true,
        [b'%', digit] => digit.is_ascii_hexdigit(),
        [b'\\', b'u', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    };
    let longest = text.len().saturating_sub(MAX_CUT_UNIT);
    let cut = (longest..text.len()).find(|start| is_cut(&text[*start..]));
    let whole = &text[..cut.unwrap_or(text.len())];
    whole.strip_suffix("\u{fffd}".as_bytes()).unwrap_or(whole)
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

/// Also without the blanks that begin the next line.
fn join_lines(source: &[u8]) -> Option<(Vec<u8>, usize)> {
    Some((Vec::new(), source.iter().take_while(|byte| byte.is_ascii_whitespace()).count()))
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

    #[test]
    fn what_stands_for_nothing_is_in_no_range_at_its_edge() {
        let view = View::new(b"ab\n\n  cd\r\nef", &ENCODINGS[2]);
        assert_eq!(view.text, b"abcdef");
        assert_eq!((view.place(&(0..2)), view.place(&(2..4)), view.place(&(1..5))), (0..2, 6..8, 1..11));
    }

    #[test]
    fn part_of_a_unit_is_removed_from_the_end_of_a_cut_text() {
        for (text, expected) in [
            (r"a\", "a"),
            (r"a\n", r"a\n"),
            (r"a\u", "a"),
            (r"a\u00e", "a"),
            (r"a\u00e9", r"a\u00e9"),
            ("a%", "a"),
            ("a%4", "a"),
            ("a%41", "a%41"),
            ("a%zz", "a%zz"),
            ("a\u{fffd}", "a"),
            ("a\u{fffd}\\ude", "a"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(without_cut_unit(text.as_bytes())), expected, "{text}");
        }
    }
}
