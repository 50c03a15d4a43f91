//! The tree of values with their spans, common to both formats.

use std::ops::Range;

use super::clients::{Part, is_key_of, names_servers};
use super::secret::{SHORTEST_SECRET, has_literal, in_arguments, is_secret_name, is_secret_value};

/// Maximum nesting. The configuration needs four levels.
pub(super) const MAX_DEPTH: usize = 64;

/// Maximum problems of each level for one file, so that a file full of errors cannot exhaust the daemon's memory.
pub(super) const MAX_PROBLEMS: usize = 101;

/// A value and its span in the text.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// A value of either format.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// In file order, without duplicate keys.
    Table(Vec<Entry>),
    Array(Vec<Node>),
    String(String),
    Integer(i64),
    Float,
    Bool(bool),
    /// A value of a type that no key accepts, by the name of the type.
    Other(&'static str),
}

/// One key of a table with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

/// A problem at a place of a text.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) label: Option<String>,
    pub(super) help: Option<String>,
    /// The only probable text in place of the span.
    pub(super) correction: Option<String>,
}

/// The result of parsing a text. After a syntax error there is no root.
#[derive(Debug, Default)]
pub(super) struct ParseTree {
    pub(super) root: Option<Node>,
    pub(super) problems: Vec<Problem>,
}

impl Value {
    /// The type with its article, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::Array(_) => "a list",
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float => "a number",
            Self::Bool(_) => "a boolean",
            Self::Other(name) => name,
        }
    }
}

impl Node {
    /// The spans of likely secrets in `text`, which this was parsed from: literal values under `env`, `headers` and names of secrets, and
    /// texts, arguments and comments that look like secrets.
    ///
    /// A value that only refers to a secret is printed, since messages are about its syntax, but no argument of a program.
    pub(super) fn secrets(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.find_secrets("", false, false, &mut found);
        self.find_in_comments(text, &mut found);
        self.find_arguments(text, &mut found);
        found
    }

    /// `text`, which this was parsed from, without the values that may be secrets. Of headers, only very short ones are shown; of
    /// variables and others, all that do not look like secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        let (mut found, mut masked) = (Vec::new(), text.to_owned());
        self.find_secrets("", false, true, &mut found);
        self.find_in_comments(text, &mut found);
        found.sort_by_key(|span| std::cmp::Reverse(span.start));
        for span in found {
            let lines = text[span.clone()].matches('\n').count();
            masked.replace_range(span, &format!("\"…\"{}", "\n…".repeat(lines)));
        }
        masked
    }

    /// The entry of a table.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The entries of a table. Empty for other types.
    pub(super) fn entries(&self) -> &[Entry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    /// The text of a string.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::String(text) = &self.value { Some(text) } else { None }
    }

    /// The texts of a list.
    pub(super) fn texts(&self) -> Vec<&str> {
        let Value::Array(items) = &self.value else { return Vec::new() };
        items.iter().filter_map(Self::text).collect()
    }

    /// Whether both values are equal, with keys in the same order. Ignores spans. Numbers that are not integers are never equal.
    pub(super) fn has_same_value(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Table(these), Value::Table(those)) => {
                let same =
                    |(this, that): (&Entry, &Entry)| this.key == that.key && this.node.has_same_value(&that.node);
                these.len() == those.len() && these.iter().zip(those).all(same)
            }
            (Value::Array(these), Value::Array(those)) => {
                these.len() == those.len() && these.iter().zip(those).all(|(this, that)| this.has_same_value(that))
            }
            (Value::String(this), Value::String(that)) => this == that,
            (Value::Integer(this), Value::Integer(that)) => this == that,
            (Value::Bool(this), Value::Bool(that)) => this == that,
            (Value::Other(this), Value::Other(that)) => this == that,
            _ => false,
        }
    }

    fn find_secrets(&self, key: &str, secret: bool, shows_harmless: bool, found: &mut Vec<Range<usize>>) {
        match &self.value {
            Value::String(text) if secret && has_literal(text) || is_secret_value(text) => {
                found.push(self.span.clone());
            }
            Value::Integer(_) | Value::Float if secret => found.push(self.span.clone()),
            // Such as a text with a tag.
            Value::Other(name) if secret && *name != "null" => found.push(self.span.clone()),
            Value::Table(entries) => {
                let names_entries = names_servers(key) || matches!(key, "profiles" | "tools");
                for entry in entries {
                    let text = entry.node.text().unwrap_or_default();
                    let is_table = matches!(entry.node.value, Value::Table(_));
                    let is_secret = match entry.key.as_str() {
                        _ if names_entries && is_table => false,
                        name if is_key_of(Part::Env, name) || is_key_of(Part::Headers, name) => !shows_harmless,
                        _ if is_key_of(Part::Headers, key) => text.chars().count() >= SHORTEST_SECRET,
                        name => is_secret_name(name) || is_key_of(Part::Env, key) && !in_arguments(&[text]).is_empty(),
                    };
                    entry.node.find_secrets(&entry.key, secret || is_secret, shows_harmless, found);
                }
            }
            Value::Array(items) => {
                let texts: Vec<_> = items.iter().map(|item| item.text().unwrap_or_default()).collect();
                let secrets = in_arguments(&texts);
                for (index, item) in items.iter().enumerate() {
                    item.find_secrets(key, secret || secrets.contains(&index), shows_harmless, found);
                }
            }
            _ => {}
        }
    }

    /// Finds what looks like a secret between keys and values, line by line.
    fn find_in_comments(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let mut written = Vec::new();
        self.find_written(&mut written);
        written.push(text.len()..text.len());
        written.sort_by_key(|span| span.start);
        let mut from = 0;
        for span in written {
            let gap = text.get(from..span.start).unwrap_or_default();
            let mut at = from;
            for line in gap.split_inclusive('\n') {
                let is_mark = |c: char| c.is_whitespace() || "#/*{}[](),:=-\"'".contains(c);
                let comment = line.trim_start_matches(is_mark);
                let start = at + line.len() - comment.len();
                if is_secret_value(comment) {
                    found.push(start..start + comment.trim_end().len());
                }
                at += line.len();
            }
            from = span.end.max(from);
        }
    }

    /// Finds the arguments of `${cmd:PROGRAM ARGS}`, to the end of the value.
    fn find_arguments(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let mut written = Vec::new();
        self.find_written(&mut written);
        for span in written {
            let value = text.get(span.clone()).unwrap_or_default();
            let program = value.find("${cmd:");
            let arguments =
                program.and_then(|at| Some(at + value[at..].find(|c: char| c.is_whitespace() || c == '\\')?));
            found.extend(arguments.map(|at| span.start + at..span.end));
        }
    }

    /// The spans of keys and single values.
    fn find_written(&self, spans: &mut Vec<Range<usize>>) {
        match &self.value {
            Value::Table(entries) => entries.iter().for_each(|entry| {
                spans.push(entry.key_span.clone());
                entry.node.find_written(spans);
            }),
            Value::Array(items) => items.iter().for_each(|item| item.find_written(spans)),
            _ => spans.push(self.span.clone()),
        }
    }
}

impl Problem {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: None, help: None, correction: None }
    }

    pub(super) fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub(super) fn correction(self, correction: Option<String>) -> Self {
        Self { correction, ..self }
    }

    pub(super) fn too_deep(span: Range<usize>) -> Self {
        Self::new(span, format!("values are nested more than {MAX_DEPTH} levels deep"))
            .help("nothing in a configuration needs more than four levels: close some brackets")
    }
}
