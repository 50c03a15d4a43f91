//! Lists that were fetched, as they are published: without the tools whose header requirements are invalid.
//!
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Schema Extension" and "Client Behavior".

use super::lists::Fetch;
use super::wire::Wire;
use super::{Effect, Effects, Instance};
use crate::catalog::List;
use crate::list_kind::ListKind;
use crate::printable::excerpt;
use crate::transport::http::HeaderParams;

/// Maximum number of omitted tools that are named in the log.
const MAX_NAMED: usize = 10;
/// Maximum number of characters of a tool's name in the log.
const MAX_EXCERPT_LEN: usize = 100;

impl Instance {
    /// Reports how the fetch of a list has ended.
    pub(super) fn report_fetch(&mut self, fetch: Fetch) -> Effects {
        match fetch {
            Fetch::Continues => Effects::none(),
            Fetch::Done(kind, list) => {
                let list = self.prepare(kind, list);
                Effect::Listed { kind, list, settled: self.lists.are_settled() }.into()
            }
            Fetch::Failed { kind, reason, partial } => {
                let partial = partial.map(|list| self.prepare(kind, list));
                Effect::ListFailed { kind, reason, partial, settled: self.lists.are_settled() }.into()
            }
        }
    }

    /// The list as it is published.
    fn prepare(&mut self, kind: ListKind, list: List) -> List {
        if kind != ListKind::Tools {
            return list;
        }
        let mut list = without_unfit(&mut self.wire, &self.config.name, list);
        list.makes_tasks = self.tasks.support().of_calls;
        list
    }
}

/// Reads the header requirements of the tools in a list, and removes tools with invalid requirements.
fn without_unfit(wire: &mut Wire, server: &str, mut list: List) -> List {
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
