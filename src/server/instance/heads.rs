//! Tools that want arguments of theirs in headers, which only servers of the modern era have that are reached by HTTP.

use bytes::Bytes;

use super::Instance;
use crate::calls::Outcome;
use crate::catalog::List;
use crate::era::HEADER_MISMATCH;
use crate::jsonrpc::members::{members, text};
use crate::kind::Kind;
use crate::printable::excerpt;
use crate::server::messages::call::Failure;
use crate::transport::http::Mirrors;

/// Tools that are left out of one list and named in the log; of others it is said how many there are.
const NAMED: usize = 10;
/// Most characters shown of a tool's name, or of what the server says.
const LONGEST: usize = 100;

impl Instance {
    /// Takes note of what the tools of a list want, and leaves out those that want what they must not.
    ///
    /// Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Schema Extension".
    pub(in crate::server) fn without_unfit(&mut self, mut list: List) -> List {
        if !self.wire.has_headers() {
            return list;
        }
        let (mut mirrors, mut left_out, server) = (Mirrors::default(), 0, &self.config.name);
        list.items.retain(|tool| {
            let Err(why) = mirrors.note(&tool.key, &tool.definition) else { return true };
            left_out += 1;
            if left_out <= NAMED {
                let tool = excerpt(&tool.key, LONGEST);
                tracing::warn!(%server, tool, "it is not offered: its schema {why}");
            }
            false
        });
        if left_out > NAMED {
            tracing::warn!(%server, "{} more tools are not offered for such reasons", left_out - NAMED);
        }
        self.wire.set_mirrored(mirrors);
        list
    }

    /// How a call ends that was refused for its headers: these are between mcpd and the server, which has looked at nothing else, and
    /// whose tools have changed, so they are listed again. It is for the agent to call again, who may want another tool then.
    ///
    /// Source: as above, "Client Behavior".
    pub(super) fn refused_for_headers(&mut self, error: &Bytes) -> Option<Failure> {
        if !self.wire.has_headers() || Outcome::of(Err(error)).code() != Some(HEADER_MISMATCH.into()) {
            return None;
        }
        self.lists.has_changed(Kind::Tools);
        let said = members(error, ["message"]).ok().and_then(|[raw]| text(&raw?)).unwrap_or_default();
        let said = excerpt(&String::from_utf8_lossy(&said), LONGEST);
        let reason =
            format!("its tools want other headers than it has listed, so they are listed again; it says: {said}");
        Some(Failure::Unavailable { reason, retry_after: None })
    }
}
