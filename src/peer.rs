//! What a peer says of itself, of bounded length.
//!
//! Pure. For display only: nothing may be decided by it (MCP 2026-07-28, `basic/index`, "General fields").

use bytes::Bytes;

use crate::jsonrpc::members::{members, text};
use crate::printable::beginning;

/// `name version` of a raw `clientInfo` or `serverInfo`, in at most `longest` characters.
pub(crate) fn software(info: &Bytes, longest: usize) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let parts = [name, version].into_iter().flatten().filter_map(|raw| text(&raw));
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    Some(beginning(&parts.join(" "), longest).to_owned())
}
