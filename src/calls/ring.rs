//! The way from the calls to the keeper: a ring without a lock, whose oldest entry makes room for the newest.
//!
//! A call leaves its entry here and wakes nobody, unless somebody waits for entries; then it wakes the keeper when as many
//! have come as the keeper wants at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::Record;

/// No entry wakes the keeper.
pub(super) const NEVER: usize = usize::MAX;
/// Least capacity. When all places are taken, the oldest entry makes room for the newest, and is counted.
const PLACES: usize = 1024;

/// Where calls leave their entries; cheap to clone. Nothing that is done with it in the course of a call waits.
#[derive(Debug, Clone)]
pub struct Log(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    records: ArrayQueue<Record>,
    /// Entries that made room and were not taken.
    overwritten: AtomicU64,
    /// As many entries wake the keeper.
    wake_at: AtomicUsize,
    wake: Notify,
}

impl Log {
    /// A ring that holds `history` entries at least, so that the one overwritten would be forgotten anyway.
    pub(super) fn new(history: usize) -> Self {
        Self(Arc::new(Ring {
            records: ArrayQueue::new(history.max(PLACES)),
            overwritten: AtomicU64::new(0),
            wake_at: AtomicUsize::new(NEVER),
            wake: Notify::new(),
        }))
    }

    pub(crate) fn push(&self, record: Record) {
        let ring = &*self.0;
        if ring.records.force_push(record).is_some() {
            ring.overwritten.fetch_add(1, Ordering::Relaxed);
        }
        ring.wake_if(ring.wake_at.load(Ordering::SeqCst));
    }

    /// The oldest entry that was not taken.
    pub(super) fn pop(&self) -> Option<Record> {
        self.0.records.pop()
    }

    /// Entries it holds at most.
    pub(super) fn capacity(&self) -> usize {
        self.0.records.capacity()
    }

    /// How many were overwritten since this was asked last.
    pub(super) fn take_overwritten(&self) -> u64 {
        self.0.overwritten.swap(0, Ordering::Relaxed)
    }

    /// Has [`Log::wanted`] end as soon as `entries` wait.
    pub(super) fn wake_at(&self, entries: usize) {
        self.0.wake_at.store(entries, Ordering::SeqCst);
        // They may have come before.
        self.0.wake_if(entries);
    }

    /// Waits for what [`Log::wake_at`] says. May be cancelled without loss.
    pub(super) async fn wanted(&self) {
        self.0.wake.notified().await;
    }
}

impl Ring {
    fn wake_if(&self, wake_at: usize) {
        if wake_at != NEVER && self.records.len() >= wake_at {
            self.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use super::super::{Caller, Moment, Outcome};
    use super::*;

    fn record(request_bytes: usize) -> Record {
        let caller = Caller { session: 1, profile: "default".into(), pid: None, uid: 0, client: None };
        let (now, caller) = (Moment::now(), Arc::new(caller));
        let (server, tool, outcome) = (None, "t".into(), Outcome::Ok);
        Record { began: now, ended: now, caller, server, tool, outcome, request_bytes, reply_bytes: 0, arguments: None }
    }

    #[test]
    fn the_keeper_is_woken_only_if_it_wants_to_be() {
        let log = Log::new(10);
        let is_wanted = || pin!(log.wanted()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        (0..5000).for_each(|n| log.push(record(n)));
        assert!(!is_wanted(), "nobody waits for entries");
        assert_eq!((log.take_overwritten(), log.take_overwritten()), (5000 - PLACES as u64, 0));
        assert_eq!(log.pop().map(|record| record.request_bytes), Some(5000 - PLACES), "the oldest that is left");
        while log.pop().is_some() {}
        log.wake_at(2);
        log.push(record(0));
        assert!(!is_wanted());
        log.push(record(0));
        assert!(is_wanted());
        log.wake_at(1);
        assert!(is_wanted(), "they are there already");
        log.wake_at(NEVER);
        log.push(record(0));
        assert!(!is_wanted());
    }
}
