//! The relay between one agent and one daemon after another. Pure: lines in, lines out, and time as an argument.
//!
//! This file handles lines of the agent. Its submodules handle lines of the daemon ([`from_daemon`]) and changes of the daemon
//! ([`transitions`]).

mod from_daemon;
#[cfg(test)]
mod tests;
mod transitions;

use std::time::Instant;

use bytes::Bytes;

use super::lines::Piece;
use super::memory::{Initialize, SessionMemory};
use super::request::{self, Request, RequestEffect, ShimInfo, annotate, trim};
use super::subscriptions::{ListenRequests, Resubscriptions};
use super::unanswered::{InFlight, ParkedRequests};
use crate::jsonrpc::codec::LineEnds;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::members;
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, oversize};
use crate::transport::{Incoming, Outbox};

/// While more bytes wait for one side, the other is not read.
const MAX_UNREAD: usize = 256 << 10;

/// Why a request cannot be parked.
const QUEUE_FULL: &str = "the queue of requests that wait for mcpd is full";

/// An event that the agent's user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RelayEvent {
    /// The daemon is gone.
    DaemonLost,
    /// A daemon is connected again.
    DaemonBack,
    /// The daemon has this version, which differs from the shim's.
    OtherVersion(String),
    /// The daemon no longer has the profile.
    NoProfile,
    /// The process that listens is not the daemon, for this reason.
    Untrusted(String),
}

/// The state of the connection to the daemon.
#[derive(Debug, PartialEq)]
pub(super) enum RelayState {
    /// Disconnected.
    Disconnected,
    /// A daemon was sent `initialize` or `server/discover` with this id, to resume the session.
    Resuming(String),
    /// Lines are forwarded.
    Connected,
    /// The daemon cannot resume the session, for this reason.
    Closed(String),
}

/// The relay.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) to_agent: Outbox,
    pub(super) to_daemon: Outbox,
    /// Events that were not reported yet.
    pub(super) events: Vec<RelayEvent>,
    pub(super) state: RelayState,
    info: ShimInfo,
    /// The directory that has chosen the agent's profile.
    profile_directory: Option<String>,
    memory: SessionMemory,
    in_flight: InFlight,
    parked: ParkedRequests,
    listen_requests: ListenRequests,
    resubscriptions: Resubscriptions,
    oversized: Option<OversizedLine>,
    /// The daemon version that was reported last.
    reported_version: Option<String>,
    /// A daemon was lost, and no other one has replaced it.
    is_lost: bool,
    /// Since when the daemon refuses requests because it is stopping.
    draining_since: Option<Instant>,
}

impl Relay {
    /// A relay without a daemon. `nonce` is unguessable for agents.
    pub(super) fn new(info: ShimInfo, nonce: u64) -> Self {
        Self {
            to_agent: Outbox::default(),
            to_daemon: Outbox::default(),
            events: Vec::new(),
            state: RelayState::Disconnected,
            info,
            profile_directory: None,
            memory: SessionMemory::default(),
            in_flight: InFlight::default(),
            parked: ParkedRequests::default(),
            listen_requests: ListenRequests::default(),
            resubscriptions: Resubscriptions::new(nonce),
            oversized: None,
            reported_version: None,
            is_lost: false,
            draining_since: None,
        }
    }

    /// Sets the directory that has chosen the agent's profile, before the first connection.
    pub(super) fn set_profile_directory(&mut self, directory: Option<String>) {
        self.profile_directory = directory;
    }

    /// Handles input of the agent.
    pub(super) fn receive_from_agent(&mut self, piece: Piece, now: Instant) {
        match piece {
            Piece::Line(line) => self.agent_line(line, now),
            Piece::Part(part) => self.agent_part(part),
            Piece::End(part, ends) => {
                self.agent_part(part);
                self.agent_oversized_ended(&ends);
            }
        }
    }

    /// Whether to read more from the agent.
    pub(super) fn may_read_agent(&self) -> bool {
        match self.state {
            RelayState::Connected if self.draining_since.is_some() => {
                self.to_agent.bytes() <= MAX_UNREAD && self.to_daemon.bytes() <= MAX_UNREAD
            }
            RelayState::Connected => self.to_daemon.bytes() <= MAX_UNREAD && !self.in_flight.is_full(),
            // The shim itself answers in these states.
            RelayState::Disconnected | RelayState::Resuming(_) => self.to_agent.bytes() <= MAX_UNREAD,
            RelayState::Closed(_) => false,
        }
    }

    /// Whether to read more from the daemon.
    pub(super) fn may_read_daemon(&self) -> bool {
        self.to_agent.bytes() <= MAX_UNREAD
    }

    /// Whether an agent that has closed its output expects nothing more.
    pub(super) fn is_idle(&self) -> bool {
        self.state != RelayState::Connected && self.parked.requests() == 0
    }

