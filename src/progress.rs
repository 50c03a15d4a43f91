//! Whether a peer wants to hear how far its request is, and under which token. Pure.

use bytes::Bytes;

use crate::jsonrpc::is_id;
use crate::jsonrpc::members::members;

/// The progress token, raw, in the raw `_meta` of a request; `None` if it has none.
///
/// Source: MCP 2025-11-25, `basic/utilities/progress`.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn token(meta: Option<Bytes>) -> Result<Option<Bytes>, &'static str> {
    let meta = meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| members(&meta, ["progressToken"]));
    match meta {
        None => Ok(None),
        Some(Ok([token])) if token.as_ref().is_none_or(|raw| is_id(raw)) => Ok(token),
        Some(_) => Err("`_meta` or its `progressToken` is malformed"),
    }
}
