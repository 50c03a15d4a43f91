//! Builds the native table of a server from another client's file. Other clients allow any name, so names are made valid.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::super::super::clients::{Dialect, Variables};
use super::super::super::interpolate::UnusableValue;
use super::super::super::tree::{Entry, Node, Value};
use super::super::values::fitted_name;
use super::variables::{TranslationFailures, translated};
use crate::naming::is_server_name;

/// The reference to an agent's directory.
const AGENT_CWD: &str = "${agent:cwd}";

/// A table that grows key by key.
pub(super) struct Build {
    pub(super) dialect: Dialect,
    /// The location of values that the file implies.
    server: Range<usize>,
    entries: Vec<Entry>,
    variables: Variables,
    missing: Vec<UnusableValue>,
    /// References that are plain text to the client, each with its location.
    literal: Vec<(Range<usize>, String)>,
    needs_agent_cwd: bool,
}

impl Build {
    pub(super) fn new(dialect: Dialect, variables: Variables, server: &Range<usize>) -> Self {
        let (entries, missing, literal) = Default::default();
        Self { dialect, variables, server: server.clone(), entries, missing, literal, needs_agent_cwd: false }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Whether the server needs one instance per workspace.
    pub(super) fn needs_agent_cwd(&self) -> bool {
        self.needs_agent_cwd
    }

    /// Adds a native key whose value is at `span` in the file.
    pub(super) fn put(&mut self, key: &str, span: &Range<usize>, node: Node) {
        self.entries.push(Entry { key: key.to_owned(), key_span: span.clone(), node });
    }

    /// Adds a key with the file's value and translated references.
    pub(super) fn put_texts(&mut self, key: &str, entry: &Entry) {
        let node = self.node(&entry.node);
        self.put(key, &entry.key_span, node);
    }

    /// Adds a text that the file implies.
    pub(super) fn put_here(&mut self, key: &str, text: String) {
        let span = self.server.clone();
        self.put(key, &span, Node { span: span.clone(), value: Value::String(text) });
    }

    /// Replaces a text that was added before.
    pub(super) fn replace(&mut self, key: &str, with: impl FnOnce(&str) -> Option<String>) {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) else { return };
        if let Some(text) = entry.node.text().and_then(with) {
            entry.node.value = Value::String(text);
        }
    }

    /// Adds items to a list.
    pub(super) fn extend(&mut self, key: &str, entry: &Entry, more: Vec<Node>) {
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node.value) {
            Some(Value::Array(items)) => items.extend(more),
            Some(_) => {}
            None => {
                let node = Node { span: entry.node.span.clone(), value: Value::Array(more) };
                self.put(key, &entry.key_span, node);
            }
        }
    }

    /// Adds entries to a table.
    pub(super) fn extend_table(&mut self, key: &str, entry: &Entry, more: Vec<Entry>) {
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node.value) {
            Some(Value::Table(entries)) => entries.extend(more),
            Some(_) => {}
            None => {
                let node = Node { span: entry.node.span.clone(), value: Value::Table(more) };
                self.put(key, &entry.key_span, node);
            }
        }
    }

    /// `node` with translated references.
    pub(super) fn node(&mut self, node: &Node) -> Node {
        let value = match &node.value {
            Value::String(text) => Value::String(self.text(text, &node.span)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.node(item)).collect()),
            Value::Table(entries) => Value::Table(entries.iter().map(|entry| self.entry(entry)).collect()),
            Value::Integer(number) => Value::Integer(*number),
            Value::Float => Value::Float,
            Value::Bool(truth) => Value::Bool(*truth),
            Value::Other(name) => Value::Other(name),
        };
        Node { span: node.span.clone(), value }
    }

    fn entry(&mut self, entry: &Entry) -> Entry {
        Entry { key: entry.key.clone(), key_span: entry.key_span.clone(), node: self.node(&entry.node) }
    }

    fn text(&mut self, text: &str, span: &Range<usize>) -> String {
        let mut failures = TranslationFailures::default();
        let words = translated(text, self.variables, &mut failures);
        self.missing.extend(failures.missing);
        self.literal.extend(failures.literal.into_iter().map(|shown| (span.clone(), shown)));
        self.needs_agent_cwd |= words.contains(AGENT_CWD);
        words
    }

    /// References that are plain text to the client, each with its location.
    pub(super) fn literal_references(&mut self) -> Vec<(Range<usize>, String)> {
        std::mem::take(&mut self.literal)
    }

    /// The table, and the references that prevent a launch. A server that depends on the agent's directory gets `sharing = "workspace"`,
    /// because other clients have no key for it.
    pub(super) fn finish(mut self) -> (Vec<Entry>, Vec<UnusableValue>) {
        if self.needs_agent_cwd && !self.has("sharing") {
            self.put_here("sharing", "workspace".to_owned());
        }
        (self.entries, self.missing)
    }
}

/// A valid name for each title. A valid title is used as it is, unless an earlier server has the name. Any other gets a similar name, with
/// a number if that name is taken.
pub(super) fn assigned(titles: &[&str]) -> Vec<Arc<str>> {
    let mut taken: HashSet<Arc<str>> = HashSet::new();
    let mut names: Vec<Option<Arc<str>>> = Vec::new();
    for title in titles {
        let unchanged = is_server_name(title).then(|| Arc::from(*title)).filter(|name| !taken.contains(name));
        taken.extend(unchanged.clone());
        names.push(unchanged);
    }
    let mut numbers = HashMap::new();
    let fill = |(unchanged, title): (Option<Arc<str>>, &&str)| {
        unchanged.unwrap_or_else(|| {
            let fitted = fitted_name(title, "server");
            let name = free(&fitted, numbers.entry(fitted.clone()).or_insert(1), &taken);
            taken.insert(Arc::clone(&name));
            name
        })
    };
    names.into_iter().zip(titles).map(fill).collect()
}

/// `name`, or `name-2` and so on. `number` is the last number tried.
fn free(name: &str, number: &mut usize, taken: &HashSet<Arc<str>>) -> Arc<str> {
    loop {
        let candidate = if *number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        *number += 1;
        if !taken.contains(candidate.as_str()) {
            return candidate.into();
        }
    }
}