    /// When [`Relay::expire`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.parked.next_deadline().into_iter().chain(self.listen_requests.next_deadline()).min()
    }

    /// Refuses requests that were parked too long, and delivers ends that were withheld too long. `why` is the reason
    /// that no daemon runs, if it is known.
    pub(super) fn expire(&mut self, now: Instant, why: Option<&str>) {
        let message = match why {
            Some(why) => format!("mcpd is not running: {why}"),
            None => "mcpd did not come back within 10s".to_owned(),
        };
        for request in self.parked.take_overdue(now) {
            self.refuse(&request, &unavailable(&message));
        }
        for end in self.listen_requests.take_overdue(now) {
            self.to_agent.push(end);
        }
    }

    fn agent_line(&mut self, line: Bytes, now: Instant) {
        // The daemon reads the line in the same way.
        let (incoming, _) = Incoming::read(trim(&line), Sender::Agent);
        let request = Request::of(&incoming);
        match &incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. }
                if method[..] == *b"ping"
                    && (self.state != RelayState::Connected && self.is_lost || self.draining_since.is_some())
                    && !request::is_modern(params.as_ref()) =>
            {
                self.to_agent.push(reply::result(id, b"{}"));
            }
            Incoming::Message { message: Message::Request { method, params, .. }, .. }
                if method[..] == *b"initialize"
                    && self.memory.initialize.is_none()
                    && !request::is_modern(params.as_ref()) =>
            {
                let line = annotate(&line, &self.info);
                let initialize = Initialize { line: line.clone(), protocol: None, is_ready: false };
                self.memory.initialize = Some(initialize);
                let request = request.map(|request| Request { effect: RequestEffect::Initialize, ..request });
                self.forward(line, request, now);
            }
            // The daemon that sent this request is gone.
            Incoming::Message { message: Message::Response { id, .. }, .. } if self.memory.is_from_lost_daemon(id) => {}
            other => {
                self.observe_agent(other);
                self.forward(line, request, now);
            }
        }
    }

    /// Forwards a line to the daemon. Without one, a line without a request is dropped.
    fn forward(&mut self, line: Bytes, request: Option<Request>, now: Instant) {
        if let Some(Request { effect: RequestEffect::Subscribe(uri) | RequestEffect::Unsubscribe(uri), .. }) = &request
        {
            self.resubscriptions.skip(uri);
        }
        match (&self.state, request) {
            (RelayState::Connected, None) => drop(self.to_daemon.push(line)),
            (RelayState::Connected, Some(request)) => match self.draining_since {
                Some(since) => self.park(line, request, since),
                None => self.send(line, request, None),
            },
            (RelayState::Disconnected | RelayState::Resuming(_), Some(request)) => self.park(line, request, now),
            (RelayState::Closed(why), Some(request)) => self.refuse(&request, &unavailable(&why.clone())),
            (_, None) => {}
        }
    }

    /// Updates the state from a message of the agent.
    fn observe_agent(&mut self, incoming: &Incoming) {
        let Incoming::Message { message, .. } = incoming else { return };
        match message {
            Message::Request { method, .. } | Message::Notification { method, .. }
                if method[..] == *b"notifications/initialized" =>
            {
                if let Some(initialize) = &mut self.memory.initialize {
                    initialize.is_ready = true;
                }
            }
            // The daemon lets it take effect with an id, too.
            Message::Request { method, params, .. } | Message::Notification { method, params }
                if method[..] == *b"notifications/cancelled" =>
            {
                if let Some(Ok([Some(id)])) = params.as_ref().map(|params| members(params, ["requestId"])) {
                    self.in_flight.cancel(&id);
                    self.parked.cancel(&id);
                    self.listen_requests.cancel(&id);
                }
            }
            Message::Request { method, params, .. } => self.memory.note_request(method, params.as_ref()),
            Message::Notification { .. } => {}
            Message::Response { id, .. } => self.memory.daemon_request_ended(id),
        }
    }

    /// Parks a line again that was sent but not seen by any server.
    fn repark(&mut self, number: u64, line: Bytes, request: Request, since: Instant) {
        if let Err(request) = self.parked.push_at(number, line, request, since) {
            self.refuse(&request, &overloaded(QUEUE_FULL));
        }
    }

    /// Parks a line until there is a daemon.
    fn park(&mut self, line: Bytes, request: Request, now: Instant) {
        if let Err(request) = self.parked.push(line, request, now) {
            self.refuse(&request, &overloaded(QUEUE_FULL));
        }
    }

    fn refuse(&mut self, request: &Request, error: &ErrorObject) {
        if request.effect == RequestEffect::Initialize {
            // The agent may initialize again.
            self.memory.initialize = None;
        }
        self.to_agent.push(reply::error(Some(&request.id), error));
    }
}

/// The error for a request that a lost daemon may have passed on.
fn gone() -> ErrorObject {
    let message = "mcpd stopped; it is unknown whether this request was executed";
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, message, Delivery::Unknown)
}

fn unavailable(message: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Unavailable, message, Delivery::NotSent)
}

fn overloaded(message: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Overloaded, message, Delivery::NotSent)
}

/// The state of such a line before its end.
#[derive(Debug, PartialEq)]
enum OversizedLine {
    Forwarded,
    /// There was no daemon.
    Refused,
    /// The daemon was lost meanwhile.
    Lost,
}

impl Relay {
    fn agent_part(&mut self, part: Bytes) {
        let is_live = self.state == RelayState::Connected;
        let state =
            self.oversized.get_or_insert(if is_live { OversizedLine::Forwarded } else { OversizedLine::Refused });
        if *state == OversizedLine::Forwarded {
            self.to_daemon.push(part);
        }
    }

    fn agent_oversized_ended(&mut self, LineEnds { head, tail, .. }: &LineEnds) {
        let state = self.oversized.take();
        let Some(id) = oversize::id(head, tail) else { return };
        if oversize::is_response(head) {
            return self.memory.daemon_request_ended(&id);
        }
        let request = Request::plain(id);
        match state {
            // It is partly written, or too large to be parked.
            Some(OversizedLine::Forwarded) => self.in_flight.push(0, None, request, None),
            Some(OversizedLine::Lost) => self.refuse(&request, &gone()),
            Some(OversizedLine::Refused) | None => {
                self.refuse(&request, &overloaded("the message is too large to wait for mcpd"))
            }
        }
    }
}
