//! Messages in, one by one or in batches, and answers out, alone or with those of their batch.

use bytes::Bytes;

use super::Session;
use super::agent_message::{AgentMessage, Request};
use crate::era;
use crate::jsonrpc::batch::MOST;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST};

impl Session {
    /// Whether the agent may send batches.
    pub(super) fn takes_batches(&self) -> bool {
        self.has(era::BATCHES)
    }

    /// Whether the version that was negotiated has this method, notification or capability.
    pub(super) fn has(&self, name: &str) -> bool {
        self.setup.facts.introduction.get().is_some_and(|introduction| era::has(introduction.protocol, name))
    }

    /// Handles each member as if it had come alone.
    pub(super) async fn take_batch(&mut self, members: Vec<AgentMessage>) {
        if members.is_empty() {
            return self.refuse(None, INVALID_REQUEST, "a batch without a member");
        }
        self.batches.begin();
        for member in members {
            let asked = match &member {
                AgentMessage::Request(Request { id, .. }) => Some(id.clone()),
                _ => None,
            };
            let asked = asked.filter(|id| !self.is_unanswered(id));
            self.take_one(member);
            self.send_delayed().await;
            if let Some(id) = asked.filter(|id| self.is_unanswered(id)) {
                self.batches.expect(&id);
            }
        }
        let answers = self.batches.end();
        self.push(answers);
    }

    /// Why a batch cannot be taken.
    pub(super) fn refuse_batch(&mut self) {
        let why = if self.takes_batches() {
            format!("a batch has at most {MOST} members")
        } else {
            "batches are not supported in this version of MCP".to_owned()
        };
        self.refuse(None, INVALID_REQUEST, why);
    }

    /// Whether a request with this id is unanswered.
    pub(super) fn is_unanswered(&self, id: &Bytes) -> bool {
        self.calls.contains_key(id)
            || self.pages.contain(id)
            || self.listens.contain(id)
            || self.deferred.iter().any(|waiting| waiting.id() == id)
    }

    /// Whether any request is that does not stay open for as long as the agent is there.
    pub(super) fn owes_answers(&self) -> bool {
        !self.calls.is_empty() || !self.deferred.is_empty() || self.pages.len() > 0
    }

    /// Says a whole line, in parts: the answer to the request `id`, or one to what is no request that waits.
    pub(super) fn respond(&mut self, id: Option<&Bytes>, answer: impl IntoIterator<Item = Bytes>) {
        if self.batches.is_empty() || !self.batches.wants(id) {
            return self.push(answer);
        }
        let mut answer: Vec<Bytes> = answer.into_iter().collect();
        let bytes: usize = answer.iter().map(Bytes::len).sum();
        if let Some(id) = id
            && self.batches.bytes() + bytes > self.setup.max_message
        {
            let message = "the answers to a batch are over the message cap together";
            let error = ErrorObject::of_mcpd(ErrorCode::TooLarge, message, Delivery::Unknown);
            answer = vec![reply::error(Some(id), &error)];
        }
        let answers = self.batches.keep(id, answer);
        self.push(answers);
    }

    /// The request will not be answered: whoever waits for a batch does not wait for it.
    pub(super) fn forget(&mut self, id: &Bytes) {
        let answers = self.batches.forget(Some(id));
        self.push(answers);
    }

    /// Says what there is of every batch.
    pub(super) fn give_up_batches(&mut self) {
        for answers in self.batches.give_up() {
            self.push(answers);
        }
    }

    fn push(&mut self, parts: impl IntoIterator<Item = Bytes>) {
        for part in parts {
            self.outbox.push(part);
        }
    }
}
