//! What the server asks: what is answered at once, to whom the rest may go, and every way in which that ends.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation`,
//! `basic/utilities/tasks`.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};

use super::calls::{MAX_LINES, MAX_WORDS};
use super::elicitations::Elicitations;
use super::ownership::Whose;
use super::{Instance, Owner};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::splice;
use crate::server::call::{ReplySender, ToAgent};
use crate::server::cancellation::Cancellation;
use crate::server::question::{Asker, Back, OfTask, Question, Said, Wish, Withdrawal, failed, not_asked};
use crate::server::role::{Ability, Role};
use crate::server::unasked::Unasked;

/// Requests of one instance that agents have not answered. When there are so many, one more is refused at once with −31003; as
/// it is if those have the bytes of one largest message together.
const MOST: usize = 64;

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
struct Open {
    number: u64,
    /// The server's own, raw.
    id: Bytes,
    session: u64,
    bytes: usize,
    /// It came while calls of that agent were unanswered: it ends when the last of them is given up.
    is_for_call: bool,
    deadline: Instant,
    withdraw: oneshot::Sender<Withdrawal>,
}

/// What has come back from an agent, and where more may come from.
pub(in crate::server) enum Heard {
    /// To the request of this number.
    Said(u64, Option<Said>, mpsc::Receiver<Said>),
    /// A line about a task that it has made.
    OfTask(Option<Bytes>, mpsc::Receiver<Bytes>),
}

async fn said(number: u64, mut way: mpsc::Receiver<Said>) -> Heard {
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

    fn asker(&mut self) -> Asker {
        let waits = &mut self.waits;
        let asker = self.asker.get_or_insert_with(|| {
            let (asker, way) = Asker::new();
            waits.push(of_task(way).boxed());
            asker
        });
        asker.clone()
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|open| open.number == number)
    }
}

impl Instance {
    /// A server that asks hears at once that nobody will answer, or that an agent does, whatever becomes of that agent.
    pub(super) fn server_request(&mut self, line: &Bytes, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        if method[..] == *b"ping" {
            self.say(reply::result(id, b"{}"));
            return;
        }
        let passed_on = match Wish::read(method, params) {
            None => {
                let message = format!("mcpd does not pass `{}` on", String::from_utf8_lossy(method));
                Err(ErrorObject::new(METHOD_NOT_FOUND, message))
            }
            Some(Ok(wish)) if wish.ability == Ability::Roots && !self.is_one_agents() => {
                return self.tell_roots(id);
            }
            Some(Ok(_)) if matches!(self.role, Role::Nobody) => {
                Err(ErrorObject::new(METHOD_NOT_FOUND, "there are no agents here that could be asked"))
            }
            Some(Ok(wish)) if wish.ability == Ability::Tasks && !self.is_one_agents() => {
                let why = "mcpd has not declared `tasks` here: they are for an agent's own instance (`sharing = \"session\"`)";
                Err(ErrorObject::new(METHOD_NOT_FOUND, why))
            }
            Some(wish) => wish.and_then(|wish| self.pass_on(line, id, wish)),
        };
        if let Err(error) = passed_on {
            self.say(reply::error(Some(id), &error));
        }
    }

    /// One that does not read loses what it is told rather than filling our memory; what is small has places of its own, for
    /// it may be that others have sent too much. Whether it is told.
    pub(super) fn say(&mut self, line: Bytes) -> bool {
        let has_place = line.len() <= MAX_WORDS && self.outbox.lines() < MAX_LINES;
        let is_told = has_place || self.outbox.bytes() <= self.max_message;
        if is_told {
            self.send(line);
        }
        is_told
    }

