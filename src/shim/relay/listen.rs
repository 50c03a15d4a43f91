//! `subscriptions/listen` requests, and `server/discover` at the next daemon for modern agents.

use std::time::Instant;

use bytes::Bytes;

use super::transitions::is_passing;
use super::{Relay, State};
use crate::shim::listen_requests::{Acknowledgement, PendingListen};
use crate::shim::modern::discovered_version;
use crate::shim::request::{Effect, Request};

impl Relay {
    /// Sends requests to the daemon. They may have been parked before.
    pub(super) fn send(&mut self, line: Bytes, request: Request, waited_since: Option<Instant>) {
        match request {
            Request { id, effect: Effect::Listen } if self.listen_requests.has_room(&line) => {
                self.listen_requests.push(id, &line, waited_since);
                self.to_daemon.push(line);
            }
            request => self.in_flight.push(self.to_daemon.push(line.clone()), Some(line), request, waited_since),
        }
    }

    /// The connection has ended: requests without an acknowledgement are parked.
    pub(super) fn interrupt(&mut self, now: Instant) {
        for PendingListen { id, line, waited_since } in self.listen_requests.interrupt() {
            // Sending it twice has no effect.
            self.park(line, Request { id, effect: Effect::Listen }, waited_since.unwrap_or(now));
        }
    }

    /// Requests the agent's subscriptions again.
    pub(super) fn repeat_listens(&mut self) {
        for line in self.listen_requests.interrupted() {
            self.to_daemon.push(line.clone());
        }
    }

    /// Forwards an acknowledgement. A repeated one is replaced by notifications of what the agent may have missed.
    pub(super) fn acknowledged(&mut self, line: Bytes, params: Option<&Bytes>) {
        let (line, missed) = match self.listen_requests.acknowledged(params) {
            Acknowledgement::First => (Some(line), Vec::new()),
            Acknowledgement::Repeated(missed) => (None, missed),
            Acknowledgement::Changed(missed) => (Some(line), missed),
        };
        for line in line.into_iter().chain(missed) {
            self.to_agent.push(line);
        }
    }

    /// Whether to withhold a response that ends a subscription: most likely the daemon is stopping, and the next one
    /// continues the subscription.
    pub(super) fn withholds_end(
        &mut self,
        id: &Bytes,
        outcome: Result<&Bytes, &Bytes>,
        line: &Bytes,
        now: Instant,
    ) -> bool {
        if self.listen_requests.len() == 0 || self.in_flight.has(id) {
            return false;
        }
        let is_failure = outcome.is_err_and(|error| !is_passing(error));
        !self.listen_requests.answered(id, is_failure, line, now)
    }

    /// The `server/discover` request for a new daemon, on behalf of a modern agent whose daemon was lost.
    pub(super) fn discovery(&self, id: &str) -> Option<Bytes> {
        self.memory.client.as_ref().filter(|_| self.is_lost).map(|client| client.discover_request(id))
    }

    /// The daemon is ready. A daemon without the modern era answers each request for itself.
    pub(super) fn discovered(&mut self, result: Option<&Bytes>) {
        self.check_version(result.and_then(discovered_version));
        self.state = State::Connected;
        self.repeat_listens();
        self.send_parked();
        self.report_back();
    }
}
