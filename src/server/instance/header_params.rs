//! Tool arguments that modern servers at a URL require in HTTP headers, too.
//!
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Schema Extension" and "Client Behavior".

use bytes::Bytes;

use super::wire::Wire;
use crate::calls::CallOutcome;
use crate::catalog::List;
use crate::era::HEADER_MISMATCH;
use crate::jsonrpc::members::{members, text};
use crate::printable::excerpt;
use crate::server::error::ServerError;
use crate::server::messages::call::Failure;
use crate::transport::http::HeaderParams;

/// Maximum number of omitted tools that are named in the log.
const MAX_NAMED: usize = 10;
/// Maximum number of characters of a tool's name or of the server's message in the log.
const MAX_EXCERPT_LEN: usize = 100;

/// Reads the header requirements of the tools in a list, and removes tools with invalid requirements.
pub(super) fn without_unfit(wire: &mut Wire, server: &str, mut list: List) -> List {
    if !wire.has_headers() {
        return list;
    }
    let (mut params, mut left_out) = (HeaderParams::default(), 0);
    list.items.retain(|tool| {
        let Err(why) = params.note(&tool.key, &tool.json) else { return true };
        left_out += 1;
        if left_out <= MAX_NAMED {
            let tool = excerpt(&tool.key, MAX_EXCERPT_LEN);
            tracing::warn!(%server, tool, "the tool is not offered: its schema {why}");
        }
        false
    });
    if left_out > MAX_NAMED {
        tracing::warn!(%server, "{} more tools are not offered for similar reasons", left_out - MAX_NAMED);
    }
    wire.set_header_params(params);
    list
}

/// The failure of a call that the server has refused for its headers, if this error means that. The server has not acted on the call.
/// Its tools have changed, so they are listed again and the agent has to call again.
pub(super) fn refusal(wire: &Wire, error: &Bytes) -> Option<Failure> {
    if !wire.has_headers() || CallOutcome::of(Err(error)).code() != Some(HEADER_MISMATCH.into()) {
        return None;
    }
    let message = members(error, ["message"]).ok().and_then(|[raw]| text(&raw?)).unwrap_or_default();
    let message = excerpt(&String::from_utf8_lossy(&message), MAX_EXCERPT_LEN);
    Some(Failure::Unavailable { reason: ServerError::HeaderMismatch(message), retry_after: None })
}
