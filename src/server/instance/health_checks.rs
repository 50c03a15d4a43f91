//! Health checks of one instance: pings, checks that somebody waits for, and calls that timed out since the last look.

use std::time::Instant;

use serde_json::json;
use tokio::sync::oneshot;

use super::pending_request::PendingRequest;
use super::wire::Wire;

/// What is known of the health of one instance.
#[derive(Debug, Default)]
pub(in crate::server) struct HealthChecks {
    /// A check is unanswered. There is one for all callers, so a server that does not answer is not sent more and more.
    is_checking: bool,
    callers: Callers,
    /// Of the calls that timed out since the last look, when the latest was sent.
    timed_out: Option<Instant>,
}

/// Those who wait for a check to be answered.
#[derive(Debug, Default)]
pub(in crate::server) struct Callers(Vec<oneshot::Sender<()>>);

impl HealthChecks {
    /// Sends a ping. One that is unanswered is not waited for any longer.
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

    /// Called when the check was answered. Returns those who wait for that.
    pub(super) fn checked(&mut self) -> Callers {
        self.is_checking = false;
        std::mem::take(&mut self.callers)
    }

    /// Called when a call has timed out that was sent then.
    pub(super) fn call_timed_out(&mut self, sent: Instant) {
        self.timed_out = self.timed_out.max(Some(sent));
    }

    /// Of the calls that timed out since this was last called, when the latest was sent.
    pub(in crate::server) fn take_timed_out(&mut self) -> Option<Instant> {
        self.timed_out.take()
    }
}

impl Callers {
    /// Tells each that the server is well.
    pub(in crate::server) fn notify(self) {
        for caller in self.0 {
            // It may be gone.
            let _ = caller.send(());
        }
    }
}
