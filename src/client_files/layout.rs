//! Lines, blanks and indentation of a text, and splices of it.

use std::ops::Range;

/// Replaces a range of a text.
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) with: String,
}

impl Splice {
    pub(super) fn new(range: Range<usize>, with: impl Into<String>) -> Self {
        Self { range, with: with.into() }
    }

    pub(super) fn at(place: usize, with: impl Into<String>) -> Self {
        Self::new(place..place, with)
    }
}

/// `text` with all `splices`, which may come in any order. `None` if two of them overlap.
pub(super) fn splice(text: &str, splices: &[Splice]) -> Option<String> {
    let mut splices: Vec<_> = splices.iter().collect();
    splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let (mut spliced, mut done) = (String::with_capacity(text.len()), 0);
    for Splice { range, with } in splices {
        spliced.push_str(text.get(done..range.start)?);
        spliced.push_str(with);
        done = range.end;
    }
    spliced.push_str(text.get(done..)?);
    Some(spliced)
}

pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// The line end of the file: the first one.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Where the line of `place` begins.
pub(super) fn line_start(text: &str, place: usize) -> usize {
    text[..place].rfind('\n').map_or(0, |at| at + 1)
}

/// Where the line of `place` ends, before its line end.
pub(super) fn content_end(text: &str, place: usize) -> usize {
    let end = text[place..].find('\n').map_or(text.len(), |at| place + at);
    if end > place && end < text.len() && text[..end].ends_with('\r') { end - 1 } else { end }
}

/// The place before the line end that ends at `line_start`, if there is one.
pub(super) fn before_line_end(text: &str, line_start: usize) -> usize {
    let before = &text[..line_start];
    let content = before.strip_suffix('\n').map_or(before, |line| line.strip_suffix('\r').unwrap_or(line));
    content.len()
}

/// The place after the line end that begins at `content_end`, if there is one.
pub(super) fn after_line_end(text: &str, content_end: usize) -> usize {
    let rest = &text[content_end..];
    let ends = ["\r\n", "\n"];
    content_end + ends.iter().find(|end| rest.starts_with(**end)).map_or(0, |end| end.len())
}

/// The place behind the blanks at `place`, on the same line.
pub(super) fn skip_blanks(text: &str, place: usize) -> usize {
    text.len() - text[place..].trim_start_matches([' ', '\t']).len()
}

/// The place before the blanks that end at `place`, on the same line.
pub(super) fn skip_blanks_back(text: &str, place: usize) -> usize {
    text[..place].trim_end_matches([' ', '\t']).len()
}

/// The blanks at the beginning of the line of `place`.
pub(super) fn indentation(text: &str, place: usize) -> &str {
    let start = line_start(text, place);
    &text[start..skip_blanks(text, start)]
}

/// Whether nothing but blanks stands before `place` on its line.
pub(super) fn begins_line(text: &str, place: usize) -> bool {
    skip_blanks_back(text, place) == line_start(text, place)
}

/// Whether nothing but blanks stands behind `place` on its line.
pub(super) fn ends_line(text: &str, place: usize) -> bool {
    skip_blanks(text, place) >= content_end(text, place)
}
