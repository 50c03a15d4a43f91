//! Adds a server to the text of a configuration, removes one, or changes a key of one.
//!
//! [`add`] appends a table and leaves the other text unchanged. The other functions edit the parsed document: `toml_edit` keeps the comments
//! and the order of everything else. Comments directly above and below removed tables go with them, and so does one blank line. Comments
//! behind a blank line stay. Adding and removing a server restores the original text.
//!
//! `argument` replaces an argument in every format. [`file`] reads and writes files, and presents edited files to the loader before they are written.

mod argument;
pub(crate) mod file;
#[cfg(test)]
mod tests;

use toml_edit::{Array, DocumentMut, Item, RawString, Table, TableLike, Value};

use super::serialize::{self, Setting};
use super::tree::{self, Entry, Node};
use super::{json, toml};
use crate::policy::exact_pattern;
use crate::suggest::nearest;

pub(crate) use self::file::Overlay;

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
    let Some(Node { value: tree::Value::Table(entries), .. }) = root else { return false };
    let tables = entries.iter().filter_map(|entry| match &entry.node.value {
        tree::Value::Table(servers) => Some(servers),
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
    if servers_entry(&root).is_some_and(|entry| !matches!(entry.node.value, tree::Value::Table(_))) {
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
    rewrite(text, name, |document| remove_tables(document, name))
}

/// Sets `enabled` of the server `name`. Removes `enabled = false` instead of writing the default, unless the line has a comment.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`].
pub(crate) fn set_enabled(text: &str, name: &str, enabled: bool) -> Result<String, EditError> {
    rewrite(text, name, |document| server_table(document, name).map(|table| set_enabled_in(table, enabled)))
}

/// Adds the pattern of exactly this tool to `deny` of the server `name`, or removes it.
///
/// # Errors
/// [`EditError::Syntax`], [`EditError::Unknown`].
pub(crate) fn set_denied(text: &str, name: &str, tool: &str, denied: bool) -> Result<String, EditError> {
    rewrite(text, name, |document| server_table(document, name).map(|table| set_denied_in(table, tool, denied)))
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
    let Some(Entry { node: Node { value: tree::Value::Table(servers), .. }, .. }) = servers_entry(root) else {
        return &[];
    };
    servers
}

fn servers_entry(root: &Node) -> Option<&Entry> {
    let tree::Value::Table(entries) = &root.value else { return None };
    entries.iter().find(|entry| entry.key == "servers")
}

/// The line end of the last complete line.
fn line_end(text: &str) -> &'static str {
    let is_wide = text.rfind('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if is_wide { "\r\n" } else { "\n" }
}

/// The table of the server `name`.
fn server_table<'d>(document: &'d mut DocumentMut, name: &str) -> Option<&'d mut dyn TableLike> {
    document.get_mut("servers")?.as_table_like_mut()?.get_mut(name)?.as_table_like_mut()
}

fn set_enabled_in(server: &mut dyn TableLike, enabled: bool) {
    const KEY: &str = "enabled";
    let has_comment = server.get_key_value(KEY).is_some_and(|(key, item)| {
        let mut decors = [Some(key.leaf_decor()), item.as_value().map(Value::decor)].into_iter().flatten();
        decors.any(|decor| [decor.prefix(), decor.suffix()].into_iter().any(|side| decor_text(side).contains('#')))
    });
    if enabled && !has_comment {
        server.remove(KEY);
        return;
    }
    match server.get_mut(KEY).and_then(Item::as_value_mut) {
        Some(value) => {
            let decor = value.decor().clone();
            *value = enabled.into();
            *value.decor_mut() = decor;
        }
        None => drop(server.insert(KEY, Item::Value(enabled.into()))),
    }
}

fn set_denied_in(server: &mut dyn TableLike, tool: &str, denied: bool) {
    const KEY: &str = "deny";
    let pattern = exact_pattern(tool);
    if denied && !server.contains_key(KEY) {
        server.insert(KEY, Item::Value(Array::new().into()));
    }
    let Some(patterns) = server.get_mut(KEY).and_then(Item::as_array_mut) else { return };
    let found = patterns.iter().position(|value| value.as_str() == Some(&pattern));
    match (denied, found) {
        (true, None) => push(patterns, &pattern),
        (false, Some(index)) => {
            let removed = patterns.remove(index);
            if index == 0
                && let Some(next) = patterns.get_mut(0)
                && !decor_text(next.decor().prefix()).contains('#')
            {
                next.decor_mut().set_prefix(decor_text(removed.decor().prefix()));
            }
            let suffix = decor_text(removed.decor().suffix());
            if index == patterns.len()
                && let Some(last) = index.checked_sub(1).and_then(|last| patterns.get_mut(last))
                && decor_text(last.decor().suffix()).is_empty()
            {
                last.decor_mut().set_suffix(suffix);
            }
            if patterns.is_empty() {
                server.remove(KEY);
            }
        }
        _ => {}
    }
}

