//! Requests of the modern era that stay open, and a daemon that is asked whether it serves before it is asked anything else.

use std::time::Instant;

use bytes::Bytes;

use super::changing::is_passing;
use super::{Conversation, Stage};
use crate::shim::asking::{Asked, Asking, Effect};
use crate::shim::listens::{Heard, Unheard};
use crate::shim::modern::discovered;

impl Conversation {
    /// Hands requests to the daemon, which may have waited for it.
    pub(super) fn send(&mut self, line: Bytes, asking: Asking, waited_since: Option<Instant>) {
        match asking.listens() {
            Some(id) if self.listens.has_room(&line) => {
                self.listens.push(id.clone(), &line, waited_since);
                self.to_daemon.push(line);
            }
            _ => self.unanswered.push(self.to_daemon.push(line.clone()), Some(line), asking, waited_since),
        }
    }

    /// The connection has ended: what the agent listens to waits for the next daemon.
    pub(super) fn lapse(&mut self, now: Instant) {
        for Unheard { id, line, waited_since } in self.listens.lapse() {
            // To be asked twice has no effect.
            let asking = Asking { asked: vec![Asked { id, effect: Effect::Listening }], is_batch: false };
            self.hold(line, asking, waited_since.unwrap_or(now));
        }
    }

    /// Has the agent hear what it has heard before.
    pub(super) fn listen_again(&mut self) {
        for line in self.listens.lapsed() {
            self.to_daemon.push(line.clone());
        }
    }

    /// Tells the agent of the acknowledgement `line`; of one that it has heard before, what it may have missed instead.
    pub(super) fn acknowledged(&mut self, line: Bytes, params: Option<&Bytes>) {
        let (line, missed) = match self.listens.acknowledged(params) {
            Heard::First => (Some(line), Vec::new()),
            Heard::Again(missed) => (None, missed),
            Heard::Differently(missed) => (Some(line), missed),
        };
        for line in line.into_iter().chain(missed) {
            self.to_agent.push(line);
        }
    }

    /// Whether this answer ends what may go on with the next daemon. Then it is kept back: the daemon that says so most
    /// likely ends itself.
    pub(super) fn ends_listening(
        &mut self,
        id: &Bytes,
        outcome: Result<&Bytes, &Bytes>,
        line: &Bytes,
        now: Instant,
    ) -> bool {
        if self.listens.len() == 0 || self.unanswered.has(id) {
            return false;
        }
        let is_failure = outcome.is_err_and(|error| !is_passing(error));
        !self.listens.answered(id, is_failure, line, now)
    }

    /// What asks a daemon whether it serves, in the name of an agent that need not be introduced, after one was lost.
    pub(super) fn discovery(&self, id: &str) -> Option<Bytes> {
        self.memory.client.as_ref().filter(|_| self.is_lost).map(|client| client.asks(id))
    }

    /// It does. One that knows nothing of this era answers each request for itself.
    pub(super) fn discovered(&mut self, result: Option<&Bytes>) {
        self.compare(result.and_then(discovered));
        self.stage = Stage::Live;
        self.listen_again();
        self.send_held();
        self.is_back();
    }
}
