//! Tools that a modern server runs only as tasks. Pure.
//!
//! The server refuses other calls of such a tool with −32021. So the tool is remembered, and calls of agents without task support
//! declare tasks from then on.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".

use std::collections::HashSet;

use bytes::Bytes;

/// Maximum number of tools. One more clears the set, and the tools are detected again.
const MAX_TOOLS: usize = 1024;

/// The tools of one instance, by their names at the server as text.
#[derive(Debug, Default)]
pub(super) struct ModernTaskOnlyTools {
    names: HashSet<Bytes>,
}

impl ModernTaskOnlyTools {
    pub(super) fn include(&self, name: &Bytes) -> bool {
        self.names.contains(name)
    }

    pub(super) fn remember(&mut self, name: &Bytes) {
        if self.names.len() >= MAX_TOOLS {
            self.names.clear();
        }
        // Copied, so that a small name does not keep a large line in memory.
        self.names.insert(Bytes::copy_from_slice(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_remembered_tools_is_bounded() {
        let (mut tools, name) = (ModernTaskOnlyTools::default(), |n: usize| Bytes::from(format!("\"{n}\"")));
        for n in 0..MAX_TOOLS {
            tools.remember(&name(n));
        }
        assert!(tools.include(&name(0)) && !tools.include(&name(MAX_TOOLS)));
        tools.remember(&name(MAX_TOOLS));
        assert!(!tools.include(&name(0)) && tools.include(&name(MAX_TOOLS)));
    }
}
