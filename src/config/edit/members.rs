//! A server that is a member of an inline table, `servers = { NAME = { … } }`.

use std::ops::Range;

use super::super::tree::Node;
use super::servers_entry;

/// Whether the servers of `text` stand in an inline table.
pub(super) fn around(root: &Node, text: &str) -> bool {
    servers_entry(root).is_some_and(|entry| text[entry.node.span.clone()].starts_with('{'))
}

/// `text` without the member at `place`, and without one comma beside it.
pub(super) fn without(text: &str, place: Range<usize>) -> String {
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let behind = after.trim_start();
    let (before, after) = match (behind.strip_prefix(','), before.trim_end().strip_suffix(',')) {
        (Some(behind), _) => (before, behind.trim_start_matches([' ', '\t'])),
        (None, Some(before)) => (before, after),
        (None, None) => (before, after),
    };
    format!("{before}{after}")
}
