//! What a server says that answers nobody, on its way to a session. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::tasks::TaskState;
use crate::log_level::LogLevel;

/// A notification of a server that belongs to no call.
#[derive(Debug, Clone)]
pub enum ServerNotification {
    /// A resource has changed.
    Updated(Box<ResourceUpdate>),
    /// A log message.
    Logged {
        /// How severe, if it says that in a word of MCP's.
        level: Option<LogLevel>,
        /// The whole line.
        line: Bytes,
    },
    /// A person has been at a URL that the agent had sent them to: the whole line.
    Completed(Bytes),
    /// A task of the agent's has another status.
    Task(Box<TaskStatus>),
    /// A task that the agent listens to has come further.
    Followed(Box<FollowedTask>),
}

/// How far a task of the modern era is.
#[derive(Debug, Clone)]
pub struct FollowedTask {
    /// The configured server.
    pub server: Arc<str>,
    /// The server's own id of it, as text.
    pub id: Bytes,
    /// The whole line but its newline, for no subscription yet.
    pub line: Bytes,
}

/// That a task has another status.
#[derive(Debug, Clone)]
pub struct TaskStatus {
    /// As it is now.
    pub state: TaskState,
    /// The whole line.
    pub line: Bytes,
}

/// That a resource has changed.
#[derive(Debug, Clone)]
pub struct ResourceUpdate {
    /// The configured server.
    pub server: Arc<str>,
    /// Its URI as text.
    pub uri: Bytes,
    /// The whole line.
    pub line: Bytes,
}
