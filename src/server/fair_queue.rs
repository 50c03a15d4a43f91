//! A bounded queue of waiting calls: in order within a session, round-robin between sessions.
//!
//! The queue and each session have a limit. Once the queue is full, a session with less than its equal share may still add a
//! call, so one busy session cannot lock out the others ([`super::fair_share`]).
//!
//! Pure: no I/O, and the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::fair_share::Usage;

/// Calls of one session that wait at a server. One more is refused with −31003.
pub const MAX_WAITING_PER_SESSION: usize = 1024;
/// Calls of all sessions that wait at a server. One more is refused with −31003, unless its session has less than its share.
const MAX_WAITING: usize = 4096;

/// A waiting call.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) session: u64,
    pub(super) bytes: usize,
    /// When it expires.
    pub(super) until: Instant,
    pub(super) item: T,
}

/// The waiting calls of all sessions.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    sessions: HashMap<u64, VecDeque<Entry<T>>>,
    /// The sessions with an entry, in the order of their turns.
    turns: VecDeque<u64>,
    len: usize,
    bytes: usize,
    /// No entry expires earlier.
    next_expiry: Option<Instant>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { sessions: HashMap::new(), turns: VecDeque::new(), len: 0, bytes: 0, next_expiry: None }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry after the others of its session.
    pub(super) fn push(&mut self, entry: Entry<T>) {
        self.len += 1;
        self.bytes += entry.bytes;
        self.next_expiry = Some(self.next_expiry.map_or(entry.until, |next| next.min(entry.until)));
        let (session, turns) = (entry.session, &mut self.turns);
        let entries = self.sessions.entry(session).or_insert_with(|| {
            turns.push_back(session);
            VecDeque::new()
        });
        entries.push_back(entry);
    }

    /// Removes the oldest entry of the first session, in round-robin order, for which `may` is true. Moves that session to the end
    /// of the order.
    pub(super) fn pop(&mut self, may: impl FnMut(&u64) -> bool) -> Option<Entry<T>> {
        let index = self.turns.iter().position(may)?;
        let session = self.turns.remove(index)?;
        let entries = self.sessions.get_mut(&session)?;
        let entry = entries.pop_front()?;
        if entries.is_empty() {
            self.sessions.remove(&session);
        } else {
            self.turns.push_back(session);
        }
        self.removed(&entry);
        Some(entry)
    }

    /// Removes an entry of a session.
    pub(super) fn remove(&mut self, session: u64, is_it: impl Fn(&T) -> bool) -> Option<Entry<T>> {
        let entries = self.sessions.get_mut(&session)?;
        let index = entries.iter().position(|entry| is_it(&entry.item))?;
        let entry = entries.remove(index)?;
        self.removed(&entry);
        self.forget_empty();
        Some(entry)
    }

    /// Removes all entries, in their order.
    pub(super) fn drain(&mut self) -> Vec<Entry<T>> {
        let mut all = Vec::with_capacity(self.len);
        while let Some(entry) = self.pop(|_| true) {
            all.push(entry);
        }
        self.next_expiry = None;
        all
    }

    /// When to look for entries that have waited too long.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.next_expiry.filter(|_| !self.is_empty())
    }

    /// Removes the entries that have waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Entry<T>> {
        if self.next_expiry().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        for entries in self.sessions.values_mut() {
            let (late, left): (Vec<_>, _) = std::mem::take(entries).into_iter().partition(|entry| entry.until <= now);
            *entries = left.into();
            expired.extend(late);
        }
        expired.iter().for_each(|entry| self.removed(entry));
        self.forget_empty();
        self.next_expiry = self.sessions.values().flatten().map(|entry| entry.until).min();
        expired
    }

    fn removed(&mut self, entry: &Entry<T>) {
        self.len -= 1;
        self.bytes -= entry.bytes;
    }

    fn forget_empty(&mut self) {
        self.sessions.retain(|_, entries| !entries.is_empty());
        self.turns.retain(|session| self.sessions.contains_key(session));
    }
}

/// Whether one more call of `session` with so many `bytes` may wait besides the entries of `queues`. All together may have
/// `max_bytes`. A session with less than its share may exceed that.
pub(super) fn may_wait<T>(queues: &[&FairQueue<T>], (session, bytes): (u64, usize), max_bytes: usize) -> bool {
    let own = queues.iter().filter_map(|queue| queue.sessions.get(&session)).map(VecDeque::len).sum::<usize>();
    let len: usize = queues.iter().map(|queue| queue.len).sum();
    let waiting: usize = queues.iter().map(|queue| queue.bytes).sum();
    let sessions = || queues.iter().flat_map(|queue| &queue.sessions);
    let counts = || sessions().map(|(session, entries)| (*session, entries.len()));
    let sizes = || sessions().map(|(session, entries)| (*session, entries.iter().map(|entry| entry.bytes).sum()));
    own < MAX_WAITING_PER_SESSION
        && (len < MAX_WAITING || Usage::of(counts()).is_below_share(MAX_WAITING, session, 1))
        && (len == 0 || waiting + bytes <= max_bytes || Usage::of(sizes()).is_below_share(max_bytes, session, bytes))
}

#[cfg(test)]
mod tests;
