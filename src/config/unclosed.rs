//! Brackets and quotes of a TOML text that are never closed.
//!
//! A parser notices a missing `]` where the next key or table begins, which may be lines later. What a person has to look at is the
//! bracket that opens the list.

use std::ops::Range;

use toml_parser::lexer::TokenKind;
use toml_parser::parser::{Event, RecursionGuard, parse_document};
use toml_parser::{ParseError, Source};

/// Nesting that is looked at; the parser of configurations refuses more.
const MAX_DEPTH: u32 = 80;

/// Something that is opened and never closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenDelimiter {
    /// Where it is opened.
    pub(super) place: Range<usize>,
    /// What it is.
    pub(super) name: &'static str,
    /// What closes it.
    pub(super) close: &'static str,
}

/// What is open and never closed at `error`, the place of the first syntax error of `text`, if it begins on an earlier line or the text
/// ends there.
pub(super) fn unclosed(text: &str, error: usize) -> Option<OpenDelimiter> {
    let source = Source::new(text);
    let tokens = source.lex().into_vec();
    let quotes = tokens.iter().find_map(|token| {
        let (name, close) = match token.kind() {
            TokenKind::MlBasicString => ("text", "\"\"\""),
            TokenKind::MlLiteralString => ("text", "'''"),
            _ => return None,
        };
        let (start, end) = (token.span().start(), token.span().end());
        let is_closed = end - start >= 2 * close.len() && text[start..end].ends_with(close);
        (end == text.len() && !is_closed).then(|| OpenDelimiter { place: start..start + close.len(), name, close })
    });
    let mut errors: Vec<ParseError> = Vec::new();
    parse_document(&tokens, &mut RecursionGuard::new(&mut |_: Event| {}, MAX_DEPTH), &mut errors);
    let brackets = errors.iter().filter_map(|error| {
        let place = error.context()?;
        let (name, close) = match error.description() {
            "unclosed array" => ("list", "]"),
            "unclosed inline table" => ("table", "}"),
            _ => return None,
        };
        Some(OpenDelimiter { place: place.start()..place.end(), name, close })
    });
    let found = brackets.chain(quotes).filter(|unclosed| unclosed.place.start < error);
    let first = found.min_by_key(|unclosed| unclosed.place.start)?;
    let is_noticed_later = text[first.place.start..error].contains('\n') || text[error..].trim().is_empty();
    is_noticed_later.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bracket_that_is_noticed_on_a_later_line_is_found_where_it_is_opened() {
        for (text, error, opened) in [
            ("a = [1,\nb = 2\n", 8, Some(4)),
            ("a = [1\n[t]\n", 7, Some(4)),
            ("a = [[1], [2]\nb = 3\n", 14, Some(4)),
            ("a = { b = [1\n[t]\n", 13, Some(4)),
            ("a = [1", 6, Some(4)),
            ("a = \"\"\"x\ny", 10, Some(4)),
            ("a = '''", 7, Some(4)),
            ("a = '''x'''\nb = \n", 16, None),
            ("a = [1 2\n", 7, None),
            ("a = [\n1\n2\n]\n", 8, None),
            ("x = \na = [1,\nb = 2\n", 4, None),
        ] {
            assert_eq!(unclosed(text, error).map(|found| found.place.start), opened, "{text:?}");
        }
    }
}
