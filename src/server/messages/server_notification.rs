//! Notifications of a server without a call, on the way to a session. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::tasks::TaskState;
use crate::era::Era;
use crate::log_level::LogLevel;

/// A notification of a server without a call.
#[derive(Debug, Clone)]
pub enum ServerNotification {
    /// A resource has changed.
    Updated(Box<ResourceUpdate>),
    /// A log message.
    Logged {
        /// Its level, if that is valid in MCP.
        level: Option<LogLevel>,
        /// The whole line.
        line: Bytes,
    },
    /// A URL elicitation is complete: the whole line.
    ElicitationCompleted(Bytes),
    /// A legacy task of the agent has another status.
    LegacyTaskStatus(Box<LegacyTaskStatus>),
    /// A modern task that the agent has subscribed to has another status.
    ModernTaskStatus(Box<ModernTaskStatus>),
    /// A notification that MCP itself does not have. It may belong to an extension.
    Extension(Box<ExtensionNotification>),
}

/// A notification of an extension.
#[derive(Debug, Clone)]
pub struct ExtensionNotification {
    /// The configured server.
    pub server: Arc<str>,
    /// The era in which the server has sent it.
    pub era: Era,
    /// The method.
    pub method: Arc<str>,
    /// The whole line.
    pub line: Bytes,
}

/// The status of a modern task.
#[derive(Debug, Clone)]
pub struct ModernTaskStatus {
    /// The configured server.
    pub server: Arc<str>,
    /// The tag of the instance that runs the task.
    pub instance_tag: u64,
    /// The server's id of the task, as text.
    pub id: Bytes,
    /// The line without its newline and without a subscription id.
    pub line: Bytes,
}

/// The status of a legacy task.
#[derive(Debug, Clone)]
pub struct LegacyTaskStatus {
    /// Its present state.
    pub state: TaskState,
    /// The whole line.
    pub line: Bytes,
}

/// A changed resource.
#[derive(Debug, Clone)]
pub struct ResourceUpdate {
    /// The configured server.
    pub server: Arc<str>,
    /// Its URI as text.
    pub uri: Bytes,
    /// The whole line.
    pub line: Bytes,
}
