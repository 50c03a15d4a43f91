//! The name and version that a client or server declares, limited in length.
//!
//! Pure. For display only: nothing may be decided by it (MCP 2026-07-28, `basic/index`, "General fields").

use bytes::Bytes;

use crate::jsonrpc::members::{members, text};
use crate::printable::beginning;

/// `name version` of a raw `clientInfo` or `serverInfo`, in at most `max_len` characters.
pub(crate) fn name_and_version(info: &Bytes, max_len: usize) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let parts = [name, version].into_iter().flatten().filter_map(|raw| text(&raw));
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    Some(beginning(&parts.join(" "), max_len).to_owned())
}
