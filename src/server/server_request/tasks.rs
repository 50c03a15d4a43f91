//! What a request of a server has to do with the tasks that an agent makes, and the way from those to the server.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`, the client as the receiver.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::jsonrpc::members::text;

/// Lines about tasks that the server's task has not taken in. When there are so many, one more is dropped: the server has to ask
/// how its tasks are in any case.
const PLACES: usize = 64;

/// A request that has to do with tasks.
#[derive(Debug)]
pub struct TaskContext {
    /// In which way.
    pub wish: TaskAction,
    /// Whose tasks they are.
    pub asker: TaskRequester,
}

/// What a server wants with tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskAction {
    /// One may be made of the request.
    Make,
    /// Something about the one with this id, as text.
    One(Bytes),
    /// Which there are.
    List,
}

impl TaskAction {
    /// That of a method `tasks/*` with this raw id in its params.
    pub(super) fn about(method: &[u8], id: Option<&Bytes>) -> Result<Self, &'static str> {
        if method == b"tasks/list" {
            return Ok(Self::List);
        }
        // Copied, so that a small id does not keep a large line in memory.
        id.and_then(text).map(|id| Self::One(Bytes::copy_from_slice(&id))).ok_or("`taskId` is missing or not a string")
    }
}

/// The instance that had a task made, for as long as it runs.
#[derive(Debug, Clone)]
pub struct TaskRequester(mpsc::Sender<Bytes>);

impl TaskRequester {
    /// An instance, and where it hears of its tasks. It is there until that is dropped.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, way) = mpsc::channel(PLACES);
        (Self(sender), way)
    }

    /// Whether it runs still.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.0.is_closed()
    }

    /// Whether it is this one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    /// Tells it a whole line about a task, unless it has not taken in what it was told before.
    pub fn tell(&self, line: Bytes) {
        let _ = self.0.try_send(line);
    }
}
