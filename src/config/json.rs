//! Parses the JSON of other clients, with comments and trailing commas, to a tree.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use jsonc_parser::ast::{self, ObjectProp};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::diagnostic::named_key;
use super::tree::{Entry, MAX_DEPTH, MAX_PROBLEMS, Node, ParseTree, Problem, Value};

/// Whether a file is JSON, by its name or first character.
pub(super) fn is_json(path: &Path, text: &str) -> bool {
    let is_named =
        path.extension().is_some_and(|name| name.eq_ignore_ascii_case("json") || name.eq_ignore_ascii_case("jsonc"));
    let is_toml = path.extension().is_some_and(|name| name.eq_ignore_ascii_case("toml"));
    let text = text.trim_start();
    is_named || text.starts_with('{') || text.starts_with('/') && !is_toml
}

/// Parses `text`. The parser stops at the first syntax error, and at a depth of 512.
pub(super) fn parse(text: &str) -> ParseTree {
    parse_with(text, &options())
}

/// As [`parse`], with the spelling of JSON5.
pub(super) fn parse_loosely(text: &str) -> ParseTree {
    parse_with(text, &ParseOptions { allow_missing_commas: false, ..ParseOptions::default() })
}

fn parse_with(text: &str, options: &ParseOptions) -> ParseTree {
    match parse_to_ast(text, &CollectOptions::default(), options) {
        Ok(parsed) => {
            let mut walk = Walk::default();
            let root = parsed.value.map(|value| walk.node(value, 0));
            if root.is_none() {
                let empty = Problem::new(0..0, "there is no JSON in this file");
                walk.problems.push(empty.help("write `{ \"mcpServers\": {} }`"));
            }
            ParseTree { root, problems: walk.problems }
        }
        Err(error) => ParseTree { root: None, problems: vec![describe(&error)] },
    }
}

/// JSONC: comments and trailing commas. The rest of JSON5 is an error, as in most clients.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

#[derive(Default)]
struct Walk {
    problems: Vec<Problem>,
}

impl Walk {
    fn node(&mut self, value: ast::Value<'_>, depth: usize) -> Node {
        let span = range(&value);
        if depth > MAX_DEPTH {
            self.problems.push(Problem::too_deep(span.clone()));
            return Node { span, value: Value::Other("too deep a value") };
        }
        let value = match value {
            ast::Value::StringLit(text) => Value::String(text.value.into_owned()),
            ast::Value::NumberLit(number) => number.value.parse().map_or(Value::Float, Value::Integer),
            ast::Value::BooleanLit(truth) => Value::Bool(truth.value),
            ast::Value::NullKeyword(_) => Value::Other("null"),
            ast::Value::Array(array) => {
                Value::Array(array.elements.into_iter().map(|item| self.node(item, depth + 1)).collect())
            }
            ast::Value::Object(object) => self.object(object.properties, depth),
        };
        Node { span, value }
    }

    /// Reports duplicate keys, which the parser accepts.
    fn object(&mut self, properties: Vec<ObjectProp<'_>>, depth: usize) -> Value {
        let mut seen = HashSet::new();
        let mut entries = Vec::with_capacity(properties.len());
        for property in properties {
            let key_span = range(&property.name);
            let key = property.name.into_string();
            let node = self.node(property.value, depth + 1);
            if seen.insert(key.clone()) {
                entries.push(Entry { key, key_span, node });
            } else if self.problems.len() < MAX_PROBLEMS {
                let twice = Problem::new(key_span, format!("{} is written twice in one object", named_key(&key)));
                self.problems.push(twice.label("the second time").help("keep one of the two"));
            }
        }
        Value::Table(entries)
    }
}

fn describe(error: &ParseError) -> Problem {
    let message = error.kind().to_string();
    let (first, rest) = message.split_at(message.chars().next().map_or(0, char::len_utf8));
    let problem = Problem::new(range(&error.range()), first.to_lowercase() + rest);
    problem.help(help(&message).unwrap_or("put one value here, text in double quotes, and one `,` between two values"))
}

fn help(message: &str) -> Option<&'static str> {
    let helps = [
        ("Expected comma", "put a `,` between the values"),
        ("Expected colon", "write `\"key\": value`"),
        ("Expected value", "write a value after the `:`, such as `\"key\": \"text\"`"),
        ("Expected string for object property", "put the key in double quotes: `\"key\": value`"),
        ("Single-quoted", "use double quotes: `\"text\"`"),
        ("Invalid escape", r"write `\\` for a backslash"),
        ("Unexpected word", "put text in double quotes: `\"text\"`"),
        ("Unterminated array", "close the list with `]`"),
        ("Unterminated object", "close the object with `}`"),
        ("Unterminated string", "close the text with `\"`"),
        ("Unterminated comment", "close the comment with `*/`"),
        ("Maximum nesting depth", "nothing in a configuration needs more than four levels: close some brackets"),
        ("Text cannot contain", "remove what follows the closing `}`"),
    ];
    helps.iter().find(|(start, _)| message.starts_with(start)).map(|(_, help)| *help)
}

fn range(ranged: &impl Ranged) -> Range<usize> {
    ranged.start()..ranged.end()
}
