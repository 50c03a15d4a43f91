//! Abandoned calls: those that were cancelled or timed out after the server had received them, and that it may still work on.
//!
//! A message without a recipient belongs to an agent only if the server can be working for no other agent. Cancelled calls count as
//! work of the server:
//!
//! - A cancelled call counts until the server answers it. Servers need not do so (MCP 2025-11-25, `basic/utilities/cancellation`). So
//!   it stops counting [`GRACE`] after the cancellation, if the server has answered a request that was sent after the cancellation.
//! - A *log message* goes to the agent with open calls, if all of these and all cancelled calls are of one user.
//! - When the recipient of a *request of the server* is chosen, it counts only until such a later response arrives: a server that
//!   has read the cancellation has to stop.
//!   Two cases also wait for [`GRACE`]: HTTP, where messages may overtake each other, and servers that once answered a call although they
//!   had read its cancellation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pending_request::PendingCall;
use crate::jsonrpc::pending::parse_own_id;
use crate::server::messages::call::{CallKey, SessionSender, WeakLoadToken};

/// Maximum number of calls. Of older ones only the sessions are known.
const CAPACITY: usize = 1024;

/// How long a server may work on a call after it has read the cancellation. Most servers stop at once, and other work seldom takes
/// longer than a minute. A shorter `call_timeout` replaces it.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// How long messages about a cancelled call of a modern server may be in transit. The server sends no new ones (MCP 2026-07-28,
/// `basic/patterns/cancellation`).
const IN_TRANSIT: Duration = Duration::from_secs(2);

/// The sessions that the server may be working for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The server has no work.
    #[default]
    Nobody,
    /// One session.
    One(u64),
    /// More than one session.
    Several,
}

