//! Takes the entries of a table by key. Remaining entries are unknown keys.

use super::super::tree::{Entry, MAX_PROBLEMS, Problem};
use super::Reader;
use crate::suggest::{nearest, only_misspelt};

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
