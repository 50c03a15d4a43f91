//! Lines of the daemon.

use std::time::Instant;

use bytes::Bytes;

use super::{Relay, RelayEvent, RelayState};
use crate::jsonrpc::codec::LineEnds;
use crate::jsonrpc::mcpd_error::{
    Delivery, ErrorCode, is_refusal_of_stopping_daemon, refused_connection, restart_wait,
};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, MessageError, oversize};
use crate::list_kind::ListKind;
use crate::shim::request::{self, InitializeResult, Request, RequestEffect, parse_result, trim};
use crate::shim::unanswered::InFlightLine;
use crate::transport::Incoming;

/// The first message of a `subscriptions/listen` request.
const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";
/// Requests that a daemon accepts from one agent.
const MAX_REQUESTS: usize = 256;

/// The id of the request that a message refuses because the daemon is stopping, and the error.
fn refused_by_stopping_daemon(incoming: &Incoming) -> Option<(&Bytes, &Bytes)> {
    match incoming {
        Incoming::Message { message: Message::Response { id, response: Err(error) }, .. }
            if is_refusal_of_stopping_daemon(error) =>
        {
            Some((id, error))
        }
        _ => None,
    }
}

/// The reason why the daemon refuses this connection, if a message states one.
fn refused(incoming: &Incoming) -> Option<String> {
    match incoming {
        Incoming::Malformed(MessageError::StrayResponse { error: Some(error) }) => refused_connection(error),
        _ => None,
    }
}

impl Relay {
    /// Handles a line of the daemon.
    pub(in crate::shim) fn receive_from_daemon(&mut self, line: Bytes, now: Instant) {
        if matches!(self.state, RelayState::Closed(_)) {
            return;
        }
        let incoming = Incoming::of(trim(&line));
        if let Some(why) = refused(&incoming) {
            return self.end(why);
        }
        if let RelayState::Resuming(request) = &self.state {
            if let Incoming::Message { message: Message::Response { id, response }, .. } = &incoming
                && id[..] == *request.as_bytes()
            {
                self.resume_answered(response.as_ref());
            }
            // Other messages before the session is resumed are not for the agent.
            return;
        }
        if self.reparks_refused(&incoming, now) {
            return;
        }
        match &incoming {
            Incoming::Message { message: Message::Response { id, response }, .. }
                if self.resubscriptions.is_shim_id(id) =>
            {
                self.resubscriptions.answered(id, response.is_ok());
                return self.resubscribe();
            }
            Incoming::Message { message: Message::Response { id, response }, .. }
                if self.withholds_end(id, response.as_ref(), &line, now) =>
            {
                return;
            }
            Incoming::Message { message: Message::Notification { method, params }, .. }
                if method[..] == *ACKNOWLEDGED =>
            {
                return self.acknowledged(line.clone(), params.as_ref());
            }
            other => self.observe_daemon(other),
        }
        self.to_agent.push(line);
    }

    /// A line of the daemon has ended for which there was no memory. Its request ends with an error.
    pub(in crate::shim) fn daemon_oversized_ended(&mut self, LineEnds { head, tail, size }: &LineEnds, now: Instant) {
        let Some(id) = oversize::id(head, tail) else { return };
        let message = format!("the message has {size} bytes, more than `mcpd connect` could reserve memory for");
        let error = reply::error(Some(&id), &ErrorObject::of_mcpd(ErrorCode::TooLarge, message, Delivery::Unknown));
        if oversize::is_response(head) {
            return self.receive_from_daemon(error, now);
        }
        self.to_daemon.push(error);
    }

    /// Whether a line refuses a request because the daemon is stopping. Then this and all later ones are parked for the next daemon.
    fn reparks_refused(&mut self, incoming: &Incoming, now: Instant) -> bool {
        let Some((id, error)) = refused_by_stopping_daemon(incoming) else { return false };
        let refused = self.in_flight.take_refused(id);
        let Some(InFlightLine { number, line: Some(line), request, waited_since }) = refused else { return false };
        if self.draining_since.is_none() {
            self.draining_since = Some(now);
            self.parked.pause(restart_wait(error).unwrap_or_default());
        }
        self.repark(number, line, request, waited_since.or(self.draining_since).unwrap_or(now));
        true
    }

    /// Updates the state from a message for the agent.
    fn observe_daemon(&mut self, incoming: &Incoming) {
        match incoming {
            Incoming::Message { message: Message::Response { id, response }, .. } => {
                self.answered(id, response.as_ref())
            }
            Incoming::Malformed(MessageError::BadResponse { id }) => self.answered(id, Err(id)),
            Incoming::Message { message: Message::Request { id, .. }, .. } => self.memory.note_daemon_request(id),
            Incoming::Message { message: Message::Notification { method, params }, .. } => {
                if method[..] == *b"notifications/cancelled"
                    && let Some(Ok([Some(id)])) = params.as_ref().map(|params| members(params, ["requestId"]))
                {
                    self.memory.daemon_request_ended(&id);
                } else if method[..] == *ListKind::Resources.change_notification().as_bytes() {
                    self.resubscriptions.retry();
                    self.resubscribe();
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: &Bytes, outcome: Result<&Bytes, &Bytes>) {
        let Some(Request { effect, .. }) = self.in_flight.take(id) else { return };
        match (effect, outcome) {
            (RequestEffect::Initialize, outcome) => self.initialize_answered(outcome.ok().and_then(parse_result)),
            (RequestEffect::Discover, Ok(result)) => self.check_version(request::discovered_version(result)),
            (effect, Ok(_)) => self.memory.apply(effect),
            (_, Err(_)) => {}
        }
        self.resubscribe();
    }

    fn initialize_answered(&mut self, answer: Option<InitializeResult>) {
        let Some(InitializeResult { protocol, daemon }) = answer else {
            self.memory.initialize = None;
            return;
        };
        if let Some(initialize) = &mut self.memory.initialize {
            initialize.protocol = Some(Bytes::copy_from_slice(&protocol));
        }
        self.check_version(daemon);
        self.report_back();
    }

    /// Reports a daemon of another version, once.
    pub(super) fn check_version(&mut self, daemon: Option<String>) {
        let other = daemon.filter(|daemon| daemon != self.info.version);
        if let Some(other) = other.clone().filter(|other| self.reported_version.as_ref() != Some(other)) {
            self.events.push(RelayEvent::OtherVersion(other));
        }
        self.reported_version = other.or(self.reported_version.take());
    }

    /// Requests further subscriptions again, as far as the daemon's limit allows beside the agent's own requests.
    pub(super) fn resubscribe(&mut self) {
        if !self.resubscriptions.has_pending() {
            return;
        }
        let taken = self.in_flight.requests()
            + self.parked.requests()
            + self.listen_requests.len()
            + self.resubscriptions.in_flight();
        let mut room = MAX_REQUESTS.saturating_sub(taken + 1);
        while let Some(request) = self.resubscriptions.next(room) {
            self.to_daemon.push(request);
            room -= 1;
        }
    }
}
