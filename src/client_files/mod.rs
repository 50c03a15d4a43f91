//! Lossless edits of other clients' configuration files: one entry of one table is added, replaced, removed or put back.
//!
//! An edit is a list of splices, so all other bytes stay as they are. After each edit the new text is parsed again. If it differs in meaning
//! from the old text by anything but the entry, the edit fails and the text stays as it was.
//!
//! Pure: no I/O.

mod json;
mod layout;
mod toml;
mod tree;
mod yaml;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use layout::{Splice, splice};
use tree::Tree;

/// The language of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// With comments, trailing commas and the spelling of JSON5.
    Json,
    Toml,
    Yaml,
}

/// A value to write, with its members in the order of output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    List(Vec<String>),
    Table(Vec<(String, Value)>),
}

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub(crate) struct SyntaxError {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    /// Without any value of the file.
    pub(crate) message: String,
}

impl SyntaxError {
    fn at(text: &str, place: usize, message: impl Into<String>) -> Self {
        let before = text.get(..place).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        Self { line, column: before[line_start..].chars().count() + 1, message: message.into() }
    }
}

/// Why a text is not edited.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum EditError {
    /// By its path, which is empty for the whole file.
    #[error("{} is not a table", if .0.is_empty() { "the file".to_owned() } else { format!("`{}`", .0.join(".")) })]
    NotATable(Vec<String>),
    #[error("`{0}` is written twice in one table")]
    Twice(String),
    #[error("there is an entry `{0}` already")]
    Taken(String),
    #[error("{0}")]
    Unsupported(&'static str),
    /// The edit would have changed more than its entry.
    #[error("mcpd cannot edit this file without changing other parts of it")]
    Unsafe,
}

/// A name of something in a file that stays if the file is changed elsewhere.
type Mark = Vec<String>;

/// What stands between two neighbours, with and without the entry.
#[derive(Clone, Serialize, Deserialize)]
struct Gap {
    /// `None` at the beginning of the table, or of the file.
    previous: Option<Mark>,
    /// `None` at the end.
    next: Option<Mark>,
    with: String,
    without: String,
}

/// A part of an entry's source text.
#[derive(Clone, Serialize, Deserialize)]
struct Part {
    /// In TOML, the keys of the header that it stands below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    section: Vec<String>,
    text: String,
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self { section: Vec::new(), text: text.to_owned() }
    }
}

/// An entry that `remove` took out of a text, with what `restore` needs. It holds whatever the entry held, so secrets, too.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Removed {
    table: Vec<String>,
    name: String,
    tree: Tree,
    /// Its source text, with its comments.
    parts: Vec<Part>,
    /// The places of the parts.
    gaps: Vec<Gap>,
}

impl Removed {
    fn table(&self) -> Vec<&str> {
        self.table.iter().map(String::as_str).collect()
    }
}

impl fmt::Debug for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removed").field("table", &self.table).field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a syntax takes an entry out.
struct Cut {
    /// As in [`Removed`].
    parts: Vec<Part>,
    /// With the range of each in the text.
    gaps: Vec<(Gap, Range<usize>)>,
}

/// The text of a client's file.
#[derive(Clone)]
pub(crate) struct ClientText {
    syntax: Syntax,
    text: String,
    tree: Tree,
}

impl fmt::Debug for ClientText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientText").field("syntax", &self.syntax).finish_non_exhaustive()
    }
}

const BOM: char = '\u{feff}';

fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

fn read(syntax: Syntax, body: &str) -> Result<Tree, SyntaxError> {
    match syntax {
        Syntax::Json => json::read(body),
        Syntax::Toml => toml::read(body),
        Syntax::Yaml => yaml::read(body),
    }
}

