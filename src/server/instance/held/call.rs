//! What a server has asked about one call, and who is to come back with the answers.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::chance;
use crate::era::input;
use crate::jsonrpc::reply;
use crate::server::client_capabilities::ClientCapabilities;
use crate::server::instance::asked::{Asked, take_answered};
use crate::server::instance::calls::Unanswered;
use crate::server::instance::crossing::{Crossing, Way};
use crate::server::messages::call::ReplySender;

/// How long the questions of one call are collected. A server that wants to know several things asks them together.
const COLLECT: Duration = Duration::from_millis(50);

/// What the server has asked about one call.
#[derive(Default)]
pub(in crate::server::instance) struct Held {
    pub(in crate::server::instance) asked: Vec<Asked>,
    /// How many there have been.
    count: u64,
    /// What the agent has to come back with.
    state: Option<String>,
    /// The server's answer to the call, which has come while nobody waited.
    pub(super) answer: Option<Bytes>,
    /// Where the agent was told what is asked, and whether it is still there.
    told: Option<(ReplySender, Absence)>,
    /// When the agent is told what is asked. Until then the server may ask more, and the agent is told of all at once.
    tell_at: Option<Instant>,
}

impl Held {
    pub(super) fn bytes(&self) -> usize {
        self.asked.iter().map(Asked::bytes).chain(self.answer.as_ref().map(Bytes::len)).sum()
    }

    /// The server asks this with its request `id`.
    pub(super) fn add(&mut self, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        self.count += 1;
        self.asked.push(Asked::new(self.count, id, method, params.map(|raw| &raw[..])));
        self.tell_at.get_or_insert_with(|| Instant::now() + COLLECT);
    }

    /// When there is something to do: to tell the agent, or to look whether it is still there.
    fn next_look(&self) -> Option<Instant> {
        self.tell_at.or(self.told.as_ref().map(|(_, absence)| absence.look_at))
    }

    /// Whether the server has answered, and is at the call no more.
    pub(in crate::server::instance) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }
}

impl Unanswered {
    pub(super) fn held(&mut self) -> Option<(&ClientCapabilities, &mut Held)> {
        match &mut self.crossing.as_mut()?.way {
            Way::Down { abilities, held, .. } => Some((abilities, held)),
            Way::Up { .. } | Way::About { .. } | Way::Stated { .. } => None,
        }
    }

    /// Whether the server has answered it, and the answer is kept until the agent comes back.
    pub(in crate::server::instance) fn is_answered(&self) -> bool {
        matches!(self.crossing.as_deref(), Some(Crossing { way: Way::Down { held, .. }, .. }) if held.is_answered())
    }

    pub(super) fn is_held_as(&self, wanted: &Bytes, by: &str) -> bool {
        match self.crossing.as_deref() {
            Some(Crossing { way: Way::Down { profile, held, .. }, .. }) => {
                **profile == *by && held.state.as_ref().is_some_and(|state| state.as_bytes() == &wanted[..])
            }
            _ => false,
        }
    }

    /// Answers that more has to be known, if anything has and somebody waits.
    pub(super) fn tell_what_is_asked(&mut self, mark: u64) {
        let (to, id) = (self.reply.to().cloned(), self.reply.id().clone());
        let Some((_, held)) = self.held() else { return };
        held.tell_at = None;
        let Some(to) = to.filter(|_| !held.asked.is_empty()) else { return };
        // Without chance there is no state that could be brought back.
        let Ok(chance) = chance::fresh() else { return };
        let state = format!("{mark:x}.{chance}");
        let result = input::required(held.asked.iter().map(Asked::input), &state);
        held.state = Some(state);
        held.told = Some((to, Absence::from(Instant::now())));
        self.reply.suspend(reply::result(&id, &result));
    }

    /// The server's requests that these are the answers to, by their ids, with lines for it; they are not open any more.
    pub(super) fn take_answered(&mut self, responses: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
        let Some((_, held)) = self.held() else { return Vec::new() };
        // Each is good for once.
        (held.state, held.told) = (None, None);
        take_answered(&mut held.asked, responses)
    }

    /// When to tell the agent what is asked, or to look whether it is still there.
    pub(in crate::server::instance) fn look_at(&self) -> Option<Instant> {
        match &self.crossing.as_deref()?.way {
            Way::Down { held, .. } => held.next_look(),
            Way::Up { .. } | Way::About { .. } | Way::Stated { .. } => None,
        }
    }

    /// Tells the agent what is asked, or lets the call run out of time if the agent has gone for good.
    pub(in crate::server::instance) fn look(&mut self, mark: u64, now: Instant) {
        let Some((_, held)) = self.held() else { return };
        if held.tell_at.is_some_and(|at| at <= now) {
            return self.tell_what_is_asked(mark);
        }
        let Some((_, Held { told: Some((to, absence)), .. })) = self.held() else { return };
        if absence.look(to.is_gone(), now) {
            self.deadline.end(now);
        }
    }
}

/// How long an agent is away that has been asked something, as far as is known: it is looked at now and then. A person may take long to
/// answer, but one that has gone comes back soon or not at all, and as long as a call of it goes on a shared server can ask nobody else.
#[derive(Debug)]
struct Absence {
    look_at: Instant,
    is_gone: bool,
}

/// From one look to the next. Who has gone is away for two of them at most.
const LOOK: Duration = Duration::from_secs(30);

impl Absence {
    fn from(now: Instant) -> Self {
        Self { look_at: now + LOOK, is_gone: false }
    }

    /// Whether it was long enough.
    fn look(&mut self, is_gone: bool, now: Instant) -> bool {
        if now < self.look_at {
            return false;
        }
        let was_gone = std::mem::replace(&mut self.is_gone, is_gone);
        self.look_at = now + LOOK;
        was_gone && is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_at_two_looks_one_after_the_other_is_gone_for_good() {
        let (now, mut seconds) = (Instant::now(), 0);
        let mut absence = Absence::from(now);
        for (after, is_gone, expected) in [
            (29, true, false),
            (1, false, false),
            (60, true, false),
            (29, true, false),
            (1, false, false),
            (31, true, false),
            (30, true, true),
        ] {
            seconds += after;
            let now = now + Duration::from_secs(seconds);
            assert_eq!(absence.look(is_gone, now), expected, "after {seconds} s");
        }
    }
}
