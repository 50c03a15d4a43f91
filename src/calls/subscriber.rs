//! One subscriber of the calls. If it does not read, it misses entries, and receives their number as soon as it reads again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Entry, Filter};

/// Entries in the queue of a subscriber. Beyond that it misses entries.
pub(super) const EVENT_QUEUE_LEN: usize = 1024;

/// What a subscriber receives.
#[derive(Debug)]
pub enum CallEvent {
    /// The next entry.
    Entry(Arc<Entry>),
    /// The number of entries missed before the next one.
    Missed(u64),
}

pub(super) struct Subscriber {
    filter: Filter,
    to: mpsc::Sender<CallEvent>,
    /// Missed entries whose number was not sent yet.
    missed: u64,
}

impl Subscriber {
    /// A subscriber and the receiver of its events.
    pub(super) fn new(filter: Filter) -> (Self, mpsc::Receiver<CallEvent>) {
        let (to, subscription) = mpsc::channel(EVENT_QUEUE_LEN);
        (Self { filter, to, missed: 0 }, subscription)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.to.is_closed()
    }

    /// Counts entries that were lost before they reached it.
    pub(super) fn add_missed(&mut self, lost: u64) {
        self.missed += lost;
    }

    /// Sends an entry if the filter admits it. Returns `false` once the receiver is dropped.
    pub(super) fn send(&mut self, entry: &Arc<Entry>) -> bool {
        if !self.filter.admits(&entry.record) {
            return !self.is_closed();
        }
        if !self.send_missed() {
            self.missed += 1;
            return true;
        }
        match self.to.try_send(CallEvent::Entry(Arc::clone(entry))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.missed += 1,
            Err(TrySendError::Closed(_)) => return false,
        }
        true
    }

    /// Sends the number of missed entries if the queue has a free place. Returns whether none is left to send.
    pub(super) fn send_missed(&mut self) -> bool {
        if self.missed > 0 && !matches!(self.to.try_send(CallEvent::Missed(self.missed)), Err(TrySendError::Full(_))) {
            self.missed = 0;
        }
        self.missed == 0
    }
}
