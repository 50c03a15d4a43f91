//! What a request to the server is for: where its response goes, and when it expires.

use std::time::Instant;

use bytes::Bytes;

use super::pending_call::PendingCall;
use crate::server::listing::Listing;

/// A request that the server has not answered.
pub(in crate::server) enum PendingRequest {
    /// Of the handshake, which has a deadline of its own.
    Initialize,
    /// The same, to find out the server's era.
    Discover,
    /// A health check; any message answers it.
    Ping,
    /// A ping whose response shows that the server has read the cancellations before it.
    CancellationCheck,
    /// A health check that somebody has asked for.
    Check,
    /// A page of a list.
    Page { listing: Listing, deadline: Instant },
    /// An agent's.
    Call(PendingCall),
    /// Subscribes again to a resource that the previous instance was subscribed to.
    Renewal { uri: Bytes, deadline: Instant },
    /// Sets the log level.
    LogLevel { deadline: Instant },
    /// `subscriptions/listen`. Stays open once it is acknowledged.
    Listen { acknowledge_by: Option<Instant> },
    /// Cancels a task without an owner.
    CancelTask { task: u64, deadline: Instant },
    /// Tells the server what it has asked for an agent's task.
    UpdateTask { task: u64, deadline: Instant },
    /// `tasks/result` of a modern agent's task with this id, as text: while it is unanswered the server may ask something for the task.
    TaskResult { task: Bytes },
    /// Its response does not matter.
    Ignored { deadline: Instant },
}

impl PendingRequest {
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Initialize | Self::Discover | Self::Ping | Self::CancellationCheck | Self::Check => None,
            Self::TaskResult { .. } => None,
            Self::Page { deadline, .. } | Self::Renewal { deadline, .. } => Some(*deadline),
            Self::LogLevel { deadline } | Self::Ignored { deadline } => Some(*deadline),
            Self::CancelTask { deadline, .. } | Self::UpdateTask { deadline, .. } => Some(*deadline),
            Self::Listen { acknowledge_by } => *acknowledge_by,
            Self::Call(call) => Some(call.next_event()),
        }
    }

    /// Whether it belongs to the handshake.
    pub(super) fn is_of_handshake(&self) -> bool {
        matches!(self, Self::Initialize | Self::Discover)
    }

    /// Whether it waits for the result of this task.
    pub(super) fn awaits(&self, task: &[u8]) -> bool {
        matches!(self, Self::Call(call) if call.awaits(task))
    }
}
