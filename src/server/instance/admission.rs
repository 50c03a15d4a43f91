//! Admission and counters of the calls of one instance.

use std::sync::Arc;

use super::pending_request::PendingCall;
use super::wire::{MAX_LINES, Wire};
use crate::catalog::Lists;
use crate::server::fairness::{MAX_IN_FLIGHT, Shares, Vacancies};
use crate::server::messages::call::{Call, Exposure};
use crate::server::stats::Stats;

/// Admission and counters of calls.
pub(super) struct CallCounter {
    count: usize,
    stats: Arc<Stats>,
}

impl CallCounter {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self { count: 0, stats }
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Calls that were accepted and have not ended.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn count_started(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 + 1);
        self.count += 1;
    }

    pub(super) fn count_ended(&mut self) {
        self.stats.in_flight.change(self.count as u64, self.count as u64 - 1);
        self.count -= 1;
    }

    /// Who may start one more call. `max` calls may be in flight, including `cancelled` ones.
    pub(super) fn vacancies(&self, wire: &Wire, max: Option<usize>, cancelled: usize) -> Vacancies {
        match max {
            Some(max) if self.count + cancelled < max => Vacancies::Everybody,
            Some(_) => Vacancies::Nobody,
            None if self.count < MAX_IN_FLIGHT => Vacancies::Everybody,
            None => Vacancies::BelowShare(Shares::of(wire.calls().map(|(_, call)| (call.response_handle.payer(), 1)))),
        }
    }

    /// Whether this call must not be queued, because the server does not read its input. Unwritten calls may together have as many
    /// bytes as the largest message. A call beyond that is refused with −31003, unless its user or session has less than its share.
    pub(super) fn exceeds_outbox(&self, wire: &Wire, call: &Call) -> bool {
        let (payer, bytes) = (call.response_handle.payer(), call.request.line.len());
        let unread = |call: &PendingCall| if wire.has_begun(call.line) { 0 } else { call.bytes };
        let unread = || wire.calls().map(|(_, call)| (call.response_handle.payer(), unread(call)));
        wire.unwritten_lines() >= MAX_LINES
            || wire.is_full_with(bytes) && !Shares::of(unread()).is_below_share(wire.buffer_unit(), payer, bytes)
    }

    /// Removes unwritten calls that their listener hides by now.
    pub(super) fn take_hidden(&self, wire: &mut Wire, server: &str, lists: &Lists) -> Vec<PendingCall> {
        let is_hidden = |call: &PendingCall| {
            call.access.as_ref().is_some_and(|access| access.exposure(server, lists) == Exposure::Hidden)
        };
        let hidden = wire.retract_calls_where(|call| !call.has_no_pending_request() && is_hidden(call));
        hidden.into_iter().map(|(call, _)| call).collect()
    }

    /// Removes unwritten calls, in the form in which their sessions sent them. `Err` has calls that cannot be read again.
    pub(super) fn take_unwritten(&mut self, wire: &mut Wire) -> Vec<Result<Call, Box<PendingCall>>> {
        let unsent = wire.retract_calls_where(PendingCall::fits_any_instance).into_iter();
        let calls: Vec<_> =
            unsent.map(|(call, line)| call.into_call(&line.slice(..line.len().saturating_sub(1)))).collect();
        calls.iter().for_each(|_| self.count_ended());
        calls
    }
}
