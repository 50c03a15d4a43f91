//! The tools of a legacy server that can only be called as tasks. Pure.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`, "Tool-Level Negotiation".

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::List;
use crate::jsonrpc::members::{members, text};

/// The names of these tools in one list.
#[derive(Default)]
pub(super) struct LegacyTaskOnlyTools {
    names: HashSet<Arc<str>>,
}

impl LegacyTaskOnlyTools {
    pub(super) fn of(list: &List) -> Self {
        let tools = list.items.iter().filter(|tool| is_required(&tool.json));
        Self { names: tools.map(|tool| Arc::clone(&tool.key)).collect() }
    }

    /// Whether the tool with this name can only be called as a task.
    pub(super) fn include(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && str::from_utf8(name).is_ok_and(|name| self.names.contains(name))
    }
}

fn is_required(tool: &Bytes) -> bool {
    let support = || {
        let [execution] = members(tool, ["execution"]).ok()?;
        let [support] = members(&execution?, ["taskSupport"]).ok()?;
        text(&support?)
    };
    // Few tools have this member.
    memchr::memmem::find(tool, b"taskSupport").is_some() && support().is_some_and(|support| support[..] == *b"required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_that_requires_a_task_is_found() {
        for (tool, expected) in [
            (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, true),
            (r#"{"name":"a","execution":{"taskSupport":"\u0072equired"}}"#, true),
            (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, false),
            (r#"{"name":"a","taskSupport":"required"}"#, false),
            (r#"{"name":"a","execution":"taskSupport"}"#, false),
            (r#"{"name":"a","execution":{"taskSupport":7}}"#, false),
            (r#"{"name":"a"}"#, false),
        ] {
            assert_eq!(is_required(&Bytes::from_static(tool.as_bytes())), expected, "{tool}");
        }
    }
}
