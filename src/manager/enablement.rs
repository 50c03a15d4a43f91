//! Whether a server, or one of its tools, is enabled for agents.

use std::sync::Arc;

use crate::server::ServerHandle;

/// What is wanted of a server, or of one of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toggle {
    /// It runs, and agents see what it offers.
    Enable,
    /// Agents see nothing of it; its process stays as it is, and calls in flight end as they would.
    Disable,
    /// The same, and its process ends.
    Stop,
    /// This tool is listed and can be called, as far as policy permits. Named as the server or as agents name it.
    EnableTool(String),
    /// This tool is neither listed nor can it be called. A server that has listed nothing yet takes any name, for the tool
    /// to be hidden when it comes.
    DisableTool(String),
}

/// Whether a server is there for agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// They see what it offers.
    Enabled,
    /// They see nothing of it, and it runs.
    Disabled,
    /// There is no process of it.
    Stopped,
}

impl Enablement {
    /// Whether it is to run.
    pub(super) fn runs(self) -> bool {
        self != Self::Stopped
    }
}

/// What has been switched.
#[derive(Debug)]
pub(super) struct ToggleResult {
    pub(super) handle: ServerHandle,
    /// The tool, as its server names it.
    pub(super) tool: Option<Arc<str>>,
}
