//! One agent's conversation with one daemon after another. Pure: lines in, lines out, and the time is told to it.
//!
//! Lives here: what becomes of a line of the agent; [`daemon`] has what becomes of one of the daemon's, [`changing`] what is done
//! when a daemon comes or goes, [`listening`] what is done for requests that stay open, [`long`] what
//! becomes of lines that are too long to be kept.

mod changing;
mod daemon;
mod listening;
mod long;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;

use self::long::Long;
use super::asking::{Asking, Effect};
use super::greeting::{Own, marked, message};
use super::held::Held;
use super::lines::Piece;
use super::listens::Listens;
use super::memory::{Introduction, Memory};
use super::modern;
use super::renewal::Renewal;
use super::unanswered::Unanswered;
use crate::era;
use crate::jsonrpc::Message;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::transport::{Incoming, Outbox};

/// When more bytes wait for one side, the other is not read from.
const UNREAD: usize = 256 << 10;

/// Why a request cannot wait for a daemon.
const TOO_MUCH: &str = "the queue of requests that wait for mcpd is full";

/// What is worth a word to whoever looks after the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// There is no daemon any more.
    Lost,
    /// There is one again, and all goes on.
    Back,
    /// It is of this version, which is not the shim's.
    OtherVersion(String),
    /// There is one, and it does not have the profile any more.
    NoProfile,
}

/// How far things are with the daemon.
#[derive(Debug, PartialEq)]
pub(super) enum Stage {
    /// There is none.
    Away,
    /// One was asked to go on where another was, with this id.
    Greeting(String),
    /// What comes is passed on.
    Live,
    /// The one that is there cannot go on: why.
    Over(String),
}

/// The whole of it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) to_agent: Outbox,
    pub(super) to_daemon: Outbox,
    /// What nobody has been told yet.
    pub(super) news: Vec<News>,
    pub(super) stage: Stage,
    own: Own,
    memory: Memory,
    unanswered: Unanswered,
    held: Held,
    listens: Listens,
    renewal: Renewal,
    long: Option<Long>,
    /// The version that was told of last.
    told_version: Option<String>,
    /// A daemon was lost, and no other has taken its place.
    is_lost: bool,
    /// Since when the daemon that is there refuses requests because it is being stopped.
    draining_since: Option<Instant>,
}

impl Conversation {
    /// Before the first word. `nonce` is what no agent can know.
    pub(super) fn new(own: Own, nonce: u64) -> Self {
        Self {
            to_agent: Outbox::default(),
            to_daemon: Outbox::default(),
            news: Vec::new(),
            stage: Stage::Away,
            own,
            memory: Memory::default(),
            unanswered: Unanswered::default(),
            held: Held::default(),
            listens: Listens::default(),
            renewal: Renewal::new(nonce),
            long: None,
            told_version: None,
            is_lost: false,
            draining_since: None,
        }
    }

    /// The agent says this.
    pub(super) fn agent_says(&mut self, piece: Piece, now: Instant) {
        match piece {
            Piece::Line(line) => self.agent_line(line, now),
            Piece::Part(part) => self.agent_part(part),
            Piece::End(part, ends) => {
                self.agent_part(part);
                self.agent_long_ended(&ends);
            }
        }
    }

    /// Whether more of the agent is to be read.
    pub(super) fn may_hear_agent(&self) -> bool {
        match self.stage {
            Stage::Live if self.draining_since.is_some() => {
                self.to_agent.bytes() <= UNREAD && self.to_daemon.bytes() <= UNREAD
            }
            Stage::Live => self.to_daemon.bytes() <= UNREAD && !self.unanswered.is_full(),
            // Then the shim answers itself.
            Stage::Away | Stage::Greeting(_) => self.to_agent.bytes() <= UNREAD,
            Stage::Over(_) => false,
        }
    }

    /// Whether more of the daemon is to be read.
    pub(super) fn may_hear_daemon(&self) -> bool {
        self.to_agent.bytes() <= UNREAD
    }

    /// Whether an agent that says no more has nothing to wait for.
    pub(super) fn owes_nothing(&self) -> bool {
        self.stage != Stage::Live && self.held.requests() == 0
    }

