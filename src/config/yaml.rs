//! Parses the YAML of other clients to a tree.
//!
//! Aliases and tags are values of a type that no key accepts, since the clients do not write any.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::diagnostic::named_key;
use super::tree::{Entry, MAX_DEPTH, MAX_PROBLEMS, Node, ParseTree, Problem, Value};

/// Whether a file is YAML, by its name.
pub(super) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|name| name.eq_ignore_ascii_case("yaml") || name.eq_ignore_ascii_case("yml"))
}

/// Parses `text`. The parser stops at the first syntax error.
pub(super) fn parse(text: &str) -> ParseTree {
    let places = Places::new(text);
    let mut tree = Tree { places: &places, open: Vec::new(), root: None, documents: 0, problems: Vec::new() };
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => tree.add(event, places.range(span)),
            Err(error) => Err(describe(&error, places.at(*error.marker()))),
        };
        if let Err(problem) = step {
            tree.problems.push(problem);
            return ParseTree { root: None, problems: tree.problems };
        }
    }
    // An empty file is an empty table.
    let root = tree.root.unwrap_or(Node { span: 0..0, value: Value::Table(Vec::new()) });
    ParseTree { root: Some(root), problems: tree.problems }
}

/// The offsets of the lines of a text. The parser counts lines and characters.
struct Places<'t> {
    text: &'t str,
    lines: Vec<usize>,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len()).filter(|&at| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        Self { text, lines: [0].into_iter().chain(ends.map(|at| at + 1)).collect() }
    }

    fn at(&self, marker: Marker) -> usize {
        let Some(&start) = self.lines.get(marker.line().saturating_sub(1)) else { return self.text.len() };
        let rest = &self.text[start..];
        start + rest.char_indices().nth(marker.col()).map_or(rest.len(), |(at, _)| at)
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.at(span.start);
        start..self.at(span.end).max(start)
    }
}

/// The values that are open, from the root inwards.
struct Tree<'t> {
    places: &'t Places<'t>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    problems: Vec<Problem>,
}

/// A mapping or sequence whose end is not read yet.
struct Open {
    start: usize,
    /// Where its last item ends: a block ends at the beginning of what follows it.
    end: usize,
    items: Items,
}

enum Items {
    Mapping { entries: Vec<Entry>, seen: HashSet<String>, key: Option<(String, Range<usize>)> },
    Sequence(Vec<Node>),
}

