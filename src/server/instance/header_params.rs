//! Tools whose arguments are repeated in HTTP headers, which modern servers at a URL may require.
//!
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Schema Extension" and "Client Behavior".

use bytes::Bytes;

use super::wire::Wire;
use crate::calls::Outcome;
use crate::catalog::List;
use crate::era::HEADER_MISMATCH;
use crate::jsonrpc::members::{members, text};
use crate::printable::excerpt;
use crate::server::error::ServerError;
use crate::server::messages::call::Failure;
use crate::transport::http::HeaderParams;

/// Tools of one list that are named in the log when they are left out; of others the number is logged.
const MAX_NAMED: usize = 10;
/// Most characters shown of a tool's name, or of the server's message.
const MAX_EXCERPT_LEN: usize = 100;

/// Takes note of what the tools of a list require, and leaves out those that require what they must not.
pub(super) fn without_unfit(wire: &mut Wire, server: &str, mut list: List) -> List {
    if !wire.has_headers() {
        return list;
    }
    let (mut params, mut left_out) = (HeaderParams::default(), 0);
    list.items.retain(|tool| {
        let Err(why) = params.note(&tool.key, &tool.definition) else { return true };
        left_out += 1;
        if left_out <= MAX_NAMED {
            let tool = excerpt(&tool.key, MAX_EXCERPT_LEN);
            tracing::warn!(%server, tool, "it is not offered: its schema {why}");
        }
        false
    });
    if left_out > MAX_NAMED {
        tracing::warn!(%server, "{} more tools are not offered for such reasons", left_out - MAX_NAMED);
    }
    wire.set_header_params(params);
    list
}

/// Why a call fails that the server has refused for its headers, if this error says so. The server has looked at nothing else, and its
/// tools have changed: they have to be listed again, and the agent has to call again.
pub(super) fn refusal(wire: &Wire, error: &Bytes) -> Option<Failure> {
    if !wire.has_headers() || Outcome::of(Err(error)).code() != Some(HEADER_MISMATCH.into()) {
        return None;
    }
    let message = members(error, ["message"]).ok().and_then(|[raw]| text(&raw?)).unwrap_or_default();
    let message = excerpt(&String::from_utf8_lossy(&message), MAX_EXCERPT_LEN);
    Some(Failure::Unavailable { reason: ServerError::HeaderMismatch(message), retry_after: None })
}
