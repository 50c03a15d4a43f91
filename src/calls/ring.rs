//! A lock-free ring between calls and the history task. If it is full, the newest entry replaces the oldest.
//!
//! A call pushes its entry without waking a task, unless the history task waits for a number of entries that is now reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::CompletedCall;

/// No number of entries wakes the history task.
pub(super) const NEVER: usize = usize::MAX;
/// Beyond it, the newest entry replaces the oldest, which is counted.
const CAPACITY: usize = 1024;

/// Where calls push their entries; cheap to clone. Pushing never waits.
#[derive(Debug, Clone)]
pub struct Log(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    records: ArrayQueue<CompletedCall>,
    /// Entries that were replaced before they were taken.
    overwritten: AtomicU64,
    /// The number of entries that wakes the history task.
    wake_at: AtomicUsize,
    wake: Notify,
}

impl Log {
    /// A ring of at least `history` entries, so that a replaced entry would have left the history anyway.
    pub(super) fn new() -> Self {
        Self(Arc::new(Ring {
            records: ArrayQueue::new(CAPACITY),
            overwritten: AtomicU64::new(0),
            wake_at: AtomicUsize::new(NEVER),
            wake: Notify::new(),
        }))
    }

    pub(crate) fn push(&self, record: CompletedCall) {
        let ring = &*self.0;
        if ring.records.force_push(record).is_some() {
            ring.overwritten.fetch_add(1, Ordering::Relaxed);
        }
        ring.wake_if(ring.wake_at.load(Ordering::SeqCst));
    }

    /// The oldest entry that was not taken.
    pub(super) fn pop(&self) -> Option<CompletedCall> {
        self.0.records.pop()
    }

    /// Entries it holds at most.
    pub(super) fn capacity(&self) -> usize {
        self.0.records.capacity()
    }

    /// The number of entries that were overwritten since the last call.
    pub(super) fn take_overwritten(&self) -> u64 {
        self.0.overwritten.swap(0, Ordering::Relaxed)
    }

    /// Makes [`Log::woken`] return as soon as the ring has `entries`.
    pub(super) fn wake_at(&self, entries: usize) {
        self.0.wake_at.store(entries, Ordering::SeqCst);
        // It may have them already.
        self.0.wake_if(entries);
    }

    /// Waits for the number of entries of [`Log::wake_at`]. Cancel-safe.
    pub(super) async fn woken(&self) {
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

    use super::super::{CallOutcome, Caller, Moment};
    use super::*;

    fn record(request_bytes: usize) -> CompletedCall {
        let caller = Caller { session: 1, profile: "default".into(), pid: None, uid: 0, client: None };
        let (now, caller) = (Moment::now(), Arc::new(caller));
        let (server, tool, outcome) = (None, "t".into(), CallOutcome::Ok);
        CompletedCall {
            began: now,
            ended: now,
            caller,
            server,
            tool,
            outcome,
            request_bytes,
            reply_bytes: 0,
            arguments: None,
        }
    }

    #[test]
    fn history_task_is_woken_only_at_its_number_of_entries() {
        let log = Log::new();
        let is_woken = || pin!(log.woken()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        (0..5000).for_each(|n| log.push(record(n)));
        assert!(!is_woken(), "the history task waits for none");
        assert_eq!((log.take_overwritten(), log.take_overwritten()), (5000 - CAPACITY as u64, 0));
        assert_eq!(log.pop().map(|record| record.request_bytes), Some(5000 - CAPACITY), "the oldest that is left");
        while log.pop().is_some() {}
        log.wake_at(2);
        log.push(record(0));
        assert!(!is_woken());
        log.push(record(0));
        assert!(is_woken());
        log.wake_at(1);
        assert!(is_woken(), "the entries were there before");
        log.wake_at(NEVER);
        log.push(record(0));
        assert!(!is_woken());
    }
}
