//! Health checks of one instance: pings, checks with callers, and recent timeouts of calls.

use std::time::Instant;

use serde_json::json;
use tokio::sync::oneshot;

use super::pending_request::PendingRequest;
use super::wire::Wire;

/// The health checks of one instance.
#[derive(Debug, Default)]
pub(in crate::server) struct HealthChecks {
    /// A check is unanswered. All callers share it, so a server that does not answer gets no more checks.
    is_checking: bool,
    callers: Callers,
    /// The send time of the latest call that has timed out since the last look.
    timed_out: Option<Instant>,
}

/// The callers of a check.
#[derive(Debug, Default)]
pub(in crate::server) struct Callers(Vec<oneshot::Sender<()>>);

impl HealthChecks {
    /// Sends a ping, which replaces an unanswered one.
    pub(in crate::server) fn ping(&mut self, wire: &mut Wire) {
        wire.remove_where(|entry| matches!(entry, PendingRequest::Ping));
        wire.own_request(wire.era().greeting(), json!({}), PendingRequest::Ping);
    }

    /// Checks the server for this caller.
    pub(in crate::server) fn check(&mut self, wire: &mut Wire, caller: oneshot::Sender<()>) {
        self.callers.0.retain(|caller| !caller.is_closed());
        self.callers.0.push(caller);
        if !std::mem::replace(&mut self.is_checking, true) {
            wire.own_request(wire.era().greeting(), json!({}), PendingRequest::Check);
        }
    }

    /// The check was answered. Returns its callers.
    pub(super) fn checked(&mut self) -> Callers {
        self.is_checking = false;
        std::mem::take(&mut self.callers)
    }

    /// A call that was sent at this time has timed out.
    pub(super) fn call_timed_out(&mut self, sent: Instant) {
        self.timed_out = self.timed_out.max(Some(sent));
    }

    /// When the latest of the calls was sent that have timed out since this was called last.
    pub(in crate::server) fn take_timed_out(&mut self) -> Option<Instant> {
        self.timed_out.take()
    }
}

impl Callers {
    /// Notifies the callers that the server is healthy.
    pub(in crate::server) fn notify(self) {
        for caller in self.0 {
            // The caller may be gone.
            let _ = caller.send(());
        }
    }
}
