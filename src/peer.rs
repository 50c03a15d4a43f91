//! What a peer says of itself, made fit for a status line.
//!
//! Pure. For display only: nothing may be decided by it (MCP 2026-07-28, `basic/index`, "General fields").

use bytes::Bytes;

use crate::jsonrpc::members::{members, text};

/// `name version` of a raw `clientInfo` or `serverInfo`, in at most `longest` characters.
pub(crate) fn software(info: &Bytes, longest: usize) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let parts = [name, version].into_iter().flatten().filter_map(|raw| text(&raw));
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    Some(printable(&parts.join(" "), longest))
}

/// The first `longest` characters of a peer's words, without any that could steer a terminal.
pub(crate) fn printable(text: &str, longest: usize) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(longest).collect()
}
