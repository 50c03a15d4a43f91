//! The calls that wait at a server's task: *parked* until an instance can take them, or *queued* at the in-flight limit of the instance.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use crate::server::fairness::{self, Entry, FairQueue, Payer};
use crate::server::messages::call::{Call, CallKey};
use crate::server::stats::Stats;

/// A call that waits.
#[derive(Debug)]
pub(super) struct WaitingCall {
    pub(super) call: Box<Call>,
    /// The instance has listed without the name that it needs.
    pub(super) is_unlisted: bool,
}

impl WaitingCall {
    /// An entry for a call that waits at most until `until`.
    fn entry(call: Box<Call>, until: Instant) -> Entry<Self> {
        let (payer, bytes) = (call.response_handle.payer(), call.request.line.len());
        Entry { payer, bytes, until, item: Self { call, is_unlisted: false } }
    }
}

#[derive(Debug)]
pub(super) struct WaitingCalls {
    parked: FairQueue<WaitingCall>,
    queued: FairQueue<WaitingCall>,
    /// Notified by a call while the server is down.
    called: Arc<Notify>,
}

impl WaitingCalls {
    /// None, counted in these.
    pub(super) fn new(stats: &Stats) -> Self {
        let queue = |total| FairQueue::counted(Arc::clone(total));
        Self { parked: queue(&stats.parked), queued: queue(&stats.queued), called: Arc::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.queued.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len() + self.queued.len()
    }

    pub(super) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Whether one more call may wait, if all together may have `max_bytes`.
    pub(super) fn may_wait(&self, call: &Call, max_bytes: usize) -> bool {
        let call = (call.response_handle.payer(), call.request.line.len());
        fairness::may_wait(&[&self.parked, &self.queued], call, max_bytes)
    }

    pub(super) fn park(&mut self, call: Box<Call>, until: Instant) {
        self.parked.push(WaitingCall::entry(call, until));
    }

    pub(super) fn queue(&mut self, call: Box<Call>, until: Instant) {
        self.queued.push(WaitingCall::entry(call, until));
    }

    /// Removes all parked calls, in their order. Those that have to wait on go back by [`WaitingCalls::park_again`].
    pub(super) fn take_parked(&mut self) -> Vec<Entry<WaitingCall>> {
        self.parked.drain()
    }

    pub(super) fn park_again(&mut self, parked: Entry<WaitingCall>) {
        self.parked.push(parked);
    }

    /// Removes the next queued call of a session for which `may` is true.
    pub(super) fn next_queued(&mut self, may: impl Fn(Payer) -> bool) -> Option<Box<Call>> {
        self.queued.pop(may).map(|entry| entry.item.call)
    }

    /// Makes every call wait for the next instance, which may list more. Queued calls wait at most until `until`.
    pub(super) fn await_next_instance(&mut self, until: Instant) {
        for mut parked in self.parked.drain() {
            parked.item.is_unlisted = false;
            self.parked.push(parked);
        }
        for queued in self.queued.drain() {
            self.parked.push(Entry { until: queued.until.min(until), ..queued });
        }
    }

    /// Removes all calls, the parked ones first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Call>> + use<> {
        self.parked.drain().into_iter().chain(self.queued.drain()).map(|entry| entry.item.call)
    }

    /// Drops a call that its agent has cancelled. Returns whether there was one.
    pub(super) fn cancel(&mut self, key: CallKey) -> bool {
        let is_it = |waiting: &WaitingCall| waiting.call.response_handle.key == key;
        let mut queues = [&mut self.parked, &mut self.queued].into_iter();
        let Some(dropped) = queues.find_map(|queue| queue.remove(key.session, is_it)) else { return false };
        dropped.item.call.response_handle.disarm();
        true
    }

    /// When the next call expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        [&self.parked, &self.queued].into_iter().filter_map(FairQueue::next_expiry).min()
    }

    /// Removes the parked and the queued calls that have waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> [impl Iterator<Item = WaitingCall> + use<>; 2] {
        [&mut self.parked, &mut self.queued].map(|queue| queue.expire(now).into_iter().map(|entry| entry.item))
    }

    /// Notifies the future of [`WaitingCalls::called`].
    pub(super) fn note_call(&self) {
        self.called.notify_one();
    }

    /// Completes with the next call or, if calls are parked already, at once.
    pub(super) fn called(&mut self) -> impl Future<Output = ()> + use<> {
        self.called = Arc::default();
        let called = Arc::clone(&self.called);
        if self.has_parked() {
            called.notify_one();
        }
        async move { called.notified().await }
    }
}
