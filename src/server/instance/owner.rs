//! Who waits for an answer of the server.

use std::time::Instant;

use bytes::Bytes;

use super::calls::Unanswered;
use crate::server::listing::Listing;

/// Who waits for a response.
pub(in crate::server) enum Owner {
    /// The handshake, which has a deadline of its own.
    Initialize,
    /// The same, for which era the server speaks in.
    Discover,
    /// Whoever wants to know how it is; any message tells that.
    Ping,
    /// Nobody: its answer shows that the server has read the cancellations before it.
    CancellationCheck,
    /// Whoever wants to know it now.
    Check,
    /// One of its lists.
    Page { listing: Listing, deadline: Instant },
    /// An agent.
    Call(Unanswered),
    /// Those who had subscribed to it at the instance before.
    Renewal { uri: Bytes, deadline: Instant },
    /// Those who have said from which level on they want its log messages.
    Level { deadline: Instant },
    /// All agents that want to hear what the server says unasked. Stays open once it is acknowledged.
    Listen { acknowledge_by: Option<Instant> },
    /// Nobody: the task that it is to cancel is nobody's any more.
    Disowned { task: u64, deadline: Instant },
    /// An agent's task, of which it was told what it wanted to know.
    Update { task: u64, deadline: Instant },
    /// Nobody: while it is unanswered the server asks what it has to know for a modern agent's task, by that one's id as text.
    TaskEnd { task: Bytes },
    /// Nobody: it is asked for what needs no answer.
    Aside { deadline: Instant },
}

impl Owner {
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Initialize | Self::Discover | Self::Ping | Self::CancellationCheck | Self::Check => None,
            Self::TaskEnd { .. } => None,
            Self::Page { deadline, .. } | Self::Renewal { deadline, .. } => Some(*deadline),
            Self::Level { deadline } | Self::Aside { deadline } => Some(*deadline),
            Self::Disowned { deadline, .. } | Self::Update { deadline, .. } => Some(*deadline),
            Self::Listen { acknowledge_by } => *acknowledge_by,
            Self::Call(call) => Some(call.look_at().map_or(call.deadline.at(), |at| at.min(call.deadline.at()))),
        }
    }

    /// Whether it waits for the result of this task.
    pub(super) fn awaits(&self, task: &[u8]) -> bool {
        matches!(self, Self::Call(call) if call.awaits(task))
    }
}
