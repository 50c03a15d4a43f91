//! What servers ask the agent: under ids of the session's own, for two servers may use the same.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation` and
//! `progress`.

use bytes::Bytes;
use futures_util::future::FutureExt;
use tokio::sync::oneshot::error::TryRecvError;

use super::{Rare, Session};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::{Pending, Taken};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::question::{Back, Question, Withdrawal};

/// Requests of all servers that one agent may have unanswered; one more is refused at once with −31003.
const MOST: usize = 64;
/// Longest progress of an agent that is passed on, in bytes. More is dropped: it is not refused while the server does not read.
const MAX_PROGRESS: usize = 64 << 10;

/// Those of one agent.
#[derive(Default)]
pub(super) struct Questions {
    open: Pending<Open>,
    /// Those that came before the agent had said that it is ready.
    early: Vec<Question>,
    /// It can answer no more.
    closed: bool,
}

/// One that the agent was told.
struct Open {
    back: Back,
    /// The server's own, raw.
    progress_token: Option<Bytes>,
}

impl Session {
    /// A server wants something of the agent, which hears of it or is said not to at once.
    pub(super) fn question(&mut self, question: Question) {
        if !self.abilities.include(question.ability) {
            question.back.unable(question.ability);
        } else if self.questions.closed {
            question.back.not_asked(-31004, "the agent says no more");
        } else if self.questions.open.len() + self.questions.early.len() >= MOST {
            question.back.not_asked(-31003, "the agent has too many unanswered requests");
        } else if !self.may_read_more() {
            question.back.not_asked(-31003, "the agent does not read");
        } else if self.initialized {
            self.tell_question(question);
        } else {
            self.questions.early.push(question);
        }
    }

    /// Two servers may choose the same id and the same token: the session's own id stands in the place of both.
    fn tell_question(&mut self, question: Question) {
        let Question { line, id, progress_token, back, mut withdrawn, .. } = question;
        // It may have waited for the agent to be ready.
        if !matches!(withdrawn.try_recv(), Err(TryRecvError::Empty)) {
            return;
        }
        let (outbox, waits) = (&mut self.outbox, &mut self.waits);
        self.questions.open.register(|own| {
            let mut digits = itoa::Buffer::new();
            let replacement = digits.format(own).as_bytes();
            let token = progress_token.as_ref().unwrap_or(&id);
            let mut edits = [Edit { part: &id, replacement }, Edit { part: token, replacement }];
            let edits = if progress_token.is_some() { &mut edits[..] } else { &mut edits[..1] };
            outbox.push(splice(&line, edits));
            waits.push(withdrawn.map(move |withdrawal| Rare::Withdrawn(own, withdrawal.ok())).boxed());
            let progress_token = progress_token.as_deref().map(Bytes::copy_from_slice);
            Open { back, progress_token }
        });
    }

    /// The agent is ready, and told what came before.
    pub(super) fn tell_early_questions(&mut self) {
        for question in std::mem::take(&mut self.questions.early) {
            self.tell_question(question);
        }
    }

    /// The agent has answered a request, if there is one with this id.
    pub(super) fn answered(&mut self, line: &Bytes, id: &Bytes) {
        if let Some(Open { back, .. }) = self.take_question(id) {
            let line = splice(line, &mut [Edit { part: id, replacement: back.id() }]);
            back.answer(line);
        }
    }

    /// The agent has answered with what is no answer.
    pub(super) fn answered_badly(&mut self, id: &Bytes, code: i32, why: &str) {
        if let Some(Open { back, .. }) = self.take_question(id) {
            back.refuse(&ErrorObject::new(code, why));
        }
    }

    fn take_question(&mut self, id: &Bytes) -> Option<Open> {
        match self.questions.open.take(id) {
            Taken::Owner(open) => Some(open),
            Taken::Stray => {
                self.setup.facts.stray_responses.add_one();
                None
            }
        }
    }

    /// The agent says how far it is with a request.
    pub(super) fn progressed(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(token)])) = params.map(|params| members(params, ["progressToken"])) else { return };
        if let Some(Open { back, progress_token: Some(own), .. }) = self.questions.open.get_mut(&token)
            && line.len() <= MAX_PROGRESS
        {
            back.progress(splice(line, &mut [Edit { part: &token, replacement: own }]));
        }
    }

    /// A server does not want an answer any more: the agent, unless it has answered, hears of that.
    pub(super) fn withdrawn(&mut self, id: u64, withdrawal: Option<Withdrawal>) {
        let mut digits = itoa::Buffer::new();
        let replacement = digits.format(id).as_bytes();
        let Taken::Owner(_) = self.questions.open.take(replacement) else { return };
        self.outbox.push(match withdrawal {
            Some(Withdrawal::Words(words)) => splice(&words.line, &mut [Edit { part: &words.request, replacement }]),
            Some(Withdrawal::Reason(reason)) => reply::cancelled(id, reason),
            None => reply::cancelled(id, "the server has gone"),
        });
    }

    /// The agent has said its last word, which answers whatever it was asked.
    pub(super) fn close_questions(&mut self) {
        self.questions = Questions { closed: true, ..Questions::default() };
    }
}
