//! Parses mcpd's TOML to a tree, and finds brackets and quotes that are never closed.
//!
//! A parser notices a missing `]` where the next key or table begins, which may be lines later. The error names the bracket that opens the list.

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, Error};
use toml_parser::lexer::TokenKind;
use toml_parser::parser::{Event, RecursionGuard, parse_document};
use toml_parser::{ParseError, Source};

use super::diagnostic::named_key;
use super::tree::{Entry, MAX_DEPTH, MAX_PROBLEMS, Node, ParseTree, Problem, Value};

/// Error texts of the parser, which has no codes. Tests check that they are current.
const DUPLICATE: &str = "duplicate key";
const UNQUOTED: &str = "string values must be quoted";

/// Parses `text`.
///
/// A syntax error often causes further errors, so only the first is reported, with the duplicate keys before it, and nothing is read.
/// Every duplicate key is reported, and the rest of the file is still checked.
pub(super) fn parse(text: &str) -> ParseTree {
    let (table, errors) = DeTable::parse_recoverable(text);
    let (duplicates, syntax): (Vec<Error>, Vec<Error>) = errors.into_iter().partition(|e| e.message() == DUPLICATE);
    let mut problems: Vec<_> = duplicates.iter().take(MAX_PROBLEMS).map(|error| duplicate(text, error)).collect();
    // Keys below a duplicate header follow from it.
    let headers: Vec<_> = problems.iter().filter_map(|problem| header(text, problem.span.start)).collect();
    problems.retain(|problem| {
        let start = problem.span.start;
        let last = text[..start].rfind("\n[").map_or(0, |at| at + 1);
        !headers.iter().any(|header| header.start == last && header.end < start)
    });
    if let Some(error) = syntax.first() {
        let problem = describe(text, error);
        // Keys after an unclosed bracket seem to be in its table, so their errors are not reported.
        problems.retain(|duplicate| duplicate.span.start < problem.span.start);
        problems.push(problem);
        dismantle(DeValue::Table(table.into_inner()));
        return ParseTree { root: None, problems };
    }
    let mut walk = Walk { problems };
    let value = walk.table(table.into_inner(), 0);
    ParseTree { root: Some(Node { span: 0..0, value }), problems: walk.problems }
}

struct Walk {
    problems: Vec<Problem>,
}

impl Walk {
    fn node(&mut self, value: Spanned<DeValue<'_>>, depth: usize) -> Node {
        let span = value.span();
        if depth > MAX_DEPTH {
            self.problems.push(Problem::too_deep(span.clone()));
            dismantle(value.into_inner());
            return Node { span, value: Value::Other("too deep a value") };
        }
        let value = match value.into_inner() {
            DeValue::String(text) => Value::String(text.into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Other("an integer of more than 64 bits"), Value::Integer),
            DeValue::Float(_) => Value::Float,
            DeValue::Boolean(truth) => Value::Bool(truth),
            DeValue::Datetime(_) => Value::Other("a date or time"),
            DeValue::Array(items) => Value::Array(items.into_iter().map(|item| self.node(item, depth + 1)).collect()),
            DeValue::Table(table) => self.table(table, depth),
        };
        Node { span, value }
    }

    fn table(&mut self, table: DeTable<'_>, depth: usize) -> Value {
        let entries = table.into_iter().map(|(key, value)| {
            let key_span = key.span();
            Entry { key: key.into_inner().into_owned(), key_span, node: self.node(value, depth + 1) }
        });
        Value::Table(entries.collect())
    }
}

/// Drops a value one level at a time. The parser limits brackets and dotted keys, but not their product. A recursive drop of thousands of
/// levels needs about 2 MiB of stack, the default size of a thread's stack.
fn dismantle(value: DeValue<'_>) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            DeValue::Table(table) => rest.extend(table.into_iter().map(|(_, value)| value.into_inner())),
            DeValue::Array(items) => rest.extend(items.into_iter().map(Spanned::into_inner)),
            _ => {}
        }
    }
}

/// The part of its header line before `place`, if that is in one.
fn header(text: &str, place: usize) -> Option<Range<usize>> {
    let start = text[..place].rfind('\n').map_or(0, |at| at + 1);
    text[start..].starts_with('[').then_some(start..place)
}

