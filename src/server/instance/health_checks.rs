//! Health checks of one instance: pings, checks with callers, and recent timeouts of calls.

use std::time::Instant;

use serde_json::json;
use tokio::sync::oneshot;

use super::pending_request::PendingRequest;
use super::wire::Wire;
use crate::era::Era;
use crate::list_kind::ListKind;

/// The health checks of one instance.
#[derive(Debug, Default)]
pub(in crate::server) struct HealthChecks {
    /// A check is unanswered. All callers share it, so a server that does not answer gets no more checks.
    is_checking: bool,
    has_answered_ping: bool,
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

    /// Requests this list in place of a ping. An unanswered ping stays pending: its response would show that the server answers pings.
    pub(in crate::server) fn probe(&mut self, wire: &mut Wire, list: ListKind) {
        wire.remove_where(|entry| matches!(entry, PendingRequest::Probe));
        wire.own_request(list.method(), json!({}), PendingRequest::Probe);
    }

    /// The server has answered a ping.
    pub(super) fn ping_answered(&mut self) {
        self.has_answered_ping = true;
    }

    /// Whether the server has ever answered a ping. A modern server has answered the same request in the handshake.
    pub(in crate::server) fn answers_pings(&self, wire: &Wire) -> bool {
        self.has_answered_ping || wire.era() == Era::Modern
    }

    /// Checks the server for this caller. One that has never answered a ping may answer the request for `list` instead.
    pub(in crate::server) fn check(&mut self, wire: &mut Wire, caller: oneshot::Sender<()>, list: ListKind) {
        self.callers.0.retain(|caller| !caller.is_closed());
        self.callers.0.push(caller);
        if !std::mem::replace(&mut self.is_checking, true) {
            // The ping of an earlier check, which only the list has answered, counts for this one, too.
            if !wire.has_pending(|entry| matches!(entry, PendingRequest::Check)) {
                wire.own_request(wire.era().greeting(), json!({}), PendingRequest::Check);
            }
            if !self.answers_pings(wire) {
                wire.own_request(list.method(), json!({}), PendingRequest::Check);
            }
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