impl ClientText {
    /// Reads `text`. A blank text is an empty file.
    pub(crate) fn parse(syntax: Syntax, text: &str) -> Result<Self, SyntaxError> {
        let tree = read(syntax, without_bom(text))?;
        Ok(Self { syntax, text: text.to_owned(), tree })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn body(&self) -> &str {
        without_bom(&self.text)
    }

    /// The names in a table, in the order of the file.
    pub(crate) fn names(&self, table: &[&str]) -> Vec<String> {
        let members = self.tree.table(table).ok().flatten().unwrap_or_default();
        let mut names: Vec<String> = Vec::with_capacity(members.len());
        for (name, _) in members {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The source text of an entry's value.
    pub(crate) fn entry(&self, table: &[&str], name: &str) -> Option<Cow<'_, str>> {
        self.tree.table(table).ok().flatten()?.iter().find(|(other, _)| other == name)?;
        match self.syntax {
            Syntax::Json => json::entry(self.body(), table, name).map(Cow::Borrowed),
            Syntax::Toml => toml::entry(self.body(), table, name),
            Syntax::Yaml => yaml::entry(self.body(), table, name).map(Cow::Borrowed),
        }
    }

    /// Adds an entry at the end of the table, which is made if it is missing. An entry of this name is replaced in its place, unless it
    /// means the same.
    pub(crate) fn insert(&mut self, table: &[&str], name: &str, entry: &Value) -> Result<(), EditError> {
        let mut expected = self.tree.clone();
        expected.set(table, name, Tree::from(entry))?;
        if expected == self.tree {
            return Ok(());
        }
        let splices = match self.syntax {
            Syntax::Json => json::insert(self.body(), table, name, entry),
            Syntax::Toml => toml::insert(self.body(), table, name, entry),
            Syntax::Yaml => yaml::insert(self.body(), table, name, entry),
        }?;
        self.apply(&splices, &[expected])
    }

    /// Removes an entry, with the comments that belong to it. `None` without such an entry. The table stays, even if it is empty then.
    pub(crate) fn remove(&mut self, table: &[&str], name: &str) -> Result<Option<Removed>, EditError> {
        let mut expected = self.tree.clone();
        let Some(tree) = expected.take(table, name)? else { return Ok(None) };
        let cut = match self.syntax {
            Syntax::Json => json::remove(self.body(), table, name),
            Syntax::Toml => toml::remove(self.body(), table, name),
            Syntax::Yaml => yaml::remove(self.body(), table, name),
        }?;
        let splices: Vec<_> =
            cut.gaps.iter().map(|(gap, range)| Splice { range: range.clone(), with: gap.without.clone() }).collect();
        let mut expected = vec![expected];
        // A table of TOML needs no header of its own, so it may vanish with its last entry.
        if self.syntax == Syntax::Toml {
            expected.push(expected[0].pruned(table));
        }
        self.apply(&splices, &expected)?;
        Ok(Some(Removed {
            table: table.iter().map(|&key| key.to_owned()).collect(),
            name: name.to_owned(),
            tree,
            parts: cut.parts,
            gaps: cut.gaps.into_iter().map(|(gap, _)| gap).collect(),
        }))
    }

    /// Puts back what `remove` took out: the same bytes if its neighbours are as they were, else next to a neighbour that still exists, or
    /// at the end of the table. Several entries are put back in the reverse order of their removal.
    pub(crate) fn restore(&mut self, removed: &Removed) -> Result<(), EditError> {
        let table = removed.table();
        let mut expected = self.tree.clone();
        if expected.set(&table, &removed.name, removed.tree.clone())? {
            return Err(EditError::Taken(removed.name.clone()));
        }
        let expected = [expected];
        if let Some(splices) = self.old_places(removed)
            && self.apply(&splices, &expected).is_ok()
        {
            return Ok(());
        }
        let splices = match self.syntax {
            Syntax::Json => json::restore(self.body(), removed),
            Syntax::Toml => toml::restore(self.body(), removed),
            Syntax::Yaml => yaml::restore(self.body(), removed),
        }?;
        self.apply(&splices, &expected)
    }

    /// The splices that undo those of `remove`, if what is around them is as it was.
    fn old_places(&self, removed: &Removed) -> Option<Vec<Splice>> {
        let (body, table) = (self.body(), removed.table());
        let splice_of = |gap: &Gap| {
            let range = match self.syntax {
                Syntax::Json => json::between(body, &table, gap),
                Syntax::Toml => toml::between(body, &table, gap),
                Syntax::Yaml => yaml::between(body, &table, gap),
            }?;
            (body[range.clone()] == gap.without).then(|| Splice { range, with: gap.with.clone() })
        };
        removed.gaps.iter().map(splice_of).collect()
    }

    /// Changes the text if it then means one of `expected`.
    fn apply(&mut self, splices: &[Splice], expected: &[Tree]) -> Result<(), EditError> {
        let body = splice(self.body(), splices).ok_or(EditError::Unsafe)?;
        let tree = read(self.syntax, &body).map_err(|_| EditError::Unsafe)?;
        if !expected.contains(&tree) {
            return Err(EditError::Unsafe);
        }
        let bom = &self.text[..self.text.len() - self.body().len()];
        self.text = format!("{bom}{body}");
        self.tree = tree;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
