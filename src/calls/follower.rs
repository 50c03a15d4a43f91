//! Whoever follows the calls. One that does not read loses entries, and is told how many as soon as it reads again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{Entry, Filter};

/// Entries that wait for a follower. One that has fallen behind further loses the next ones.
pub(super) const FOLLOWED_PLACES: usize = 1024;

/// What a follower is told.
#[derive(Debug)]
pub enum Followed {
    /// The next entry.
    Entry(Arc<Entry>),
    /// It has lost so many before what comes next.
    Missed(u64),
}

/// Whoever wants to hear of the calls that come.
pub(super) struct Follower {
    /// Which of them.
    filter: Filter,
    to: mpsc::Sender<Followed>,
    /// Entries it has lost and was not told of.
    missed: u64,
}

impl Follower {
    /// One that has lost nothing, and what it hears.
    pub(super) fn new(filter: Filter) -> (Self, mpsc::Receiver<Followed>) {
        let (to, following) = mpsc::channel(FOLLOWED_PLACES);
        (Self { filter, to, missed: 0 }, following)
    }

    pub(super) fn has_gone(&self) -> bool {
        self.to.is_closed()
    }

    /// It has lost entries before they could be offered to it.
    pub(super) fn miss(&mut self, lost: u64) {
        self.missed += lost;
    }

    /// Passes an entry on if it is wanted; `false` once nobody follows any more.
    pub(super) fn tell(&mut self, entry: &Arc<Entry>) -> bool {
        if !self.filter.admits(&entry.record) {
            return !self.has_gone();
        }
        if !self.tell_missed() {
            self.missed += 1;
            return true;
        }
        match self.to.try_send(Followed::Entry(Arc::clone(entry))) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.missed += 1,
            Err(TrySendError::Closed(_)) => return false,
        }
        true
    }

    /// Says how many it has lost, if there is room; whether nothing of that kind is left to say.
    pub(super) fn tell_missed(&mut self) -> bool {
        if self.missed > 0 && !matches!(self.to.try_send(Followed::Missed(self.missed)), Err(TrySendError::Full(_))) {
            self.missed = 0;
        }
        self.missed == 0
    }
}