impl Ownership {
    /// Adds a session.
    pub(super) fn and(self, session: u64) -> Self {
        match self {
            Self::Nobody => Self::One(session),
            Self::One(other) if other == session => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

/// How long a cancelled call counts: until both conditions hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// This time has come.
    pub(super) at: Instant,
    /// The server has answered a request with this id or a later one.
    pub(super) answered_from: u64,
}

impl Until {
    fn and(self, other: Self) -> Self {
        Self { at: self.at.max(other.at), answered_from: self.answered_from.max(other.answered_from) }
    }
}

/// The rest of a call that was cancelled or has timed out.
#[derive(Debug)]
pub(super) struct AbandonedCall {
    /// Its id at the server.
    pub(super) id: u64,
    pub(super) key: CallKey,
    /// The user of its agent, if that is known.
    pub(super) uid: Option<u32>,
    /// The server may make a task of it.
    pub(super) creates_task: bool,
    /// Keeps the session at the instance while the server may send requests for the call.
    pub(super) load: Option<WeakLoadToken>,
}

impl AbandonedCall {
    /// What remains of a call at the server, which knows it by `id`.
    pub(super) fn of(call: &PendingCall, id: u64) -> Self {
        let handle = &call.response_handle;
        let (uid, load) = (handle.to().and_then(SessionSender::uid), handle.load_token().map(Arc::downgrade));
        Self { id, key: handle.key, uid, creates_task: call.requests_task(), load }
    }
}

/// An abandoned call that counts.
#[derive(Debug)]
struct CountedCall {
    call: AbandonedCall,
    /// `None` if only a response ends it.
    until: Option<Until>,
}

/// The abandoned calls of one instance that had reached the server.
#[derive(Debug, Default)]
pub(in crate::server) struct AbandonedCalls {
    /// In the order of the ids.
    known: VecDeque<CountedCall>,
    /// The sessions of older calls.
    forgotten: Ownership,
    /// How long these count.
    forgotten_until: Option<Until>,
    /// The highest id of a request that the server has answered while this table was not empty. Requests are written in the order of
    /// their ids.
    highest_answered_id: u64,
    /// The server may work on a call after it has read the cancellation.
    waits_full_grace: bool,
    /// The users of all cancelled calls since the last time that none counted.
    users: Ownership,
    /// Modern era: how long messages about cancelled calls may arrive, and the sessions of these calls.
    in_transit: Option<(Instant, Ownership)>,
}

impl AbandonedCalls {
    /// `in_order` is whether the transport keeps the order of messages.
    pub(super) fn new(in_order: bool) -> Self {
        Self { waits_full_grace: !in_order, ..Self::default() }
    }

    /// A call of this user, if it is known, is about to be added.
    fn note_user(&mut self, uid: Option<u32>, now: Instant) {
        self.sweep(now);
        if self.is_empty() && self.in_transit_for(now) == Ownership::Nobody {
            self.users = Ownership::Nobody;
        }
        self.users = uid.map_or(Ownership::Several, |uid| self.users.and(uid.into()));
    }

    /// Whether every cancelled call is of this user.
    pub(super) fn are_all_of(&self, uid: u32) -> bool {
        self.users == Ownership::One(uid.into())
    }

    /// Adds a call that was abandoned `now`.
    pub(super) fn add(&mut self, call: AbandonedCall, until: Option<Until>, now: Instant) {
        self.note_user(call.uid, now);
        if self.known.len() == CAPACITY
            && let Some(CountedCall { call, until }) = self.known.pop_front()
        {
            let is_first = self.forgotten == Ownership::Nobody;
            self.forgotten = self.forgotten.and(call.key.session);
            let both = || Some(self.forgotten_until?.and(until?));
            self.forgotten_until = if is_first { until } else { both() };
        }
        let at = self.known.partition_point(|other| other.call.id < call.id);
        self.known.insert(at, CountedCall { call, until });
    }

    /// Adds a call at a modern server that was abandoned `now`.
    pub(super) fn add_modern(&mut self, call: &AbandonedCall, now: Instant) {
        self.note_user(call.uid, now);
        self.in_transit = Some((now + IN_TRANSIT, self.in_transit_for(now).and(call.key.session)));
    }

    /// The sessions of cancelled calls that a message of a modern server may be about if it arrives `now`.
    pub(super) fn in_transit_for(&self, now: Instant) -> Ownership {
        self.in_transit.filter(|(until, _)| *until > now).map(|(_, sessions)| sessions).unwrap_or_default()
    }

    /// The server has answered a cancelled call.
    pub(super) fn answered(&mut self, id: &[u8]) {
        let found = parse_own_id(id).and_then(|id| self.known.binary_search_by_key(&id, |own| own.call.id).ok());
        if let Some(one) = found.and_then(|index| self.known.remove(index)) {
            self.waits_full_grace |= self.is_read(one.until);
        }
    }

    /// The server has answered a pending request.
    pub(super) fn pending_answered(&mut self, id: &[u8]) {
        if !self.is_empty() {
            self.highest_answered_id = self.highest_answered_id.max(parse_own_id(id).unwrap_or_default());
            let mut known = std::mem::take(&mut self.known);
            let now = Instant::now();
            known.iter_mut().filter(|one| self.has_stopped(one.until, now)).for_each(|one| one.call.load = None);
            self.known = known;
        }
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty() && self.forgotten == Ownership::Nobody
    }

    /// Whether the server has read the cancellation.
    fn is_read(&self, until: Option<Until>) -> bool {
        until.is_some_and(|until| until.answered_from <= self.highest_answered_id)
    }

    fn is_over(&self, until: Option<Until>, now: Instant) -> bool {
        self.is_read(until) && until.is_some_and(|until| until.at <= now)
    }

    /// Whether the server sends no more requests for the call.
    fn has_stopped(&self, until: Option<Until>, now: Instant) -> bool {
        if self.waits_full_grace { self.is_over(until, now) } else { self.is_read(until) }
    }

    /// Removes calls that no longer count.
    fn sweep(&mut self, now: Instant) {
        if self.is_over(self.forgotten_until, now) {
            (self.forgotten, self.forgotten_until) = (Ownership::Nobody, None);
        }
        let mut known = std::mem::take(&mut self.known);
        known.retain(|one| !self.is_over(one.until, now));
        self.known = known;
    }

    /// Whether the server may not have read a cancellation yet.
    pub(super) fn has_unread(&self) -> bool {
        self.known.iter().any(|one| one.until.is_some_and(|until| until.answered_from > self.highest_answered_id))
    }

    /// Number of cancelled calls that still count towards `max_concurrent`. Cancelled tasks do not count. All cancelled calls of
    /// the modern era together count as one.
    pub(super) fn len(&self, now: Instant) -> usize {
        let known = self.known.iter().filter(|one| one.until.is_some() && !self.is_over(one.until, now)).count();
        known + usize::from(self.in_transit_for(now) != Ownership::Nobody)
    }

    /// When the next call stops counting without a further message of the server, if one will.
    pub(super) fn next_over(&self) -> Option<Instant> {
        let by_time = |until: &Until| until.answered_from <= self.highest_answered_id && until.at > Instant::now();
        let known = self.known.iter().filter_map(|one| one.until).filter(by_time).map(|until| until.at);
        let in_transit = self.in_transit.map(|(until, _)| until).filter(|at| *at > Instant::now());
        known.chain(in_transit).min()
    }

    /// The owner of everything that the server may be working on. `unanswered` has the sessions of unanswered calls and of unanswered
    /// requests of the server.
    pub(super) fn owner(&self, unanswered: impl Iterator<Item = u64>, now: Instant) -> Ownership {
        self.owner_unless(|until| self.is_over(until, now), unanswered)
    }

    /// The owner of everything that the server may send a request for.
    pub(super) fn owner_of_request(&self, unanswered: impl Iterator<Item = u64>, now: Instant) -> Ownership {
        self.owner_unless(|until| self.has_stopped(until, now), unanswered)
    }

    fn owner_unless(
        &self,
        is_over: impl Fn(Option<Until>) -> bool,
        unanswered: impl Iterator<Item = u64>,
    ) -> Ownership {
        let forgotten = if is_over(self.forgotten_until) { Ownership::Nobody } else { self.forgotten };
        let known = self.known.iter().filter(|one| !is_over(one.until)).map(|one| one.call.key.session);
        unanswered.chain(known).fold(forgotten, Ownership::and)
    }
}

#[cfg(test)]
mod tests;
