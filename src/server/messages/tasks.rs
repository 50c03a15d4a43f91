//! What requests and responses say about tasks, on their way between a session and an instance.

use std::sync::Weak;

use bytes::Bytes;

use super::handle::ServerHandle;
pub use crate::task_state::{TaskAct, TaskState, unknown_task};

/// A request about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAsk {
    /// The task's id, as text.
    pub id: Bytes,
    /// What of it.
    pub act: TaskAct,
}

/// A request about a task of the modern era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgedTaskRequest {
    /// The task's id as the agent knows it.
    pub id: Bytes,
    /// The server's own, as text.
    pub task: Bytes,
    /// The mark of the instance that has made it.
    pub maker: u64,
}

/// What an answer of a server says of a task, for the session it goes to.
#[derive(Debug)]
pub enum TaskNews {
    /// The call has made it.
    Made(MadeTask),
    /// It is so now.
    Seen(TaskState),
    /// The server does not know it any more.
    Gone {
        /// Its id, as text.
        id: Bytes,
    },
    /// It may tell of one of the modern era, which the instance with this mark has made.
    Bridged {
        /// Another for each instance of a server.
        maker: u64,
    },
}

/// A task that a call has made.
#[derive(Debug)]
pub struct MadeTask {
    /// As it was when it was made.
    pub state: TaskState,
    /// The very instance that has made it, where there may be several.
    pub instance: Option<ServerHandle>,
    /// What was said of it before, each a whole line.
    pub early: Vec<Bytes>,
    /// Dead as soon as that instance is: its tasks go with it.
    pub life: Weak<()>,
}
