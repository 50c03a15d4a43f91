//! One tree of values with their places, common to both formats.

use std::collections::BTreeSet;
use std::ops::Range;

use super::command_line::holds_secret;
use super::secret::{in_arguments, is_secret_value};

/// Deepest nesting that is taken; the configuration itself needs four levels.
pub(super) const MAX_DEPTH: usize = 64;

/// Complaints kept of each kind about one file. A file of nothing but wrong lines must not cost the daemon its memory.
pub(super) const MAX_PROBLEMS: usize = 101;

/// A value and the bytes of the text it was written in.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// What both formats can say.
#[derive(Debug)]
pub(super) enum Value {
    /// In file order; no key occurs twice.
    Table(Vec<Entry>),
    Array(Vec<Node>),
    String(String),
    Integer(i64),
    Float,
    Bool(bool),
    /// Something no key takes, by the name of its type.
    Other(&'static str),
}

/// One key of a table with its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

/// Something a text gets wrong at a place.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) label: Option<String>,
    pub(super) help: Option<String>,
}

/// What a parser makes of a text: no root where a syntax error leaves nothing to read.
#[derive(Debug, Default)]
pub(super) struct ParseTree {
    pub(super) root: Option<Node>,
    pub(super) problems: Vec<Problem>,
}

impl Value {
    /// The type with its article, as a message says it.
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
    /// The places of texts that are likely secrets: literal values under `env` and `headers`, arguments that look like one, and
    /// whatever looks like one anywhere.
    ///
    /// A value with a `${` in it is shown: it names where the secret is, and its spelling is what a complaint is about.
    pub(super) fn secrets(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.find_secrets("", false, &mut found);
        found
    }

    /// The entry of a table.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Those of a table; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        if let Value::Table(entries) = &self.value { entries } else { &[] }
    }

    /// The text that it is.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::String(text) = &self.value { Some(text) } else { None }
    }

    /// The texts of a list.
    pub(super) fn texts(&self) -> Vec<&str> {
        let Value::Array(items) = &self.value else { return Vec::new() };
        items.iter().filter_map(Self::text).collect()
    }

    /// Whether another has the same value, with its keys in the same order, wherever it stands. Of numbers that are no integers
    /// this is not known.
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

    fn find_secrets(&self, key: &str, secret: bool, found: &mut Vec<Range<usize>>) {
        match &self.value {
            Value::String(text) if secret && !text.contains("${") || is_secret_value(text) => {
                found.push(self.span.clone());
            }
            // A whole command line that stands in one of them.
            Value::String(text) if matches!(key, "command" | "args") && holds_secret(text) => {
                found.push(self.span.clone());
            }
            Value::Integer(_) | Value::Float if secret => found.push(self.span.clone()),
            Value::Table(entries) => {
                let names_servers = matches!(key, "servers" | "mcpServers" | "mcp_servers" | "context_servers");
                for entry in entries {
                    let secret =
                        secret || !names_servers && matches!(entry.key.as_str(), "env" | "headers" | "http_headers");
                    entry.node.find_secrets(&entry.key, secret, found);
                }
            }
            Value::Array(items) => {
                let texts: Vec<_> = items.iter().map(|item| item.text().unwrap_or_default()).collect();
                let secrets = if matches!(key, "command" | "args") { in_arguments(&texts) } else { BTreeSet::new() };
                for (index, item) in items.iter().enumerate() {
                    item.find_secrets(key, secret || secrets.contains(&index), found);
                }
            }
            _ => {}
        }
    }
}

impl Problem {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: None, help: None }
    }

    pub(super) fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub(super) fn too_deep(span: Range<usize>) -> Self {
        Self::new(span, format!("values are nested more than {MAX_DEPTH} levels deep"))
            .help("nothing in a configuration needs more than four levels: close some brackets")
    }
}
