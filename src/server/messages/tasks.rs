//! Requests about tasks and reports on them, between a session and an instance.

use std::sync::Weak;

use bytes::Bytes;

use super::handle::ServerHandle;
pub use crate::task_state::{TaskOperation, TaskState, unknown_task};

/// A request about a task of a legacy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyTaskRequest {
    /// The task's id, as text.
    pub id: Bytes,
    /// The operation.
    pub operation: TaskOperation,
}

/// A request about a task of a modern server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModernTaskRequest {
    /// The agent's id of the task.
    pub id: Bytes,
    /// The server's id of the task, as text.
    pub task_id: Bytes,
    /// The tag of the instance that created the task.
    pub instance_tag: u64,
}

/// What a response shows about a task, for the session.
#[derive(Debug)]
pub enum TaskEvent {
    /// The call has created a task.
    Created(CreatedTask),
    /// The present state of a task.
    Status(TaskState),
    /// The server no longer knows the task.
    Gone {
        /// The server's id of the task, as text.
        id: Bytes,
    },
    /// The response may create or report a modern task of the instance with this tag.
    Modern {
        /// The tag of the instance.
        instance_tag: u64,
    },
}

/// A task that a call has created.
#[derive(Debug)]
pub struct CreatedTask {
    /// Its first state.
    pub state: TaskState,
    /// The instance that created it, if there may be several.
    pub instance: Option<ServerHandle>,
    /// Status notifications that arrived before the response, each a whole line.
    pub early: Vec<Bytes>,
    /// Dead once the instance has ended, as its tasks end with it.
    pub instance_alive: Weak<()>,
}
