//! A table taken apart key by key; what nobody asked for is an unknown key.

use super::super::tree::{Entry, MAX_PROBLEMS, Problem};
use super::Reader;
use crate::suggest::nearest;

/// The entries of one table that were not asked for yet, and every key that was.
pub(super) struct Fields<'t> {
    /// Where the table is, as a message says it.
    table: String,
    entries: Vec<&'t Entry>,
    known: Vec<&'static str>,
}

impl<'t> Fields<'t> {
    pub(super) fn new(table: impl Into<String>, entries: &'t [Entry]) -> Self {
        Self { table: table.into(), entries: entries.iter().collect(), known: Vec::new() }
    }

    /// The entry of `key`, which is thereby known.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'t Entry> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// The entry of `key`, which is known elsewhere and not here.
    pub(super) fn take_misplaced(&mut self, key: &str) -> Option<&'t Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Whether a key is left that is not known here.
    pub(super) fn has_unknown(&self) -> bool {
        !self.entries.is_empty()
    }
}

impl Reader<'_> {
    /// Our own format: every key left over is an error.
    pub(super) fn finish(&mut self, fields: Fields<'_>) {
        for entry in fields.entries.iter().take(MAX_PROBLEMS) {
            let message = format!("unknown key `{}` in {}", entry.key, fields.table);
            let help = suggestion(&entry.key, &fields.known);
            self.error(Problem::new(entry.key_span.clone(), message).help(help));
        }
    }

    /// A variable: one that is left over is likely another program's, unless it looks like one of ours.
    pub(super) fn finish_variable(&mut self, fields: Fields<'_>) {
        for entry in fields.entries {
            if let Some(name) = nearest(&entry.key, fields.known.iter().copied()) {
                let variable = self.file.path.display();
                let problem =
                    Problem::new(entry.key_span.clone(), format!("variable `{variable}` says nothing to mcpd"));
                self.warn(problem.help(format!("did you mean `MCPD_{}`?", name.to_uppercase())));
            }
        }
    }

    /// The format of other clients: every key left over is theirs, and is said to be ignored.
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

/// What to write instead of `key`.
pub(in super::super) fn suggestion(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("write one of {}", list(known)),
    }
}

/// Names for a message: "`a`, `b` or `c`".
fn list(names: &[&str]) -> String {
    joined(names, "or")
}

/// Names for a message, the last after `word`.
pub(super) fn joined(names: &[&str], word: &str) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}
