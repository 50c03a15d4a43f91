//! Fairness between the users of an instance, and between the sessions of each user: who may call at its in-flight limit, and in which order
//! the others wait.
//!
//! Below the limit every call is admitted, and nothing is counted. At the limit, users have equal shares, and so have the sessions of each
//! user in the share of the user, however many these are. A call within the share of its user or its session is still admitted, so nobody
//! can lock out the others. No admitted call is removed. With one session each, the user with the `k`th most calls has at most
//! `limit / k`, and all `n` users together have at most `limit × (1 + 1/2 + … + 1/n)`. The same is true for the sessions of one user.
//!
//! The others wait in a [`FairQueue`]: in order within a session, round-robin between users, and between the sessions of each user. The queue
//! and each session have a limit. Once the queue is full, a user or session with less than its equal share may still add a call.
//!
//! Pure: no I/O, and the time is an argument.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::stats::{Counter, Tally};

/// Calls of one session that wait at a server. One more is refused with −31003.
pub const MAX_WAITING_PER_SESSION: usize = 1024;
/// Calls of all sessions that wait at a server. One more is refused with −31003, unless its user or session has less than its share.
const MAX_WAITING: usize = 4096;

/// A waiting call.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) payer: Payer,
    pub(super) bytes: usize,
    /// When it expires.
    pub(super) until: Instant,
    pub(super) item: T,
}

/// The waiting calls of all sessions.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    sessions: HashMap<u64, VecDeque<Entry<T>>>,
    /// The users with an entry in the order of their turns, each with its sessions in the order of theirs.
    turns: VecDeque<(Option<u32>, VecDeque<u64>)>,
    len: Tally,
    bytes: usize,
    /// No entry expires earlier.
    next_expiry: Option<Instant>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self::counted(Arc::default())
    }
}

impl<T> FairQueue<T> {
    /// An empty queue, whose entries also count in `total`.
    pub(super) fn counted(total: Arc<Counter>) -> Self {
        let len = Tally::of(total);
        Self { sessions: HashMap::new(), turns: VecDeque::new(), len, bytes: 0, next_expiry: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len.get()
    }

    /// Adds an entry after the others of its session.
    pub(super) fn push(&mut self, entry: Entry<T>) {
        self.len.set(self.len() + 1);
        self.bytes += entry.bytes;
        self.next_expiry = Some(self.next_expiry.map_or(entry.until, |next| next.min(entry.until)));
        let Payer { uid, session } = entry.payer;
        let entries = self.sessions.entry(session).or_default();
        if entries.is_empty() {
            match self.turns.iter_mut().find(|(user, _)| *user == uid) {
                Some((_, sessions)) => sessions.push_back(session),
                None => self.turns.push_back((uid, VecDeque::from([session]))),
            }
        }
        entries.push_back(entry);
    }

    /// Removes the oldest entry of the first session, in round-robin order, for which `may` is true. Moves that session and its user to the
    /// end of the order.
    pub(super) fn pop(&mut self, may: impl Fn(Payer) -> bool) -> Option<Entry<T>> {
        let first = |(uid, sessions): &(_, VecDeque<u64>)| {
            sessions.iter().position(|session| may(Payer { uid: *uid, session: *session }))
        };
        let (at, index) = self.turns.iter().enumerate().find_map(|(at, user)| Some((at, first(user)?)))?;
        let (uid, mut sessions) = self.turns.remove(at)?;
        let session = sessions.remove(index)?;
        let entries = self.sessions.get_mut(&session)?;
        let entry = entries.pop_front()?;
        if entries.is_empty() {
            self.sessions.remove(&session);
        } else {
            sessions.push_back(session);
        }
        if !sessions.is_empty() {
            self.turns.push_back((uid, sessions));
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
        let mut all = Vec::with_capacity(self.len());
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
        self.len.set(self.len() - 1);
        self.bytes -= entry.bytes;
    }

    fn forget_empty(&mut self) {
        self.sessions.retain(|_, entries| !entries.is_empty());
        self.turns.iter_mut().for_each(|(_, sessions)| sessions.retain(|session| self.sessions.contains_key(session)));
        self.turns.retain(|(_, sessions)| !sessions.is_empty());
    }
}

/// Whether one more call of `payer` with so many `bytes` may wait besides the entries of `queues`. All together may have
/// `max_bytes`. A user or session with less than its share may exceed that.
pub(super) fn may_wait<T>(queues: &[&FairQueue<T>], (payer, bytes): (Payer, usize), max_bytes: usize) -> bool {
    let own = queues.iter().filter_map(|queue| queue.sessions.get(&payer.session)).map(VecDeque::len).sum::<usize>();
    let len: usize = queues.iter().map(|queue| queue.len()).sum();
    let waiting: usize = queues.iter().map(|queue| queue.bytes).sum();
    let entries = || queues.iter().flat_map(|queue| queue.sessions.values().flatten());
    let counts = || entries().map(|entry| (entry.payer, 1));
    let sizes = || entries().map(|entry| (entry.payer, entry.bytes));
    own < MAX_WAITING_PER_SESSION
        && (len < MAX_WAITING || Shares::of(counts()).is_below_share(MAX_WAITING, payer, 1))
        && (len == 0 || waiting + bytes <= max_bytes || Shares::of(sizes()).is_below_share(max_bytes, payer, bytes))
}

/// Calls in flight at one instance. One more waits ([`FairQueue`]), unless its user or session has less than its share.
pub(crate) const MAX_IN_FLIGHT: usize = 256;

/// Whose share a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payer {
    /// The user id of the agent, if it is known.
    pub(crate) uid: Option<u32>,
    /// The number of its connection.
    pub(crate) session: u64,
}

/// What each session of each user uses: its number of calls, or their bytes.
pub(super) struct Shares(HashMap<Option<u32>, HashMap<u64, usize>>);

impl Shares {
    /// Sums up the sizes of each session.
    pub(super) fn of(used: impl Iterator<Item = (Payer, usize)>) -> Self {
        let mut users: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (Payer { uid, session }, size) in used {
            *users.entry(uid).or_default().entry(session).or_default() += size;
        }
        Self(users)
    }

    /// Whether, with `size` more, the user or the session of `payer` would still have at most its equal share of `capacity`.
    pub(super) fn is_below_share(&self, capacity: usize, payer: Payer, size: usize) -> bool {
        let user = self.0.get(&payer.uid);
        let session = user.and_then(|sessions| sessions.get(&payer.session));
        let users = self.0.len() + usize::from(user.is_none());
        let sessions = user.map_or(0, HashMap::len) + usize::from(session.is_none());
        let of_user: usize = user.map_or(0, |sessions| sessions.values().sum());
        let is_within = |used: usize, share: usize| used + size <= share.max(1);
        users > 1 && is_within(of_user, capacity / users)
            || sessions > 1 && is_within(session.copied().unwrap_or_default(), capacity / users / sessions)
    }
}

/// Of whom an instance admits one more call.
pub(super) enum Vacancies {
    Everybody,
    Nobody,
    /// Whoever has less than its share.
    BelowShare(Shares),
}

impl Vacancies {
    pub(super) fn has(&self, payer: Payer) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::BelowShare(usage) => usage.is_below_share(MAX_IN_FLIGHT, payer, 1),
        }
    }
}

#[cfg(test)]
mod tests;