/// The white space and comments on one side of a value.
fn decor_text(decor: Option<&RawString>) -> String {
    decor.and_then(|text| text.as_str()).unwrap_or_default().to_owned()
}

/// Appends `item` in the layout of the last item.
fn push(items: &mut Array, item: &str) {
    let index = items.len();
    items.push(item);
    let Some(last) = index.checked_sub(1).and_then(|last| items.get_mut(last)) else { return };
    let (prefix, suffix) = (decor_text(last.decor().prefix()), decor_text(last.decor().suffix()));
    let is_comment = suffix.contains('#');
    if !is_comment {
        last.decor_mut().set_suffix("");
    }
    if let Some(added) = items.get_mut(index) {
        if let Some((_, indent)) = prefix.rsplit_once('\n') {
            added.decor_mut().set_prefix(format!("\n{indent}"));
        }
        if !is_comment {
            added.decor_mut().set_suffix(suffix);
        }
    }
}

/// A table with a header of its own, by its position in the document.
struct Header {
    position: Option<isize>,
    /// The comments and blank lines above it.
    above: String,
    is_removed: bool,
}

/// Removes the server `name`. `None` if there is no such server.
fn remove_tables(document: &mut DocumentMut, name: &str) -> Option<()> {
    let mut headers = Vec::new();
    document.iter_mut().for_each(|(_, item)| each_header(item, &mut |table| headers.push(Header::of(table))));
    headers.sort_by_key(|header| header.position);
    let mut server = document.get_mut("servers")?.as_table_like_mut()?.remove(name)?;
    each_header(&mut server, &mut |table| {
        let of_server = headers.iter_mut().filter(|header| header.position == table.position());
        of_server.for_each(|header| header.is_removed = true);
    });
    let starts_with_header = document.get_values().is_empty();
    let mut removed_from = None;
    for index in 0..=headers.len() {
        if headers.get(index).is_some_and(|header| header.is_removed) {
            removed_from = removed_from.or(Some(index));
            continue;
        }
        if let Some(start) = removed_from.take() {
            let at_start = starts_with_header && start == 0;
            match headers.get(index) {
                Some(next) => {
                    let above = joined(&headers[start].above, &next.above, at_start, false);
                    set_above(document, next.position, &above);
                }
                None => {
                    let trailing = document.trailing().as_str().unwrap_or_default();
                    let trailing = joined(&headers[start].above, trailing, at_start, true);
                    document.set_trailing(trailing);
                }
            }
        }
    }
    Some(())
}

impl Header {
    fn of(table: &Table) -> Self {
        let above = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
        Self { position: table.position(), above, is_removed: false }
    }
}

/// Calls `see` with each table in `item` that has a header.
fn each_header(item: &mut Item, see: &mut dyn FnMut(&mut Table)) {
    match item {
        Item::Table(table) => within(table, see),
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table| within(table, see)),
        Item::None | Item::Value(_) => {}
    }
}

fn within(table: &mut Table, see: &mut dyn FnMut(&mut Table)) {
    if !table.is_implicit() && !table.is_dotted() {
        see(table);
    }
    table.iter_mut().for_each(|(_, item)| each_header(item, see));
}

fn set_above(document: &mut DocumentMut, position: Option<isize>, above: &str) {
    document.iter_mut().for_each(|(_, item)| {
        each_header(item, &mut |table| {
            if table.position() == position {
                table.decor_mut().set_prefix(above);
            }
        });
    });
}

/// The remaining text above and below removed tables at the start or end of the document.
fn joined(above: &str, below: &str, at_start: bool, at_end: bool) -> String {
    let mut rest: Vec<_> = above.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    while rest.last().is_some_and(|line| is_comment(line)) {
        rest.pop();
    }
    let has_blank = rest.pop().is_some();
    let mut below: Vec<_> = below.split_inclusive('\n').collect();
    let comments = below.iter().take_while(|line| is_comment(line)).count();
    if below.get(comments).map_or(at_end, |line| line.trim().is_empty() && line.ends_with('\n')) {
        below.drain(..comments);
    }
    if at_start && !has_blank && below.first().is_some_and(|line| line.trim().is_empty()) {
        below.remove(0);
    }
    rest.concat() + &below.concat()
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}