fn duplicate(text: &str, error: &Error) -> Problem {
    let span = place(text, error);
    let key = named_key(&text[span.clone()]);
    Problem::new(span, format!("{key} is written twice in one table"))
        .label("the second time")
        .help("keep one of the two")
}

fn describe(text: &str, error: &Error) -> Problem {
    let span = place(text, error);
    if let Some(OpenDelimiter { place, name, close }) = unclosed(text, span.start) {
        let problem = Problem::new(place, format!("this {name} is not closed")).label("opened here");
        return problem.help(format!("close the {name} with `{close}`"));
    }
    let message = error.message();
    let word = &text[span.clone()];
    if word.is_empty() && message.starts_with(UNQUOTED) {
        return Problem::new(span, "a value is missing").help("write one after the `=`, such as `key = \"text\"`");
    }
    if !word.is_empty() && is_about_bare_word(message) {
        // The word may be a secret.
        let found = ["true", "false"].iter().find(|truth| truth.eq_ignore_ascii_case(word));
        return match (found, character_help(text, span.start)) {
            (Some(truth), _) => {
                Problem::new(span, "this is no value: it is not in lower case").help(format!("write `{truth}`"))
            }
            (None, help) => Problem::new(span, "this is no value: text must be in quotes")
                .help(help.unwrap_or("write `key = \"text\"`")),
        };
    }
    let help = character_help(text, span.start).or_else(|| help(message));
    Problem::new(span, message).help(help.unwrap_or("correct this value, or write it as text in double quotes"))
}

/// The help for a character that TOML has only in texts and comments, or not even there.
fn character_help(text: &str, place: usize) -> Option<&'static str> {
    let line = text[..place].rsplit('\n').next().unwrap_or_default().trim_start();
    match text[place..].chars().next()? {
        '“' | '”' | '‘' | '’' | '„' => Some("write straight quotes: `\"text\"`"),
        _ if line.starts_with("//") => Some("begin a comment with `#`"),
        '\r' | '\n' | '\t' => None,
        character if character.is_control() => {
            Some("remove the control character, or write it as `\\u` with four digits")
        }
        _ if line.starts_with('[') && !line.contains([']', '=']) => {
            Some("a name is letters, digits, `-` and `_`, as in `[servers.my-files]`")
        }
        _ => None,
    }
}

/// Replaces errors about bare words: the parser guesses the type by the first letters and reports an error of that type.
fn is_about_bare_word(message: &str) -> bool {
    [UNQUOTED, "invalid boolean", "invalid float, expected `"].iter().any(|start| message.starts_with(start))
}

fn help(message: &str) -> Option<&'static str> {
    let helps = [
        ("key with no value", "write `key = value`"),
        ("too few unicode value digits", r"write `\\` for a backslash, or put the text in single quotes: 'C:\Users'"),
        ("missing escaped value", r"write `\\` for a backslash, or put the text in single quotes: 'C:\dir'"),
        ("cannot recurse", "nothing in a configuration needs more than four levels: close some brackets"),
        ("recursion limit", "nothing in a configuration needs more than four levels: shorten the dotted key"),
        ("invalid basic string", "close the text with `\"` on the same line"),
        ("invalid literal string", "close the text with `'` on the same line"),
        ("unexpected key or value", "write one value only, text in double quotes: `key = \"text\"`"),
        ("carriage return", r"end each line with a line feed: `sed -i 's/\r/\n/g' FILE` converts the file"),
        ("missing assignment", "write `key = value` in a table, as in `{ KEY = \"value\" }`"),
        ("unclosed table", "write the whole header on one line, such as `[servers.files]`"),
        ("missing comma", "put a `,` between the values"),
        ("unquoted keys cannot be empty", "write a name before the `=`, or inside the brackets"),
        ("invalid unquoted key", "put a key with other characters in quotes: `\"my key\" = …`"),
    ];
    helps.iter().find(|(start, _)| message.starts_with(start)).map(|(_, help)| *help)
}

/// The span of an error. Errors without one are about the whole file.
fn place(text: &str, error: &Error) -> Range<usize> {
    let span = error.span().unwrap_or(0..0);
    if text.get(span.clone()).is_some() { span } else { text.len()..text.len() }
}

/// Nesting that is looked at; the parser of configurations refuses more.
const MAX_LEXED_DEPTH: u32 = 80;

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
    parse_document(&tokens, &mut RecursionGuard::new(&mut |_: Event| {}, MAX_LEXED_DEPTH), &mut errors);
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
