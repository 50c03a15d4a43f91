//! Removal of a server from a document.
//!
//! `toml_edit` keeps the comments and the order of everything else. Comments directly above and below the removed tables go
//! with them, and so does one blank line. Comments behind a blank line stay.

use toml_edit::{DocumentMut, Item, Table};

/// A table with a header of its own, by its position in the document.
struct Header {
    position: Option<isize>,
    /// The comments and blank lines above it.
    above: String,
    is_removed: bool,
}

/// Removes the server `name`. `None` if there is no such server.
pub(super) fn remove(document: &mut DocumentMut, name: &str) -> Option<()> {
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