impl Tree<'_> {
    fn add(&mut self, event: Event<'_>, span: Range<usize>) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let problem = Problem::new(span, "a second document begins here");
                    return Err(problem.help("remove it, and the line `---` before it"));
                }
            }
            Event::Scalar(text, style, _, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.close(Node { span, value }, Some(&text));
            }
            Event::Alias(_) => self.close(Node { span, value: Value::Other("an alias") }, None),
            Event::MappingStart(..) => {
                self.open(span, Items::Mapping { entries: Vec::new(), seen: HashSet::new(), key: None })?;
            }
            Event::SequenceStart(..) => self.open(span, Items::Sequence(Vec::new()))?,
            Event::MappingEnd | Event::SequenceEnd => {
                let Some(Open { start, end, items }) = self.open.pop() else { return Ok(()) };
                // Of an empty block nothing is closed, and of a flow collection its bracket.
                let end = if span.is_empty() { end } else { span.end };
                let value = match items {
                    Items::Mapping { entries, .. } => Value::Table(entries),
                    Items::Sequence(items) => Value::Array(items),
                };
                self.close(Node { span: start..end.max(start), value }, None);
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn open(&mut self, span: Range<usize>, items: Items) -> Result<(), Problem> {
        if self.open.len() > MAX_DEPTH {
            return Err(Problem::too_deep(span));
        }
        self.open.push(Open { start: span.start, end: span.end, items });
        Ok(())
    }

    /// Adds a value to the innermost open one. `text`: that of a scalar, which may be a key.
    fn close(&mut self, node: Node, text: Option<&str>) {
        let Some(Open { end, items, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        *end = node.span.end.max(*end);
        let (entries, seen, key) = match items {
            Items::Sequence(nodes) => return nodes.push(node),
            Items::Mapping { entries, seen, key } => (entries, seen, key),
        };
        let Some((key, key_span)) = key.take() else {
            // A key that is no text is none of those that are looked for.
            let spelt = || self.places.text.get(node.span.clone()).unwrap_or_default().to_owned();
            *key = Some((text.map_or_else(spelt, str::to_owned), node.span));
            return;
        };
        if seen.insert(key.clone()) {
            entries.push(Entry { key, key_span, node });
        } else if self.problems.len() < MAX_PROBLEMS {
            let twice = Problem::new(key_span, format!("{} is written twice in one mapping", named_key(&key)));
            self.problems.push(twice.label("the second time").help("keep one of the two"));
        }
    }
}

/// The value of a scalar by YAML's core schema.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    match tag {
        None if style == ScalarStyle::Plain => {}
        None => return Value::String(text.to_owned()),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Value::String(text.to_owned()),
        Some(_) => return Value::Other("a value with a tag"),
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Other("null"),
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let radix = |digits: &str, radix| {
        i64::from_str_radix(digits, radix).map_or(Value::Other("an integer of more than 64 bits"), Value::Integer)
    };
    let is_all = |text: &str, is: fn(&char) -> bool| !text.is_empty() && text.chars().all(|c| is(&c));
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(octal) = text.strip_prefix("0o").filter(|rest| is_all(rest, |c| c.is_digit(8))) {
        return radix(octal, 8);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x").filter(|rest| is_all(rest, char::is_ascii_hexdigit)) {
        return radix(hexadecimal, 16);
    }
    if is_all(digits, char::is_ascii_digit) {
        return radix(text.strip_prefix('+').unwrap_or(text), 10);
    }
    let begins = digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit());
    let is_float = begins && text.parse::<f64>().is_ok();
    let is_named = [".inf", ".Inf", ".INF"].contains(&digits) || [".nan", ".NaN", ".NAN"].contains(&text);
    if is_float || is_named { Value::Float } else { Value::String(text.to_owned()) }
}

