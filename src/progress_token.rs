//! The progress token of a request. Pure.

use bytes::Bytes;

use crate::jsonrpc::is_id;
use crate::jsonrpc::members::members;

/// Reads the raw progress token in the raw `_meta` of a request. `None` if there is none.
///
/// Source: MCP 2025-11-25, `basic/utilities/progress`.
///
/// # Errors
/// If the token is malformed; the text is for a person.
pub(crate) fn read(meta: Option<Bytes>) -> Result<Option<Bytes>, &'static str> {
    let meta = meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| members(&meta, ["progressToken"]));
    match meta {
        None => Ok(None),
        Some(Ok([token])) if token.as_ref().is_none_or(|raw| is_id(raw)) => Ok(token),
        Some(_) => Err("`_meta` or its `progressToken` is malformed"),
    }
}
