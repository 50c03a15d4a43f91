//! What becomes of a line of the daemon's.

use std::time::Instant;

use bytes::Bytes;

use super::{Conversation, News, Stage};
use crate::jsonrpc::mcpd_error::is_refusal_of_stopping_daemon;
use crate::jsonrpc::members::members;
use crate::jsonrpc::{Malformed, Message};
use crate::list_kind::ListKind;
use crate::shim::asking::{Asked, Effect};
use crate::shim::greeting::{Welcome, message, welcome};
use crate::shim::modern;
use crate::shim::unanswered::Sent;
use crate::transport::Incoming;

/// The first that is heard of a request that listens.
const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";
/// Requests that a daemon takes of one agent.
const MOST: usize = 256;

/// The request that a message refuses because the daemon is being stopped.
fn refused_by_stopping_daemon(incoming: &Incoming) -> Option<&Bytes> {
    match incoming {
        Incoming::Message { message: Message::Response { id, outcome: Err(error) }, .. }
            if is_refusal_of_stopping_daemon(error) =>
        {
            Some(id)
        }
        _ => None,
    }
}

impl Conversation {
    /// The daemon says this, a whole line.
    pub(in crate::shim) fn daemon_says(&mut self, line: Bytes, now: Instant) {
        if matches!(self.stage, Stage::Over(_)) {
            return;
        }
        let incoming = Incoming::of(message(&line));
        if let Stage::Greeting(asked) = &self.stage {
            if let Incoming::Message { message: Message::Response { id, outcome }, .. } = &incoming
                && id[..] == *asked.as_bytes()
            {
                self.greeted(outcome.as_ref());
            }
            // What else it says to a connection that is no session yet is not for the agent.
            return;
        }
        if self.takes_back(&incoming, now) {
            return;
        }
        match &incoming {
            Incoming::Message { message: Message::Response { id, outcome }, .. } if self.renewal.is_own(id) => {
                self.renewal.answered(id, outcome.is_ok());
                return self.renew();
            }
            Incoming::Message { message: Message::Response { id, outcome }, .. }
                if self.ends_listening(id, outcome.as_ref(), &line, now) =>
            {
                return;
            }
            Incoming::Message { message: Message::Notification { method, params }, .. }
                if method[..] == *ACKNOWLEDGED =>
            {
                return self.acknowledged(line.clone(), params.as_ref());
            }
            Incoming::Batch(members) => members.iter().for_each(|member| self.heed_daemon(member)),
            single => self.heed_daemon(single),
        }
        self.to_agent.push(line);
    }

    /// Whether a line only refuses requests because the daemon is being stopped: then they, and all that follow, wait for the next one.
    fn takes_back(&mut self, incoming: &Incoming, now: Instant) -> bool {
        let members = match incoming {
            Incoming::Batch(members) => &members[..],
            single => std::slice::from_ref(single),
        };
        let Some(ids) = members.iter().map(refused_by_stopping_daemon).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let Some(Sent { number, line: Some(line), asking, waited_since }) = self.unanswered.take_back(&ids) else {
            return false;
        };
        if self.draining_since.is_none() {
            self.draining_since = Some(now);
            self.held.pause();
        }
        self.hold_sent(number, line, asking, waited_since.or(self.draining_since).unwrap_or(now));
        true
    }

    /// Takes note of what the agent is about to hear.
    fn heed_daemon(&mut self, incoming: &Incoming) {
        match incoming {
            Incoming::Message { message: Message::Response { id, outcome }, .. } => self.answered(id, outcome.as_ref()),
            Incoming::Malformed(Malformed::BadResponse { id }) => self.answered(id, Err(id)),
            Incoming::Message { message: Message::Request { id, .. }, .. } => self.memory.question(id),
            Incoming::Message { message: Message::Notification { method, params }, .. } => {
                if method[..] == *b"notifications/cancelled"
                    && let Some(Ok([Some(id)])) = params.as_ref().map(|params| members(params, ["requestId"]))
                {
                    self.memory.question_ended(&id);
                } else if method[..] == *ListKind::Resources.change_notification().as_bytes() {
                    self.renewal.retry();
                    self.renew();
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: &Bytes, outcome: Result<&Bytes, &Bytes>) {
        let Some(Asked { effect, .. }) = self.unanswered.take(id) else { return };
        match (effect, outcome) {
            (Effect::Introduced, outcome) => self.introduction_answered(outcome.ok().and_then(welcome)),
            (Effect::Discovered, Ok(result)) => self.compare(modern::discovered(result)),
            (effect, Ok(_)) => self.memory.keep(effect),
            (_, Err(_)) => {}
        }
        self.renew();
    }

    fn introduction_answered(&mut self, answer: Option<Welcome>) {
        let Some(Welcome { protocol, daemon }) = answer else {
            self.memory.introduction = None;
            return;
        };
        if let Some(introduction) = &mut self.memory.introduction {
            introduction.protocol = Some(Bytes::copy_from_slice(&protocol));
        }
        self.compare(daemon);
        self.is_back();
    }

    /// Tells of a daemon of another version, once.
    pub(super) fn compare(&mut self, daemon: Option<String>) {
        let other = daemon.filter(|daemon| daemon != self.own.version);
        if let Some(other) = other.clone().filter(|other| self.told_version.as_ref() != Some(other)) {
            self.news.push(News::OtherVersion(other));
        }
        self.told_version = other.or(self.told_version.take());
    }

    /// Asks for more of what the agent had at another daemon, as long as there is room beside what it asks itself.
    pub(super) fn renew(&mut self) {
        if !self.renewal.is_waiting() {
            return;
        }
        let taken = self.unanswered.requests() + self.held.requests() + self.listens.len() + self.renewal.unanswered();
        let mut room = MOST.saturating_sub(taken + 1);
        while let Some(request) = self.renewal.next(room) {
            self.to_daemon.push(request);
            room -= 1;
        }
    }
}
