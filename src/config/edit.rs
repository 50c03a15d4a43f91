//! A server written into the text of a configuration, or taken out of it; nothing else is touched.
//!
//! The text is cut at the places that the loader's own parser gives, and never written anew: whatever a person has put
//! around a server stays as it is, line ends and a missing last one included. What [`add`] has added, [`remove`] takes
//! out so that not a byte is left.
//!
//! `spell` writes values, `lines` cuts whole lines, `members` cuts out of an inline table, `file` reads and writes files;
//! `proposed` is the world as it would be after an edit, to be checked first.

pub(crate) mod file;
mod lines;
mod members;
mod overlay;
mod serialize;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

pub(crate) use self::overlay::Overlay;
pub(super) use self::serialize::toml_key;
pub(crate) use self::serialize::{Setting, toml_string};
use super::tree::{Entry, Node, Value};
use super::{json, toml};
use crate::suggest::nearest;

/// Why a text is not edited.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    /// `mcpd check` says where.
    #[error("it is no TOML that can be read")]
    Syntax,
    /// `servers` is no table, or an inline one.
    #[error("its `servers` is not written as `[servers.NAME]` tables: add to it by hand")]
    NoTables,
    /// It has a server of this name.
    #[error("there is a server `{0}` already")]
    Exists(String),
    /// It has no server of this name; perhaps one that is spelt much alike.
    #[error("there is no server `{name}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    Unknown { name: String, nearest: Option<String> },
    /// Something else is written amid it.
    #[error("server `{0}` is written amid something else: edit it by hand")]
    Entangled(String),
}

/// The names of the servers that `text` configures, in its order.
///
/// # Errors
/// [`EditError::Syntax`].
pub(crate) fn names(text: &str) -> Result<Vec<String>, EditError> {
    let root = parse(without_mark(text).1)?;
    Ok(servers(&root).iter().map(|server| server.key.clone()).collect())
}

/// Whether `text`, in whatever format, configures the server `name`.
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

/// `text` with a table `[servers.NAME]` of these keys at its end.
///
/// A file whose last line is not ended is left with one like that, so that it can be taken out again.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::NoTables`], [`EditError::Exists`]. Whether `name` may name a server, and whether
/// the result loads, is not looked at.
pub(crate) fn add(text: &str, name: &str, settings: &[(&str, Setting)]) -> Result<String, EditError> {
    let (mark, text) = without_mark(text);
    let root = parse(text)?;
    if !takes_tables(&root, text) {
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
    changes_only(name, text, &root, &result).then(|| format!("{mark}{result}")).ok_or(EditError::NoTables)
}

/// `text` without the server `name`: its tables, the comments that stand directly above and below them, and one blank
/// line.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`], [`EditError::Entangled`].
pub(crate) fn remove(text: &str, name: &str) -> Result<String, EditError> {
    let (mark, text) = without_mark(text);
    let root = parse(text)?;
    let Some(server) = servers(&root).iter().find(|server| server.key == name) else {
        let known = servers(&root).iter().map(|server| &*server.key);
        return Err(EditError::Unknown { name: name.to_owned(), nearest: nearest(name, known).map(str::to_owned) });
    };
    let result = match members::around(&root, text) {
        true => members::without(text, span(server)),
        false => lines::without(text, &root, server),
    };
    let is_done = changes_only(name, text, &root, &result) && !names(&result)?.iter().any(|left| left == name);
    is_done.then(|| format!("{mark}{result}")).ok_or_else(|| EditError::Entangled(name.to_owned()))
}

/// The byte order mark, which the parser does not see, and the rest.
fn without_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
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

/// Whether a header `[servers.NAME]` adds to the servers of `text`.
fn takes_tables(root: &Node, text: &str) -> bool {
    servers_entry(root).is_none_or(|entry| matches!(entry.node.value, Value::Table(_)) && !members::around(root, text))
}

/// What ends most lines: as the last one that is ended.
fn line_end(text: &str) -> &'static str {
    let is_wide = text.rfind('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if is_wide { "\r\n" } else { "\n" }
}

/// The places of everything an entry is written in, as one.
fn span(entry: &Entry) -> Range<usize> {
    let own = entry.key_span.start.min(entry.node.span.start)..entry.key_span.end.max(entry.node.span.end);
    let within = if let Value::Table(entries) = &entry.node.value { &entries[..] } else { &[] };
    within.iter().map(span).fold(own, |all, one| all.start.min(one.start)..all.end.max(one.end))
}

/// Whether all that `result` says beside the server `name` is what `text` says, of which `root` is the tree.
fn changes_only(name: &str, text: &str, root: &Node, result: &str) -> bool {
    let said = |root: &Node, text: &str| {
        let (mut said, server) = (BTreeSet::new(), vec!["servers".to_owned(), name.to_owned()]);
        collect(root, text, &mut Vec::new(), &mut said);
        said.retain(|(path, _)| !path.starts_with(&server));
        said
    };
    parse(result).is_ok_and(|after| said(root, text) == said(&after, result))
}

/// Every value that is no table, by its path, as it is spelt.
fn collect(node: &Node, text: &str, path: &mut Vec<String>, said: &mut BTreeSet<(Vec<String>, String)>) {
    let Value::Table(entries) = &node.value else {
        said.insert((path.clone(), text[node.span.clone()].to_owned()));
        return;
    };
    for entry in entries {
        path.push(entry.key.clone());
        collect(&entry.node, text, path, said);
        path.pop();
    }
}