fn describe(error: &ScanError, at: usize) -> Problem {
    let help = match error.info() {
        info if info.contains("tab") => "indent with spaces",
        info if info.contains("quoted scalar") || info.contains("quoted string") => "close the text with its quote",
        info if info.contains("flow") => "close the brackets, and put a `,` between two values",
        _ => "write `key: value`, the keys of one mapping below each other, and text with `:` or `#` in quotes",
    };
    Problem::new(at..at, error.info()).help(help)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree in one line, with the source text of each scalar.
    fn shown(text: &str, node: &Node) -> String {
        match &node.value {
            Value::Table(entries) => {
                let entries = entries.iter().map(|entry| {
                    assert!(!text[entry.key_span.clone()].is_empty(), "{text:?}");
                    format!("{}={}", entry.key, shown(text, &entry.node))
                });
                format!("{{{}}}", entries.collect::<Vec<_>>().join(" "))
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| shown(text, item));
                format!("[{}]", items.collect::<Vec<_>>().join(" "))
            }
            Value::String(value) => format!("{value:?}<{}>", &text[node.span.clone()]),
            Value::Integer(number) => number.to_string(),
            Value::Float => "float".to_owned(),
            Value::Bool(truth) => truth.to_string(),
            Value::Other(name) => (*name).to_owned(),
        }
    }

    #[test]
    fn values_have_their_type_and_their_place() {
        for (text, expected) in [
            ("a: x\n", r#"{a="x"<x>}"#),
            ("ä: ö # ü\nb:\r\n  c: 'é'\r\n", r#"{ä="ö"<ö> b={c="é"<'é'>}}"#),
            ("a: [1, -2, 0x10, 0o17, 1.5, .inf, 1e3]", "{a=[1 -2 16 15 float float float]}"),
            ("a: [~, null, True, \"true\", yes]\nb:\n", r#"{a=[null null true "true"<"true"> "yes"<yes>] b=null}"#),
            (
                "a: !!str 1\nb: !x 1\nc: &n d\ne: *n\n",
                r#"{a="1"<!!str 1> b=a value with a tag c="d"<&n d> e=an alias}"#,
            ),
            ("- a\n- b: |\n    two\n    lines\n", "[\"a\"<a> {b=\"two\\nlines\\n\"<two\n    lines\n>}]"),
            ("a: 1.2.3\nb: 192.168.0.1\nc: 1-2\n", r#"{a="1.2.3"<1.2.3> b="192.168.0.1"<192.168.0.1> c="1-2"<1-2>}"#),
            ("", "{}"),
            ("# nothing\n", "{}"),
        ] {
            let ParseTree { root, problems } = parse(text);
            assert!(problems.is_empty(), "{text:?}: {problems:?}");
            assert_eq!(shown(text, &root.expect("a tree")), expected, "{text:?}");
        }
    }

    #[test]
    fn mapping_ends_where_its_last_value_ends() {
        let text = "a:\n  b: c\n\n# about d\nd: [e,\n  f]\n";
        let root = parse(text).root.expect("a tree");
        let span = |key: &str| root.get(key).map(|entry| &text[entry.node.span.clone()]);
        assert_eq!((span("a"), span("d")), (Some("b: c"), Some("[e,\n  f]")));
    }

    #[test]
    fn errors_have_a_place_and_advice() {
        for (text, line, message) in [
            ("a: 1\nb: [1\n", 3, "while parsing a flow sequence, expected ',' or ']'"),
            ("a: 1\na: 2\n", 2, "`a` is written twice in one mapping"),
            ("a: 1\n---\nb: 2\n", 2, "a second document begins here"),
        ] {
            let problems = parse(text).problems;
            assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
            let place = text[..problems[0].span.start].matches('\n').count() + 1;
            assert_eq!((place, &*problems[0].message), (line, message), "{text:?}");
            assert!(problems[0].help.is_some());
        }
        let deep = "[".repeat(1000);
        assert!(parse(&deep).root.is_none() && parse(&deep).problems.len() == 1);
        let bomb = (0..9).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
            let next = n + 1;
            format!("{text}a{next}: &a{next} [*a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}, *a{n}]\n")
        });
        assert_eq!(parse(&bomb).problems.len(), 0);
    }

    /// Every place in a tree.
    fn places(node: &Node) -> Vec<Range<usize>> {
        let inner: Vec<_> = match &node.value {
            Value::Table(entries) => {
                entries.iter().flat_map(|entry| [vec![entry.key_span.clone()], places(&entry.node)].concat()).collect()
            }
            Value::Array(items) => items.iter().flat_map(places).collect(),
            _ => Vec::new(),
        };
        [vec![node.span.clone()], inner].concat()
    }

    proptest! {
        #[test]
        fn every_place_of_any_text_is_in_it(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
            let text = pieces.concat();
            let ParseTree { root, problems } = parse(&text);
            for place in problems.iter().map(|problem| problem.span.clone()).chain(root.iter().flat_map(places)) {
                prop_assert!(text.get(place.clone()).is_some(), "{place:?} of {text:?}");
            }
        }
    }

    /// What means something in YAML.
    const PIECES: &[&str] = &[
        "a", "é", ": ", ":", "- ", "\n", "\r\n", "\r", "  ", " ", "\t", "[", "]", "{", "}", ", ", "#", " # é", "'",
        "\"", "\\", "|", ">", "&a ", "*a", "!!str ", "---\n", "...", "? ", "%", "~", "1", "<<", "\u{feff}", "\u{2028}",
    ];
}
