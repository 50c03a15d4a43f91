//! Requests to the server, and when they expire. [`super::ending`] says what follows from their ends.

use std::time::Instant;

use bytes::Bytes;

use super::pending_call::PendingCall;
use crate::server::listing::Listing;

/// The response of the server to a request.
#[derive(Clone, Copy)]
pub(super) struct ServerResponse<'a> {
    /// The server's id of the request, raw.
    pub(super) id: &'a Bytes,
    pub(super) line: &'a Bytes,
    /// The raw result or error.
    pub(super) result: Result<&'a Bytes, &'a Bytes>,
}

/// A request that the server has not answered.
pub(in crate::server) enum PendingRequest {
    /// `initialize` of the handshake, which has its own deadline.
    Initialize,
    /// `server/discover` of the handshake.
    Discover,
    /// A health check. Any message of the server answers it.
    Ping,
    /// A request for a list in place of a ping. Its items are not used.
    Probe,
    /// A ping whose response shows that the server has read the cancellations before it.
    CancellationCheck,
    /// A ping that shows whether the server still knows the session.
    SessionCheck { deadline: Instant },
    /// A health check with callers.
    Check,
    /// A page of a list.
    Page { listing: Listing, deadline: Instant },
    /// An agent's call.
    Call(PendingCall),
    /// Subscribes again to a resource that the previous instance was subscribed to.
    Subscribe { uri: Bytes, raw: Bytes, deadline: Instant },
    /// Sets the log level.
    LogLevel { deadline: Instant },
    /// `subscriptions/listen`. Stays open once it is acknowledged.
    Listen { acknowledge_by: Option<Instant> },
    /// Cancels a task without an owner.
    CancelTask { task_key: u64, deadline: Instant },
    /// The response is ignored.
    Ignored { deadline: Instant },
}

impl PendingRequest {
    /// When [`Instance::expire`](super::Instance::expire) has to check it.
    pub(super) fn next_check_at(&self) -> Option<Instant> {
        match self {
            Self::Initialize | Self::Discover | Self::Ping | Self::Probe | Self::CancellationCheck | Self::Check => {
                None
            }
            Self::Page { deadline, .. } | Self::Subscribe { deadline, .. } => Some(*deadline),
            Self::SessionCheck { deadline } | Self::LogLevel { deadline } | Self::Ignored { deadline } => {
                Some(*deadline)
            }
            Self::CancelTask { deadline, .. } => Some(*deadline),
            Self::Listen { acknowledge_by } => *acknowledge_by,
            Self::Call(call) => Some(call.next_event()),
        }
    }

    /// When it ends without a response.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.call().map_or_else(|| self.next_check_at(), |call| Some(call.deadline.at()))
    }

    /// The call, if it is one of an agent.
    pub(super) fn call(&self) -> Option<&PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The call, if it is one of an agent.
    pub(super) fn into_call(self) -> Option<PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Whether the server may make a task of it, which belongs to a session.
    pub(super) fn creates_task(&self) -> bool {
        matches!(self, Self::Call(call) if call.requests_task())
    }

    /// Whether an error in its response may be about a resource.
    pub(super) fn is_about_resource(&self) -> bool {
        self.call().is_some_and(|call| call.resource.is_some())
    }

    /// Whether it belongs to the handshake.
    pub(super) fn is_handshake_request(&self) -> bool {
        matches!(self, Self::Initialize | Self::Discover)
    }
}