    /// When [`Conversation::expire`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.due().into_iter().chain(self.listens.due()).min()
    }

    /// Refuses what has waited for too long, and tells what was kept back for too long. `why` is the reason that no daemon runs,
    /// if it is known.
    pub(super) fn expire(&mut self, now: Instant, why: Option<&str>) {
        let message = match why {
            Some(why) => format!("mcpd is not running: {why}"),
            None => "mcpd did not come back within 10s".to_owned(),
        };
        for asking in self.held.overdue(now) {
            self.refuse(&asking, &unavailable(&message));
        }
        for end in self.listens.overdue(now) {
            self.to_agent.push(end);
        }
    }

    fn agent_line(&mut self, line: Bytes, now: Instant) {
        let incoming = Incoming::of(message(&line));
        let may_batch = self.may_batch();
        let asking = Asking::of(&incoming, may_batch);
        match &incoming {
            Incoming::Message { message: Message::Request { id, method, params }, .. }
                if method[..] == *b"ping"
                    && (self.stage != Stage::Live && self.is_lost || self.draining_since.is_some())
                    && !modern::is(params.as_ref()) =>
            {
                self.to_agent.push(reply::result(id, b"{}"));
            }
            Incoming::Message { message: Message::Request { method, params, .. }, .. }
                if method[..] == *b"initialize"
                    && self.memory.introduction.is_none()
                    && !modern::is(params.as_ref()) =>
            {
                let line = marked(&line, &self.own);
                let introduction = Introduction { line: line.clone(), protocol: None, is_ready: false };
                self.memory.introduction = Some(introduction);
                self.pass(line, asking.map(Asking::introducing), now);
            }
            // Who has asked that is there no more.
            Incoming::Message { message: Message::Response { id, .. }, .. } if self.memory.is_dead(id) => {}
            Incoming::Batch(members) if may_batch => {
                members.iter().for_each(|member| self.heed_agent(member));
                self.pass(line, asking, now);
            }
            single => {
                self.heed_agent(single);
                self.pass(line, asking, now);
            }
        }
    }

    /// Hands a line to the daemon. While there is none what asks nothing is lost.
    fn pass(&mut self, line: Bytes, asking: Option<Asking>, now: Instant) {
        for asked in asking.iter().flat_map(|asking| &asking.asked) {
            if let Effect::Subscribed(uri) | Effect::Unsubscribed(uri) = &asked.effect {
                self.renewal.leave_alone(uri);
            }
        }
        match (&self.stage, asking) {
            (Stage::Live, None) => drop(self.to_daemon.push(line)),
            (Stage::Live, Some(asking)) => match self.draining_since {
                Some(since) => self.hold(line, asking, since),
                None => self.send(line, asking, None),
            },
            (Stage::Away | Stage::Greeting(_), Some(asking)) => self.hold(line, asking, now),
            (Stage::Over(why), Some(asking)) => self.refuse(&asking, &unavailable(&why.clone())),
            (_, None) => {}
        }
    }

    /// Takes note of what the agent says.
    fn heed_agent(&mut self, incoming: &Incoming) {
        let Incoming::Message { message, .. } = incoming else { return };
        match message {
            Message::Request { method, params, .. } => self.memory.asked(method, params.as_ref()),
            Message::Notification { method, params } => match &method[..] {
                b"notifications/cancelled" => {
                    if let Some(Ok([Some(id)])) = params.as_ref().map(|params| members(params, ["requestId"])) {
                        self.unanswered.cancel(&id);
                        self.held.cancel(&id);
                        self.listens.cancel(&id);
                    }
                }
                b"notifications/initialized" => {
                    if let Some(introduction) = &mut self.memory.introduction {
                        introduction.is_ready = true;
                    }
                }
                _ => {}
            },
            Message::Response { id, .. } => self.memory.question_ended(id),
        }
    }

    fn may_batch(&self) -> bool {
        let protocol = self.memory.protocol().and_then(|protocol| str::from_utf8(protocol).ok());
        protocol.is_some_and(|protocol| era::has(protocol, era::BATCHES))
    }

    /// Keeps a line that was sent before, but seen by no server.
    fn hold_sent(&mut self, number: u64, line: Bytes, asking: Asking, since: Instant) {
        if let Err(asking) = self.held.push_at(number, line, asking, since) {
            self.refuse(&asking, &overloaded(TOO_MUCH));
        }
    }

    /// Keeps a line until there is a daemon, if there is room.
    fn hold(&mut self, line: Bytes, asking: Asking, now: Instant) {
        if let Err(asking) = self.held.push(line, asking, now) {
            self.refuse(&asking, &overloaded(TOO_MUCH));
        }
    }

    fn refuse(&mut self, asking: &Asking, error: &ErrorObject) {
        if asking.introduces() {
            // It may introduce itself again.
            self.memory.introduction = None;
        }
        self.to_agent.push(asking.refusal(error));
    }
}

/// To what may have been done by a daemon that is there no more.
fn gone() -> ErrorObject {
    let message = "mcpd has gone, and whether it has done this is not known";
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, message, Delivery::Unknown)
}

fn unavailable(message: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Unavailable, message, Delivery::NotSent)
}

fn overloaded(message: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Overloaded, message, Delivery::NotSent)
}
