//! What the server asks: what is answered at once, to whom the rest may go, and every way in which that ends.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation`,
//! `basic/utilities/tasks`.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};

use super::Instance;
use super::calls::MAX_WORDS;
use super::elicitations::Elicitations;
use super::rounds::{Place, given};
use super::task_inputs::TaskInput;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::splice;
use crate::server::call::{ReplySender, ToAgent};
use crate::server::cancellation::Cancellation;
use crate::server::question::{Asker, Said, Withdrawal, failed};
use crate::server::unasked::Unasked;

/// Requests of one instance that agents have not answered. When there are so many, one more is refused at once with −31003; as
/// it is if those have the bytes of one largest message together.
pub(super) const MOST: usize = 64;

/// Those of one instance.
#[derive(Default)]
pub(in crate::server) struct Questions {
    open: Vec<Open>,
    /// How many there have been.
    count: u64,
    /// What is to be waited for from now on, and handed to [`Instance::heard`].
    pub(in crate::server) waits: Vec<BoxFuture<'static, Heard>>,
    pub(super) elicitations: Elicitations<ReplySender>,
    /// The way back from the tasks that an agent makes, once it was asked for some.
    asker: Option<Asker>,
}

/// A request that an agent has and that has no answer.
pub(super) struct Open {
    pub(super) number: u64,
    /// The server's own, raw.
    pub(super) id: Bytes,
    pub(super) session: u64,
    pub(super) bytes: usize,
    pub(super) purpose: For,
    /// It came while calls of that agent were unanswered: it ends when the last of them is given up.
    pub(super) is_for_call: bool,
    pub(super) deadline: Instant,
    pub(super) withdraw: oneshot::Sender<Withdrawal>,
}

/// For whom the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The server has asked, and waits.
    Server,
    /// A call waits that is sent again with it.
    Call(Place),
    /// The server is told, and goes on with a task.
    Task(TaskInput),
}

/// What has come back from an agent, and where more may come from.
pub(in crate::server) enum Heard {
    /// To the request of this number.
    Said(u64, Option<Said>, mpsc::Receiver<Said>),
    /// A line about a task that it has made.
    OfTask(Option<Bytes>, mpsc::Receiver<Bytes>),
}

pub(super) async fn said(number: u64, mut way: mpsc::Receiver<Said>) -> Heard {
    Heard::Said(number, way.recv().await, way)
}

async fn of_task(mut way: mpsc::Receiver<Bytes>) -> Heard {
    Heard::OfTask(way.recv().await, way)
}

impl Questions {
    /// The sessions that have any.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|open| open.session)
    }

    /// When the next one has waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.deadline).min()
    }

    /// Whether an agent has any.
    pub(in crate::server) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The server is gone: whoever has any is told so.
    pub(super) fn withdraw_all(&mut self) {
        self.open.clear();
    }

    /// Whether the server has one with this raw id.
    pub(super) fn has(&self, id: &Bytes) -> bool {
        self.open.iter().any(|open| open.purpose == For::Server && open.id == id)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.open.iter().map(|open| open.bytes).sum()
    }

    /// The number of the next one.
    pub(super) fn next(&self) -> u64 {
        self.count + 1
    }

    pub(super) fn add(&mut self, open: Open) {
        self.count = open.number;
        self.open.push(open);
    }

    pub(super) fn asker(&mut self) -> Asker {
        let waits = &mut self.waits;
        let asker = self.asker.get_or_insert_with(|| {
            let (asker, way) = Asker::new();
            waits.push(of_task(way).boxed());
            asker
        });
        asker.clone()
    }

    /// Nobody wants an answer any more to what was asked for this.
    pub(super) fn withdraw(&mut self, is_it: impl Fn(For) -> bool, why: &'static str) {
        for Open { withdraw, .. } in self.open.extract_if(.., |open| is_it(open.purpose)) {
            let _ = withdraw.send(Withdrawal::Reason(why));
        }
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|open| open.number == number)
    }
}

impl Instance {
    /// Gives the calls of an agent their full time again: a person may be typing. Whether there are any.
    pub(super) fn put_off_calls(&mut self, session: u64) -> bool {
        let (now, mut any) = (Instant::now(), false);
        for call in self.wire.calls_mut().filter(|call| call.reply.key.session == session) {
            call.deadline.put_off(now);
            any = true;
        }
        any
    }

