//! Requests of servers about tasks of agents, and the notifications of such tasks.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`, the client as the receiver.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::jsonrpc::members::text;

/// Pending notifications of tasks; more are dropped, as a server has to poll its tasks anyway.
const CAPACITY: usize = 64;

/// The part of a request that is about tasks.
#[derive(Debug)]
pub struct TaskContext {
    /// What the request does.
    pub request: ClientTaskRequest,
    /// The instance whose tasks they are.
    pub instance: TaskNotificationSender,
}

/// What a request does with tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientTaskRequest {
    /// It may become a task.
    Make,
    /// It is about the task with this id, as text.
    One(Bytes),
    /// It lists the tasks.
    List,
}

impl ClientTaskRequest {
    /// Parses a request of a method `tasks/*` with this raw id in its params.
    pub(super) fn about(method: &[u8], id: Option<&Bytes>) -> Result<Self, &'static str> {
        if method == b"tasks/list" {
            return Ok(Self::List);
        }
        // Copied, so that a small id does not keep a large line in memory.
        id.and_then(text).map(|id| Self::One(Bytes::copy_from_slice(&id))).ok_or("`taskId` is missing or not a string")
    }
}

/// The instance that requested a task, while it runs.
#[derive(Debug, Clone)]
pub struct TaskNotificationSender(mpsc::Sender<Bytes>);

impl TaskNotificationSender {
    /// A new instance, and the receiver of its notifications. It counts as running until that is dropped.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self(sender), receiver)
    }

    /// Whether the instance still runs.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.0.is_closed()
    }

    /// Whether both are the same instance.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Sends a notification line, or drops it if too many are pending.
    pub fn send(&self, line: Bytes) {
        let _ = self.0.try_send(line);
    }
}