    /// Hands a request to the agent that it is certainly for. Until that has answered, the calls it is for have their full time.
    fn pass_on(&mut self, line: &Bytes, id: &Bytes, wish: Wish) -> Result<(), ErrorObject> {
        let not_asked = |code, why| not_asked(code, why, &self.config.name);
        let (session, to) = self.whom_to_ask().map_err(|why| not_asked(-31004, why))?;
        if self.questions.open.iter().any(|open| open.id == id) {
            return Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"));
        }
        let bytes: usize = self.questions.open.iter().map(|open| open.bytes).sum();
        let is_full = bytes > 0 && bytes + line.len() > self.max_message;
        if is_full || self.questions.open.len() >= MOST {
            return Err(not_asked(-31003, "too many requests for agents are unanswered"));
        }
        let (back, way) = Back::new(id, &self.config.name);
        let own_id = back.id().clone();
        let (withdraw, withdrawn) = oneshot::channel();
        let Wish { ability, progress_token, elicitation, task } = wish;
        // No other may ask for a task that was made for it.
        let task = task.filter(|_| self.is_one_agents()).map(|wish| OfTask { wish, asker: self.questions.asker() });
        let question = Question { line: line.clone(), id: id.clone(), progress_token, ability, task, back, withdrawn };
        if !to.ask(Box::new(question)) {
            return Err(not_asked(-31004, "the agent has gone, or does not keep up"));
        }
        if let Some(elicitation) = elicitation {
            self.questions.elicitations.add(&elicitation, session, &to);
        }
        let deadline = Instant::now() + self.config.settings.call_timeout_max;
        self.expire_by(deadline);
        self.questions.count += 1;
        let number = self.questions.count;
        let (bytes, is_for_call) = (line.len(), self.put_off_calls(session));
        let open = Open { number, id: own_id, session, bytes, is_for_call, deadline, withdraw };
        self.questions.open.push(open);
        self.questions.waits.push(said(number, way).boxed());
        Ok(())
    }

    /// The agent that a request now is certainly for, or why there is none.
    fn whom_to_ask(&self) -> Result<(u64, ReplySender), &'static str> {
        if self.protocol.is_none() {
            return Err("the handshake is not over");
        }
        if let Role::Of(agent) = &self.role {
            return Ok((agent.session, agent.to.clone()));
        }
        match self.whose() {
            Whose::One(session) => {
                let to = self.way_to_owner().ok_or("no agent waits any more for the call that this may be for")?;
                Ok((session, to))
            }
            Whose::Several => Err("several agents are using this server, so mcpd cannot know whom this is for"),
            Whose::Nobody => Err("no agent has a call at this server, so mcpd cannot know whom this is for"),
        }
    }

    /// Gives the calls of an agent their full time again: a person may be typing. Whether there are any.
    fn put_off_calls(&mut self, session: u64) -> bool {
        let (now, mut any) = (Instant::now(), false);
        for owner in self.pending.iter_mut() {
            if let Owner::Call(call) = owner
                && call.reply.key.session == session
            {
                call.deadline.put_off(now);
                any = true;
            }
        }
        any
    }

    /// An agent has answered, says how far it is, or how a task is.
    pub(in crate::server) fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Said(number, what, way) => self.heard_of_question(number, what, way),
            Heard::OfTask(Some(line), way) => {
                self.say(line);
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
                self.say(line);
                self.questions.waits.push(said(number, way).boxed());
            }
            Some(Said::Answer(line)) => {
                let Open { id, .. } = self.questions.open.swap_remove(index);
                if !self.say(line) {
                    let why = "the answer found no room, because the server does not read";
                    self.say(reply::error(Some(&id), &failed(-31003, why, &self.config.name)));
                }
            }
            // There is always an answer before the end.
            None => {}
        }
    }

    /// The server says that it does not want an answer any more.
    pub(super) fn withdraw_question(&mut self, line: Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(request)])) = params.map(|params| members(params, ["requestId"])) else { return };
        let Some(index) = self.questions.open.iter().position(|open| open.id == request) else { return };
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
        for Open { id, withdraw, .. } in self.questions.open.extract_if(.., |open| is_over(open)).collect::<Vec<_>>() {
            self.say(reply::error(Some(&id), &failed(code, why, &self.config.name)));
            let _ = withdraw.send(Withdrawal::Reason(why));
        }
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