    /// An agent has answered, says how far it is, or how a task is.
    pub(in crate::server) fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Said(number, what, way) => self.heard_of_question(number, what, way),
            Heard::OfTask(Some(line), way) => {
                self.wire.try_notify(line);
                self.questions.waits.push(of_task(way).boxed());
            }
            // There is always one sender, which is here.
            Heard::OfTask(None, _) => {}
        }
    }

    fn heard_of_question(&mut self, number: u64, what: Option<Said>, way: mpsc::Receiver<Said>) {
        let Some(index) = self.questions.find(number) else { return };
        self.put_off_calls(self.questions.open[index].session);
        match what {
            Some(Said::Progress(line)) => {
                if self.questions.open[index].purpose == For::Server {
                    self.wire.try_notify(line);
                }
                self.questions.waits.push(said(number, way).boxed());
            }
            Some(Said::Answer(line)) => {
                let Open { id, purpose, .. } = self.questions.open.swap_remove(index);
                match purpose {
                    For::Call(place) => self.input_given(place, given(&line)),
                    For::Task(place) => self.task_input_given(place, given(&line)),
                    For::Server if self.wire.try_notify(line) => {}
                    For::Server => {
                        let why = "the answer found no room, because the server does not read";
                        self.wire.try_notify(reply::error(Some(&id), &failed(-31003, why, &self.config.name)));
                    }
                }
            }
            // There is always an answer before the end.
            None => {}
        }
    }

    /// The server says that it does not want an answer any more.
    pub(super) fn withdraw_question(&mut self, line: Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(request)])) = params.map(|params| members(params, ["requestId"])) else { return };
        let is_it = |open: &Open| open.purpose == For::Server && open.id == request;
        let Some(index) = self.questions.open.iter().position(is_it) else { return self.withdraw_held(&request) };
        let withdrawal = if line.len() > MAX_WORDS {
            Withdrawal::Reason("the server cancelled")
        } else {
            Withdrawal::Words(Cancellation { line, request })
        };
        // Whoever has gone meanwhile needs no word.
        let _ = self.questions.open.swap_remove(index).withdraw.send(withdrawal);
    }

    /// A call of an agent was given up. With the last one ends what the server has asked for them.
    pub(super) fn give_up_questions(&mut self, session: u64, error: (i32, &'static str)) {
        if self.questions.open.is_empty() || self.unanswered().any(|call| call.reply.key.session == session) {
            return;
        }
        self.end_questions(|open| open.is_for_call && open.session == session, error);
    }

    /// Ends what has waited too long.
    pub(super) fn expire_questions(&mut self, now: Instant) {
        self.end_questions(|open| open.deadline <= now, (-31002, "the agent did not answer in time"));
    }

    fn end_questions(&mut self, is_over: impl Fn(&Open) -> bool, (code, why): (i32, &'static str)) {
        let over: Vec<_> = self.questions.open.extract_if(.., |open| is_over(open)).collect();
        for Open { id, purpose, withdraw, .. } in over {
            let _ = withdraw.send(Withdrawal::Reason(why));
            match purpose {
                For::Server => {
                    self.wire.try_notify(reply::error(Some(&id), &failed(code, why, &self.config.name)));
                }
                For::Call(place) => self.fail_round(place.call, format!("wanted to know more, but {why}")),
                For::Task(place) => self.task_input_given(place, Err(format!("wanted to know more, but {why}"))),
            }
        }
    }

    /// What was asked for a call is wanted no more.
    pub(super) fn withdraw_inputs(&mut self, call: u64) {
        let is_of_call = |purpose: For| matches!(purpose, For::Call(place) if place.call == call);
        self.questions.withdraw(is_of_call, "the call that this was for has ended");
    }

    /// The server says that a person has been at a URL: those who were sent there hear of it.
    pub(super) fn completed(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(id)])) = params.map(|params| members(params, ["elicitationId"])) else { return };
        let Some(id) = text(&id) else { return };
        for to in self.questions.elicitations.complete(&id) {
            to.send_unasked(ToAgent::Unasked(Unasked::Completed(splice(line, &mut []))));
        }
    }
}
