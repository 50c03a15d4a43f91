//! The reader of one file: takes the entries of a table by key, checks the types of values, and collects problems. Remaining entries are
//! unknown keys.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::command_line::assignment;
use super::super::diagnostic::{Location, SourceFile, Spanned};
use super::super::interpolate::Sources;
use super::super::tree::{Entry, MAX_PROBLEMS, Node, Problem, Value};
use crate::client_files::Syntax;
use crate::suggest::{nearest, only_misspelt};

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Format {
    /// mcpd's TOML.
    Native,
    /// A file of another client.
    Foreign(Syntax),
    /// An environment variable with one value.
    Variable,
}

/// The problems of one file.
#[derive(Debug, Default)]
pub(in crate::config) struct Problems {
    pub(in crate::config) errors: Vec<Problem>,
    pub(in crate::config) warnings: Vec<Problem>,
}

pub(super) struct Reader<'a> {
    pub(super) format: Format,
    pub(super) file: &'a Arc<SourceFile>,
    /// The path of the file, absolute if the working directory is known.
    pub(super) path: PathBuf,
    pub(super) sources: &'a dyn Sources,
    pub(super) problems: Problems,
}

impl<'a> Reader<'a> {
    pub(super) fn new(format: Format, file: &'a Arc<SourceFile>, sources: &'a dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| file.path.clone(), |directory| directory.join(&file.path));
        Self { format, file, path, sources, problems: Problems::default() }
    }
}

impl Reader<'_> {
    pub(super) fn error(&mut self, problem: Problem) {
        push(&mut self.problems.errors, problem);
    }

    pub(super) fn warn(&mut self, problem: Problem) {
        push(&mut self.problems.warnings, problem);
    }

    /// The entries of a table. Empty, with an error, for another type.
    pub(super) fn table<'t>(&mut self, node: &'t Node, what: &str, example: &str) -> &'t [Entry] {
        match &node.value {
            Value::Table(entries) => entries,
            _ => {
                self.wrong_type(node, what, self.word_for_table(), example.to_owned());
                &[]
            }
        }
    }

    /// The strings of a list. Other items cause an error.
    pub(super) fn strings<'t>(&mut self, entry: &'t Entry, example: &str) -> Vec<(&'t Node, &'t str)> {
        let what = format!("`{}`", entry.key);
        let Value::Array(items) = &entry.node.value else {
            let example = match entry.node.value {
                Value::String(_) => format!("[{}]", self.source(&entry.node, example)),
                _ => example.to_owned(),
            };
            let help = self.assignment(&entry.key, &example);
            self.wrong_type(&entry.node, &what, "a list of strings", help);
            return Vec::new();
        };
        let what = format!("each item of {what}");
        items.iter().filter_map(|item| self.string(item, &what).map(|text| (item, text))).collect()
    }

    /// The string at `node`. Messages call it `what`.
    pub(super) fn string<'t>(&mut self, node: &'t Node, what: &str) -> Option<&'t str> {
        match &node.value {
            Value::String(text) if text.contains('\0') => {
                let problem = Problem::new(node.span.clone(), format!("{what} contains a NUL character"));
                self.error(problem.help("remove it: arguments, variables and paths cannot contain one"));
                None
            }
            Value::String(text) => Some(text),
            Value::Integer(_) | Value::Float | Value::Bool(_) => {
                let spelt = if self.file.hides(&node.span) { "…" } else { self.source(node, "text") };
                let help = format!("put it in quotes: `\"{spelt}\"`");
                self.wrong_type(node, what, "a string", help);
                None
            }
            _ => {
                self.wrong_type(node, what, "a string", "write text in double quotes".to_owned());
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, entry: &Entry) -> Option<bool> {
        if let Value::Bool(truth) = entry.node.value {
            return Some(truth);
        }
        let help = self.assignment(&entry.key, "true");
        self.wrong_type(&entry.node, &format!("`{}`", entry.key), "true or false", help);
        None
    }

    /// The value of `key`, read by `read`, with its location.
    pub(super) fn key<'t, T>(
        &mut self,
        fields: &mut Fields<'t>,
        key: &'static str,
        read: impl FnOnce(&mut Self, &'t Entry) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let entry = fields.take(key)?;
        let value = read(self, entry)?;
        Some(self.spanned(&entry.node, value))
    }

    /// `value` with the location of `node`.
    pub(super) fn spanned<T>(&self, node: &Node, value: T) -> Spanned<T> {
        self.spanned_at(node.span.clone(), value)
    }

    /// `value` with the location `span`.
    pub(super) fn spanned_at<T>(&self, span: Range<usize>, value: T) -> Spanned<T> {
        Spanned { value, location: Location { file: Arc::clone(self.file), span } }
    }

    pub(super) fn wrong_type(&mut self, node: &Node, what: &str, expected: &str, help: String) {
        let problem = Problem::new(node.span.clone(), format!("{what} must be {expected}"));
        self.error(problem.label(format!("this is {}", node.value.type_name())).help(help));
    }

    /// A help text with an assignment in the syntax of the file.
    pub(super) fn assignment(&self, key: &str, value: &str) -> String {
        match self.format {
            Format::Native => format!("write {}", assignment(Syntax::Toml, key, value)),
            Format::Foreign(syntax) => format!("write {}", assignment(syntax, key, value)),
            Format::Variable => format!("write `{}={}`", self.file.path.display(), value.trim_matches(['[', '"', ']'])),
        }
    }

    /// The text of a value in the file, if it is short enough to print.
    pub(super) fn source<'s>(&'s self, node: &Node, otherwise: &'s str) -> &'s str {
        let spelt = self.file.text.get(node.span.clone()).unwrap_or_default();
        if spelt.is_empty() || spelt.len() > 60 || spelt.contains('\n') { otherwise } else { spelt }
    }

    pub(super) fn word_for_table(&self) -> &'static str {
        match self.format {
            Format::Native | Format::Foreign(Syntax::Toml) | Format::Variable => "a table",
            Format::Foreign(Syntax::Json) => "an object",
            Format::Foreign(Syntax::Yaml) => "a mapping",
        }
    }
}

