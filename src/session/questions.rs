//! What servers ask the agent: under ids of the session's own, for two servers may use the same.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation`, `progress`
//! and `tasks`.

use bytes::Bytes;
use futures_util::future::FutureExt;

use super::made_tasks::{MadeTask, Narrowed, NotAList};
use super::{Rare, Session};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::text;
use crate::jsonrpc::pending::{Pending, Taken};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::client_capabilities::ClientCapability;
use crate::server::messages::tasks::{TaskState, unknown_task};
use crate::server::question::{Asker, Back, OfTask, Question, TaskWish, Withdrawal};

/// Requests of all servers that one agent may have unanswered, more than one instance may have; one more is refused at once with
/// −31003.
const MOST: usize = 128;
/// Longest progress or status of a task that an agent has passed on, in bytes. More is dropped: it is not refused while the server
/// does not read.
const MAX_ASIDE: usize = 64 << 10;

const TASK_ID_TAKEN: &str = "the agent has made a task with an id that a task of another server has";
const NO_LIST: &str = "the answer of the agent is no list of tasks";

/// Those of one agent.
#[derive(Default)]
pub(super) struct Questions {
    open: Pending<Open>,
    /// Those that came before the agent had said that it is ready.
    early: Vec<Question>,
    /// It can answer no more.
    closed: bool,
}

impl Questions {
    /// Has the first number be this one, before any is given: the agent was asked under lower ones before.
    pub(super) fn begin_at(&mut self, first: Option<u64>) {
        self.open = first.map_or_else(Pending::default, Pending::beginning_at);
    }
}

/// One that the agent was told.
struct Open {
    back: Back,
    /// The server's own, raw.
    progress_token: Option<Bytes>,
    task: Option<OfTask>,
}

impl Session {
    /// A server wants something of the agent, which hears of it or is said not to at once.
    pub(super) fn question(&mut self, question: Question) {
        self.questions.early.retain_mut(Question::is_wanted);
        if !self.abilities.include(question.ability) {
            question.back.unable(question.ability);
        } else if let Some(id) = self.task_of_another(&question) {
            question.back.refuse(&unknown_task(&id));
        } else if self.setup.facts.introduction.get().is_none() {
            question.back.not_asked(
                ErrorCode::Unavailable,
                "the agent has not introduced itself, and can be asked only about a call",
            );
        } else if self.questions.closed {
            question.back.not_asked(ErrorCode::Unavailable, "the agent says no more");
        } else if self.questions.open.len() + self.questions.early.len() >= MOST {
            question.back.not_asked(ErrorCode::Overloaded, "the agent has too many unanswered requests");
        } else if !self.may_read_more() {
            question.back.not_asked(ErrorCode::Overloaded, "the agent does not read");
        } else if self.initialized {
            self.tell_question(question);
        } else {
            self.questions.early.push(question);
        }
    }

    /// The id of the task that it is about, if that was not made for who asks.
    fn task_of_another(&self, question: &Question) -> Option<Bytes> {
        match &question.task {
            Some(OfTask { wish: TaskWish::One(id), asker }) => (!self.made_tasks.is_of(id, asker)).then(|| id.clone()),
            _ => None,
        }
    }

    /// Two servers may choose the same id and the same token: the session's own id stands in the place of both.
    fn tell_question(&mut self, mut question: Question) {
        // It may have waited for the agent to be ready.
        if !question.is_wanted() {
            return;
        }
        let Question { line, id, progress_token, task, back, withdrawn, .. } = question;
        let task = task.filter(|_| self.abilities.include(ClientCapability::Tasks));
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
            Open { back, progress_token, task }
        });
    }

    /// The agent is ready, and told what came before.
    pub(super) fn tell_early_questions(&mut self) {
        for question in std::mem::take(&mut self.questions.early) {
            self.tell_question(question);
        }
    }

    /// The agent has answered a request, if there is one with this id: with this raw result, or with an error.
    pub(super) fn answered(&mut self, line: &Bytes, id: &Bytes, result: Option<&Bytes>) {
        let Some(Open { back, progress_token, task }) = self.take_question(id) else { return };
        let narrowed = match (task, result) {
            (Some(OfTask { wish: TaskWish::Make, asker }), Some(result)) => {
                if !self.keep_task(result, asker, progress_token.map(|own| (Bytes::copy_from_slice(id), own))) {
                    return back.refuse(&ErrorObject::new(INTERNAL_ERROR, TASK_ID_TAKEN));
                }
                None
            }
            (Some(OfTask { wish: TaskWish::List, asker }), Some(result)) => {
                match self.made_tasks.narrow(result, &asker) {
                    Ok(narrowed) => narrowed,
                    Err(NotAList) => return back.refuse(&ErrorObject::new(INTERNAL_ERROR, NO_LIST)),
                }
            }
            _ => None,
        };
        let edit = Edit { part: id, replacement: back.id() };
        let line = match &narrowed {
            None => splice(line, &mut [edit]),
            Some(Narrowed { part, replacement }) => splice(line, &mut [edit, Edit { part, replacement }]),
        };
        back.answer(line);
    }

    /// Remembers for whom the agent has made a task, if this result says that; `false` if it has done so for another server.
    fn keep_task(&mut self, result: &Bytes, asker: Asker, progress_token: Option<(Bytes, Bytes)>) -> bool {
        TaskState::made(result)
            .is_none_or(|state| self.made_tasks.add(MadeTask { id: state.id, asker, progress_token }))
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
    pub(super) fn progressed(&mut self, line: &Bytes, token: Option<Bytes>) {
        let Some(token) = token else { return };
        if let Some(Open { back, progress_token: Some(own), .. }) = self.questions.open.get_mut(&token)
            && line.len() <= MAX_ASIDE
        {
            back.progress(splice(line, &mut [Edit { part: &token, replacement: own }]));
        } else if let Some((asker, own)) = self.made_tasks.of_token(&token)
            && line.len() <= MAX_ASIDE
        {
            asker.tell(splice(line, &mut [Edit { part: &token, replacement: own }]));
        }
    }

    /// The agent says how a task is, which its server hears and no other.
    pub(super) fn status_told(&mut self, line: &Bytes, id: Option<&Bytes>) {
        match id.and_then(text).and_then(|id| self.made_tasks.asker_of(&id)) {
            Some(asker) if line.len() <= MAX_ASIDE => asker.tell(splice(line, &mut [])),
            Some(_) => {}
            None => self.setup.facts.stray_notifications.add_one(),
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
