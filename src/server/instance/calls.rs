//! Admission and counters of the calls of one instance.

use std::sync::Arc;

use super::pending_call::PendingCall;
use super::pending_request::PendingRequest;
use super::wire::{MAX_LINES, Wire};
use crate::catalog::Lists;
use crate::server::fair_share::{self, FairShares, MAX_IN_FLIGHT, Vacancies};
use crate::server::messages::call::{Call, Exposure};
use crate::server::stats::Stats;

/// Admission and counters of calls.
pub(super) struct Calls {
    count: usize,
    stats: Arc<Stats>,
}

impl Calls {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self { count: 0, stats }
    }

    pub(super) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Calls that were accepted and have not ended.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn started(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 + 1);
        self.count += 1;
    }

    pub(super) fn ended(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 - 1);
        self.count -= 1;
    }

    /// The sessions that may start one more call. `max` calls may be in flight, including `cancelled` ones.
    pub(super) fn vacancies(&self, wire: &Wire, max: Option<usize>, cancelled: usize) -> Vacancies {
        match max {
            Some(max) if self.count + cancelled < max => Vacancies::All,
            Some(_) => Vacancies::None,
            None if self.count < MAX_IN_FLIGHT => Vacancies::All,
            None => Vacancies::Due(FairShares::of(wire.calls().map(|(_, call)| (call.reply.key.session, 1)))),
        }
    }

    /// Whether this call must not be queued, because the server does not read its input.
    pub(super) fn exceeds_outbox(&self, wire: &Wire, call: &Call) -> bool {
        let (session, bytes) = (call.reply.key.session, call.request.line.len());
        let unread = |call: &PendingCall| if wire.has_begun(call.line) { 0 } else { call.bytes };
        let unread = || wire.calls().map(|(_, call)| (call.reply.key.session, unread(call)));
        wire.unwritten_lines() >= MAX_LINES
            || wire.is_full_with(bytes) && !fair_share::is_due(wire.max_message(), session, bytes, unread())
    }

    /// Removes unwritten calls that their listener hides by now.
    pub(super) fn take_hidden(&self, wire: &mut Wire, server: &str, lists: &Lists) -> Vec<PendingRequest> {
        let is_hidden = |call: &PendingCall| {
            call.access.as_ref().is_some_and(|access| access.exposure(server, lists) == Exposure::Hidden)
        };
        let hidden = wire.retract_where(|pending| match pending {
            PendingRequest::Call(call) => is_hidden(call),
            PendingRequest::Bridged(bridged) => !bridged.state.has_no_pending_request() && is_hidden(&bridged.call),
            _ => false,
        });
        hidden.into_iter().map(|(pending, _)| pending).collect()
    }

    /// Removes unwritten calls, in the form in which their sessions sent them. `Err` has calls that cannot be read again.
    pub(super) fn take_unsent(&mut self, wire: &mut Wire) -> Vec<Result<Call, Box<PendingCall>>> {
        let unsent = wire.retract_where(|pending| match pending {
            PendingRequest::Call(call) => call.fits_any_instance(),
            PendingRequest::Bridged(bridged) => bridged.fits_any_instance(),
            _ => false,
        });
        let calls = unsent.into_iter().filter_map(|(pending, line)| match pending {
            PendingRequest::Call(call) => Some(call.into_call(&line.slice(..line.len().saturating_sub(1)))),
            PendingRequest::Bridged(bridged) => Some(Ok(bridged.into_call())),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        calls.iter().for_each(|_| self.ended());
        calls
    }
}