fn push(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < MAX_PROBLEMS {
        problems.push(problem);
    }
}

/// The remaining entries of one table, and every known key.
pub(super) struct Fields<'t> {
    /// The table, as messages name it. For a variable, the part of its name between `MCPD_` and the key.
    table: String,
    entries: Vec<&'t Entry>,
    known: Vec<&'static str>,
    /// The known keys that the table does not have.
    absent: Vec<&'static str>,
}

impl<'t> Fields<'t> {
    pub(super) fn new(table: impl Into<String>, entries: &'t [Entry]) -> Self {
        Self { table: table.into(), entries: entries.iter().collect(), known: Vec::new(), absent: Vec::new() }
    }

    /// Takes the entry of `key` and records `key` as known.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'t Entry> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key);
        if index.is_none() {
            self.absent.push(key);
        }
        Some(self.entries.remove(index?))
    }

    /// Takes the entry of `key`, which belongs in another table.
    pub(super) fn take_misplaced(&mut self, key: &str) -> Option<&'t Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Takes the tables that have a `command` or a `url`, as servers have.
    pub(super) fn take_servers(&mut self) -> Vec<&'t Entry> {
        let is_server = |entry: &mut &Entry| ["command", "url"].iter().any(|key| entry.node.get(key).is_some());
        self.entries.extract_if(.., is_server).take(MAX_PROBLEMS).collect()
    }

    /// Whether an unknown key remains.
    pub(super) fn has_unknown(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// Keys of mcpd 0.1, with what mcpd does instead.
const REMOVED: [(&str, &str); 10] = [
    ("backoff_reset", "mcpd uses 10s"),
    ("broadcast_logs", "a log message goes only to the agent that certainly caused it"),
    ("call_history", "mcpd remembers 1000 calls; `call_log` keeps more"),
    ("call_log_max", "mcpd renames the file at 10MiB"),
    ("include", "move the file to `config.d`, or name it with `--config`"),
    ("line_timeout", "mcpd uses 1m"),
    ("max_agents", "each guest may have 64 connections"),
    ("max_bytes", "each guest may have unfinished messages of 4 times `max_message`"),
    ("max_name_length", "mcpd uses 53"),
    ("max_starting", "mcpd starts 4 servers at a time"),
];

/// The help for a key that mcpd had before.
fn removal(key: &str) -> Option<String> {
    let (_, instead) = REMOVED.iter().find(|(removed, _)| *removed == key)?;
    Some(format!("remove it: it was removed in 0.2, and {instead}"))
}

impl Reader<'_> {
    /// In mcpd's own format every remaining key is an error.
    pub(super) fn finish(&mut self, fields: Fields<'_>) {
        for entry in fields.entries.iter().take(MAX_PROBLEMS) {
            let message = format!("unknown key `{}` in {}", entry.key, fields.table);
            let removal = removal(&entry.key);
            let correction = only_misspelt(&entry.key, fields.absent.iter().copied()).filter(|_| removal.is_none());
            let help = removal.unwrap_or_else(|| suggestion(&entry.key, &fields.known));
            let problem = Problem::new(entry.key_span.clone(), message).help(help);
            self.error(problem.correction(correction.map(str::to_owned)));
        }
    }

    /// An unknown variable is ignored. One that resembles a known variable, or names the table `defaults`, causes a warning.
    pub(super) fn finish_variable(&mut self, fields: Fields<'_>) {
        let table = &fields.table;
        for entry in fields.entries {
            let nearest = || nearest(&entry.key, fields.known.iter().copied());
            let suggestion = || nearest().map(|name| format!("did you mean `MCPD_{table}{}`?", name.to_uppercase()));
            let in_file = || (!table.is_empty()).then(|| "write other keys in a file".to_owned());
            if let Some(help) = removal(&entry.key).or_else(suggestion).or_else(in_file) {
                let variable = self.file.path.display();
                let problem = Problem::new(entry.key_span.clone(), format!("variable `{variable}` is unknown to mcpd"));
                self.warn(problem.help(help));
            }
        }
    }

    /// In the format of another client every remaining key is ignored with a warning.
    pub(super) fn finish_loosely(&mut self, fields: Fields<'_>) {
        for entry in fields.entries.iter().take(MAX_PROBLEMS) {
            let message = format!("unknown key `{}` in {} is ignored", entry.key, fields.table);
            let problem = Problem::new(entry.key_span.clone(), message);
            self.warn(match nearest(&entry.key, fields.known.iter().copied()) {
                Some(name) => problem.help(format!("did you mean `{name}`?")),
                None => problem.help("remove it if it was meant for mcpd"),
            });
        }
    }
}

/// The help text that suggests a key instead of `key`.
pub(in super::super) fn suggestion(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("write one of {}", list(known)),
    }
}

/// Joins names for a message: "`a`, `b` or `c`".
fn list(names: &[&str]) -> String {
    joined(names, "or")
}

/// Joins names for a message, with `word` before the last one.
pub(super) fn joined(names: &[&str], word: &str) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}
