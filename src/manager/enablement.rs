//! Whether a server, or one of its tools, is enabled for agents.

use std::sync::Arc;

use crate::config::ServerConfig;
use crate::server::ServerHandle;

/// An order to enable or disable a server or one of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toggle {
    /// Runs the server and exposes its lists to agents.
    Enable,
    /// Hides the server from agents. Its process keeps running, and calls in flight finish.
    Disable,
    /// Hides the server from agents and stops its process.
    Stop,
    /// Lists this tool and permits calls of it, if policy does. Takes the server's own name or an exposed name.
    EnableTool(String),
    /// Denies this tool until it is enabled, also after the server was removed and added again. While the server has not listed any tools,
    /// every name is accepted, and the tool is denied once it appears.
    DisableTool(String),
}

/// Whether agents see a server, and whether it runs. The configuration decides until an operator does; the operator's decision holds until the
/// daemon stops or the configured `enabled` changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// Agents see its lists.
    Enabled,
    /// It runs, but agents do not see it.
    Disabled,
    /// It has no process, and agents do not see it.
    Stopped,
}

impl Enablement {
    /// What the configuration says.
    pub(super) fn configured(config: &ServerConfig) -> Self {
        if config.settings.enabled { Self::Enabled } else { Self::Stopped }
    }

    /// Whether agents see the server.
    pub(super) fn is_enabled(self) -> bool {
        self == Self::Enabled
    }

    /// Whether the server should run.
    pub(super) fn runs(self) -> bool {
        self != Self::Stopped
    }
}

/// The server, and the tool if any, that a [`Toggle`] applied to.
#[derive(Debug)]
pub(super) struct ToggleResult {
    pub(super) handle: ServerHandle,
    /// The server's own name of the tool.
    pub(super) tool: Option<Arc<str>>,
}
