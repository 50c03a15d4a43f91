//! Changes of the daemon: lost, connected, resumed, closed. The next daemon receives the requests that continue.

use std::time::Instant;

use bytes::Bytes;

use super::{OversizedLine, Relay, RelayEvent, RelayState, gone, unavailable};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply;
use crate::shim::request::{
    InitializeResult, Request, RequestEffect, discovered_version, parse_result, profile_directory, replay, use_face,
};
use crate::shim::subscriptions::{self, Acknowledgement, PendingListen};
use crate::shim::unanswered::ParkedLine;
use crate::transport::Outbox;

impl Relay {
    /// The connection to the daemon has ended.
    pub(in crate::shim) fn lost(&mut self, now: Instant) {
        self.state = RelayState::Disconnected;
        if let Some(since) = self.draining_since.take() {
            self.parked.resume(now.saturating_duration_since(since));
        }
        self.resubscriptions.clear();
        let mut unsent = std::mem::take(&mut self.to_daemon);
        for sent in self.in_flight.end() {
            // Initializing again has no effect.
            let is_initialize = sent.request.effect == RequestEffect::Initialize;
            let line = match &self.memory.initialize {
                Some(initialize) if is_initialize => Some(initialize.line.clone()),
                _ => unsent.take(sent.number),
            };
            match line {
                // Repeated restarts do not extend the wait.
                Some(line) => self.repark(sent.number, line, sent.request, sent.waited_since.unwrap_or(now)),
                None => self.refuse(&sent.request, &gone()),
            }
        }
        self.interrupt(now);
        for cancelled in self.memory.cancel_daemon_requests() {
            self.to_agent.push(cancelled);
        }
        self.oversized = self
            .oversized
            .take()
            .map(|state| if state == OversizedLine::Forwarded { OversizedLine::Lost } else { state });
        if !std::mem::replace(&mut self.is_lost, true) {
            self.events.push(RelayEvent::DaemonLost);
        }
    }

    /// A daemon is connected.
    pub(in crate::shim) fn connected(&mut self) {
        self.to_daemon = Outbox::default();
        let directory = profile_directory(self.profile_directory.as_ref());
        for notification in directory.into_iter().chain(use_face(&self.info)) {
            self.to_daemon.push(notification);
        }
        let id = self.resubscriptions.id();
        let initialize = self.memory.initialize.as_ref();
        let request =
            initialize.and_then(|known| replay(&known.line, &id, known.protocol.as_ref()?, self.memory.ids_from()));
        match request.or_else(|| self.discovery(&id)) {
            Some(request) => {
                self.to_daemon.push(request);
                self.state = RelayState::Resuming(id);
            }
            None => {
                self.state = RelayState::Connected;
                self.send_parked();
            }
        }
    }

    /// The daemon has answered the replayed `initialize` or `server/discover`.
    pub(super) fn resume_answered(&mut self, outcome: Result<&Bytes, &Bytes>) {
        // The daemon is stopping or full. It will close the connection, and the next one is tried.
        if outcome.is_err_and(is_passing) {
            return;
        }
        if self.memory.protocol().is_none() {
            return self.discovered(outcome.ok());
        }
        let answer = match outcome.map(parse_result) {
            Ok(answer) => answer,
            Err(error) => {
                return self.end(format!("the next daemon refuses `initialize`: {}", String::from_utf8_lossy(error)));
            }
        };
        match answer {
            Some(InitializeResult { protocol, daemon }) if Some(&protocol) == self.memory.protocol() => {
                self.check_version(daemon);
                self.resume();
            }
            Some(InitializeResult { protocol, .. }) => {
                let protocol = String::from_utf8_lossy(&protocol).into_owned();
                self.end(format!("the next daemon negotiates another version of MCP: {protocol}"));
            }
            None => self.end("the next daemon sends an invalid response to `initialize`".to_owned()),
        }
    }

    fn resume(&mut self) {
        self.state = RelayState::Connected;
        if self.memory.is_ready() {
            self.to_daemon.push(reply::notification("notifications/initialized"));
        }
        if let Some(level) = &self.memory.log_level {
            let id = self.resubscriptions.id();
            self.to_daemon.push(subscriptions::request(&id, "logging/setLevel", "level", level));
        }
        self.repeat_listens();
        self.resubscriptions.begin(&self.memory.subscriptions);
        self.resubscribe();
        self.send_parked();
        if self.memory.is_ready() {
            for change in self.memory.list_changes() {
                self.to_agent.push(change);
            }
        }
        self.report_back();
    }

    /// Reports that a daemon is back, if one was lost.
    pub(super) fn report_back(&mut self) {
        if std::mem::take(&mut self.is_lost) {
            self.events.push(RelayEvent::DaemonBack);
        }
    }

    pub(super) fn send_parked(&mut self) {
        while let Some(ParkedLine { line, request, since, .. }) = self.parked.take_first() {
            let is_initialize = request.effect == RequestEffect::Initialize;
            self.send(line, request, Some(since));
            // The agent may have sent `notifications/initialized` without waiting for the response.
            if is_initialize && self.memory.is_ready() {
                self.to_daemon.push(reply::notification("notifications/initialized"));
            }
        }
    }

    /// Gives up, for this reason.
    pub(in crate::shim) fn end(&mut self, why: String) {
        for sent in self.in_flight.end() {
            self.refuse(&sent.request, &unavailable(&why));
        }
        while let Some(ParkedLine { request, .. }) = self.parked.take_first() {
            self.refuse(&request, &unavailable(&why));
        }
        for id in self.listen_requests.end() {
            self.refuse(&Request::plain(id), &unavailable(&why));
        }
        self.state = RelayState::Closed(why);
    }
}

/// Whether an error is temporary, so that the next daemon may accept.
pub(super) fn is_passing(error: &Bytes) -> bool {
    matches!(ErrorCode::of(error), Some(ErrorCode::Overloaded | ErrorCode::Unavailable | ErrorCode::ShuttingDown))
}

impl Relay {
    /// Sends requests to the daemon. They may have been parked before.
    pub(super) fn send(&mut self, line: Bytes, request: Request, waited_since: Option<Instant>) {
        match request {
            Request { id, effect: RequestEffect::Listen } if self.listen_requests.has_room(&line) => {
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
            self.park(line, Request { id, effect: RequestEffect::Listen }, waited_since.unwrap_or(now));
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
        self.state = RelayState::Connected;
        self.repeat_listens();
        self.send_parked();
        self.report_back();
    }
}
