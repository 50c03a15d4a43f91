//! Adds a server to the text of a configuration, removes one, or changes a key of one.
//!
//! [`add`] appends a table and leaves the other text unchanged. The other functions edit the parsed document and keep comments and order. Adding and
//! removing a server restores the original text.
//!
//! `serialize` writes values, `removal` removes a server, `change` changes keys, `file` reads and writes files, `overlay` presents edited files to the loader
//! before they are written.

mod change;
pub(crate) mod file;
mod overlay;
mod removal;
mod serialize;
#[cfg(test)]
mod tests;

use toml_edit::DocumentMut;

pub(crate) use self::overlay::Overlay;
pub(super) use self::serialize::toml_key;
pub(crate) use self::serialize::{Setting, toml_string};
use super::tree::{Entry, Node, Value};
use super::{json, toml};
use crate::suggest::nearest;

/// Why a text cannot be edited.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    /// The text is not valid TOML. `mcpd check` reports the location.
    #[error("it is not valid TOML")]
    Syntax,
    /// `servers` is an inline table, or not a table.
    #[error("its `servers` is not written as `[servers.NAME]` tables: add the server by hand")]
    NoTables,
    /// The server exists already.
    #[error("there is a server `{0}` already")]
    Exists(String),
    /// The server does not exist. `nearest` is a similar name.
    #[error("there is no server `{name}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    Unknown { name: String, nearest: Option<String> },
}

/// The names of the servers in `text`, in order.
///
/// # Errors
/// [`EditError::Syntax`].
pub(crate) fn names(text: &str) -> Result<Vec<String>, EditError> {
    let root = parse(without_mark(text).1)?;
    Ok(servers(&root).iter().map(|server| server.key.clone()).collect())
}

/// Whether `text`, in any format, configures the server `name`.
pub(crate) fn configures(text: &str, name: &str) -> bool {
    let text = without_mark(text).1;
    let root = if text.trim_start().starts_with('{') { json::parse(text).root } else { parse(text).ok() };
    let Some(Node { value: Value::Table(entries), .. }) = root else { return false };
    let tables = entries.iter().filter_map(|entry| match &entry.node.value {
        Value::Table(servers) => Some(servers),
        _ => None,
    });
    tables.flatten().any(|server| server.key == name)
}

/// Appends a table `[servers.NAME]` with these keys to `text`.
///
/// If the last line of `text` has no line end, the last line of the result has none, so that a removal restores the text.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::NoTables`], [`EditError::Exists`]. Does not check whether `name` is valid and the result loads.
pub(crate) fn add(text: &str, name: &str, settings: &[(&str, Setting)]) -> Result<String, EditError> {
    let (mark, text) = without_mark(text);
    let root = parse(text)?;
    if servers_entry(&root).is_some_and(|entry| !matches!(entry.node.value, Value::Table(_))) {
        return Err(EditError::NoTables);
    }
    if servers(&root).iter().any(|server| server.key == name) {
        return Err(EditError::Exists(name.to_owned()));
    }
    let newline = line_end(text);
    let table = serialize::server(name, settings).replace('\n', newline);
    let is_ended = text.is_empty() || text.ends_with('\n');
    let before = match (text.is_empty(), is_ended) {
        (true, _) => String::new(),
        (_, true) => newline.to_owned(),
        (_, false) => newline.repeat(2),
    };
    let table = if is_ended { &*table } else { table.trim_end() };
    let result = format!("{text}{before}{table}");
    // A table header cannot extend an inline table.
    parse(&result).map(|_| format!("{mark}{result}")).map_err(|_| EditError::NoTables)
}

/// Removes the server `name` from `text`: its tables, the comments directly above and below them, and one blank line.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`].
pub(crate) fn remove(text: &str, name: &str) -> Result<String, EditError> {
    rewrite(text, name, |document| removal::remove(document, name))
}

/// Sets `enabled` of the server `name`. Removes `enabled = false` instead of writing the default, unless the line has a comment.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`].
pub(crate) fn set_enabled(text: &str, name: &str, enabled: bool) -> Result<String, EditError> {
    rewrite(text, name, |document| change::table(document, name).map(|table| change::set_enabled(table, enabled)))
}

/// Adds the pattern of exactly this tool to `deny` of the server `name`, or removes it.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`].
pub(crate) fn set_denied(text: &str, name: &str, tool: &str, denied: bool) -> Result<String, EditError> {
    rewrite(text, name, |document| change::table(document, name).map(|table| change::set_denied(table, tool, denied)))
}

/// Edits the document, which has the server `name`. All line ends become those of the last line.
fn rewrite(text: &str, name: &str, edit: impl FnOnce(&mut DocumentMut) -> Option<()>) -> Result<String, EditError> {
    let (mark, text) = without_mark(text);
    let root = parse(text)?;
    let known = servers(&root).iter().map(|server| &*server.key);
    if !known.clone().any(|server| server == name) {
        return Err(EditError::Unknown { name: name.to_owned(), nearest: nearest(name, known).map(str::to_owned) });
    }
    let mut document: DocumentMut = text.replace("\r\n", "\n").parse().map_err(|_| EditError::Syntax)?;
    edit(&mut document).ok_or(EditError::Syntax)?;
    let mut result = document.to_string();
    if !text.ends_with('\n') && result.ends_with('\n') {
        result.pop();
    }
    Ok(mark.to_owned() + &result.replace('\n', line_end(text)))
}

/// Splits off all byte order marks. The parser skips the first one only at the beginning of its text.
fn without_mark(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.trim_start_matches('\u{feff}').len())
}

fn parse(text: &str) -> Result<Node, EditError> {
    let parsed = toml::parse(text);
    parsed.root.filter(|_| parsed.problems.is_empty()).ok_or(EditError::Syntax)
}

fn servers(root: &Node) -> &[Entry] {
    let Some(Entry { node: Node { value: Value::Table(servers), .. }, .. }) = servers_entry(root) else { return &[] };
    servers
}

fn servers_entry(root: &Node) -> Option<&Entry> {
    let Value::Table(entries) = &root.value else { return None };
    entries.iter().find(|entry| entry.key == "servers")
}

/// The line end of the last complete line.
fn line_end(text: &str) -> &'static str {
    let is_wide = text.rfind('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if is_wide { "\r\n" } else { "\n" }
}
