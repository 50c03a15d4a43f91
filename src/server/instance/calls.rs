//! The calls among an instance's requests: out to the server, back to the agent, and every other way one can end.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::cancelled_calls::{GRACE, Until};
use super::crossing::Crossing;
use super::stated::StatedTasks;
use super::task_calls::News;
use super::tasks::Tasks;
use super::{Effect, Instance, PendingRequest};
use crate::calls::Outcome;
use crate::catalog::Lists;
use crate::era::Era;
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::deadline::Deadline;
use crate::server::messages::call::{
    Access, Call, CallKey, Exposure, Failure, Origin, Reply, RequestKind, WeakLoadGuard, numbered,
};
use crate::server::messages::cancellation::Cancellation;
use crate::server::{MAX_IN_FLIGHT, share};

/// Longest cancellation of an agent that is passed on, in bytes: they are not refused while the server does not read.
pub(super) const MAX_WORDS: usize = 4 << 10;

/// Lines that wait for a server that does not read; no call is taken beyond. Those that were cancelled count too, so that
/// calling and cancelling without end fills no memory.
pub(super) const MAX_LINES: usize = 16 * MAX_IN_FLIGHT;

/// A call that is queued for the server or was written to it.
pub(in crate::server) struct Unanswered {
    pub(super) reply: Reply,
    pub(super) matter: RequestKind,
    pub(super) progress_token: Option<Bytes>,
    pub(super) deadline: Deadline,
    /// Its number in the outbox.
    pub(super) line: u64,
    /// Its size there, about.
    bytes: usize,
    pub(super) origin: Origin,
    /// What permits it, for as long as it was not written.
    pub(super) access: Option<Box<Access>>,
    /// What it takes to answer one from the other era.
    pub(super) crossing: Option<Box<Crossing>>,
}

impl Unanswered {
    /// Whether its listener does not expose any more what it is for.
    pub(super) fn is_hidden(&self, server: &str) -> bool {
        self.access.as_ref().is_some_and(|access| access.is_hidden(server))
    }
}

impl Instance {
    /// Queues an agent's call, or refuses it at once. Whether it was queued.
    pub(in crate::server) fn call(&mut self, mut call: Box<Call>) -> bool {
        if let Some(failure) = self.is_paused() {
            self.stats.errors.add_one();
            call.refuse(failure);
            return false;
        }
        let (changes, crossing) = if call.origin.era() == self.wire.era() {
            (Vec::new(), None)
        } else {
            let Ok((crossing, mut changes)) =
                Crossing::of(&call, self.task_support.declared.then_some(&self.always_tasks))
            else {
                call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "`params` or its `_meta` is no object"));
                return false;
            };
            if let Some(error) = crossing.unopened(&self.config.name) {
                call.refuse_with(&error);
                return false;
            }
            let Some((fresh, crossing)) = self.resume(call, crossing) else { return false };
            let Some((fresh, crossing)) = self.with_task(fresh, crossing, &mut changes) else { return false };
            call = fresh;
            (changes, Some(Box::new(crossing)))
        };
        if let Some(what) = self.lacks(&call) {
            self.refuse(*call, what);
            return false;
        }
        // Before the call, so that the server logs so by then.
        if let (Origin::Modern { level: Some(level), .. }, Some(_)) = (&call.origin, &crossing) {
            self.logging.call_started(&mut self.wire, *level);
        }
        let bytes = call.line.len();
        let deadline = Deadline::new(call.limit, Instant::now());
        self.wire.expire_by(deadline.at());
        let Call { line, id: own, rename, progress_token: token, reply, matter, origin, access, .. } = *call;
        let progress_token = token.as_deref().map(Bytes::copy_from_slice);
        let call = Unanswered { reply, matter, progress_token, deadline, line: 0, bytes, origin, access, crossing };
        let numbered = |id| numbered(&line, (&own, rename.as_ref(), token.as_ref()), id, &changes);
        self.wire.send_call(call, |_, id| numbered(id));
        self.count_calls(self.calls + 1);
        true
    }

    /// Subscribes to a resource for an agent's call.
    pub(in crate::server) fn subscribe(&mut self, call: Call) {
        let key = call.reply.key;
        if let Some(call) = self.subscriptions.subscribe(&mut self.wire, call) {
            let was_sent = self.call(Box::new(call));
            self.subscriptions.sent(key, was_sent);
        }
    }

    /// Unsubscribes from a resource for an agent's call; no other agent has it.
    pub(in crate::server) fn unsubscribe(&mut self, call: Box<Call>) {
        if let Some(call) = self.subscriptions.unsubscribe_for(&self.wire, call) {
            self.call(call);
        }
    }

    /// Why there is no place for this call, if there is none.
    fn lacks(&self, call: &Call) -> Option<&'static str> {
        let (session, bytes) = (call.reply.key.session, call.line.len());
        if matches!(call.matter, RequestKind::NewTask) && !self.tasks.have_room() {
            return Some("it has too many tasks that have not ended");
        }
        let unread = |call: &Unanswered| if self.wire.has_begun(call.line) { 0 } else { call.bytes };
        let unread = || self.unanswered().map(|call| (call.reply.key.session, unread(call)));
        let is_unread = self.wire.unwritten_lines() >= MAX_LINES
            || self.wire.is_full_with(bytes) && !share::is_due(self.wire.max_message(), session, bytes, unread());
        is_unread.then_some("it does not read its input")
    }

    /// Whose call a request of this id is.
    pub(super) fn session_of(&mut self, request: u64) -> Option<u64> {
        self.wire.call_mut(request).map(|call| call.reply.key.session)
    }

    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Unanswered> {
        self.wire.calls().map(|(_, call)| call)
    }

    /// Calls that somebody waits for.
    pub(in crate::server) fn awaited(&self) -> usize {
        self.unanswered().filter(|call| call.reply.to().is_some()).count()
    }

    /// The calls of one connection, with the ids that the server knows them by.
    pub(super) fn calls_of(&self, session: u64) -> impl Iterator<Item = (u64, &Unanswered)> {
        self.wire.calls().filter(move |(_, call)| call.reply.key.session == session)
    }

    pub(super) fn refuse(&self, call: Call, what: &'static str) {
        self.stats.errors.add_one();
        call.refuse(Failure::Overloaded { what });
    }

    pub(super) fn count_calls(&mut self, calls: usize) {
        let before = std::mem::replace(&mut self.calls, calls);
        self.stats.in_flight.change(before as u64, calls as u64);
        self.logging.call_ended(&mut self.wire);
    }

    /// Gives up a call of which the agent wants no answer any more, and tells the server if it may have heard of it.
    pub(in crate::server) fn cancel(&mut self, key: CallKey, words: Option<&Cancellation>) {
        let Some((id, mut call)) = self.wire.remove_calls_where(|call, _| call.reply.key == key).pop() else {
            self.subscriptions.cancel_waiting(key);
            self.drop_stated_of(key);
            return self.drop_task_of(key);
        };
        let (makes_task, follows_task) = (call.makes_task(), call.follows_task());
        self.give_up_held(&mut call);
        let is_parked = call.is_parked();
        let ticket = call.reply.ticket().map(Arc::downgrade);
        call.reply.forgive();
        self.count_calls(self.calls - 1);
        self.withdraw_inputs(id);
        let sent = !is_parked && !self.wire.retract(call.line);
        if sent {
            let line = match words.filter(|words| words.line.len() <= MAX_WORDS) {
                Some(Cancellation { line, request }) => {
                    splice(line, &mut [Edit { part: request, replacement: id.to_string().as_bytes() }])
                }
                None if words.is_some() => reply::cancelled(id, "the agent cancelled"),
                None => reply::cancelled(id, "the agent disconnected"),
            };
            self.abandon((id, key), makes_task, ticket, line);
        }
        if follows_task {
            self.drop_task_of(key);
        }
        self.end_requests_for(key.session, (ErrorCode::Died, "the agent has given up the call that this was for"));
        for call in self.subscriptions.cancelled(&mut self.wire, key, sent) {
            self.subscribe(call);
        }
    }

    /// Sends the server a call's cancellation, and a ping behind it.
    pub(super) fn abandon(
        &mut self,
        (id, key): (u64, CallKey),
        makes_task: bool,
        ticket: Option<WeakLoadGuard>,
        cancellation: Bytes,
    ) {
        self.give_up(id, key, makes_task, ticket);
        self.wire.notify(cancellation);
        self.check_cancellations();
    }

    /// Sends a ping behind a cancellation, unless one is unanswered: its answer shows that the server has read the cancellation.
    pub(super) fn check_cancellations(&mut self) {
        let is_sent = self.wire.has_pending(|entry| matches!(entry, PendingRequest::CancellationCheck));
        if !is_sent && self.cancelled.has_unread() {
            self.wire.own_request(self.wire.era().greeting(), json!({}), PendingRequest::CancellationCheck);
        }
    }

    /// The server goes on with a call of which nobody waits for the answer, perhaps.
    pub(super) fn give_up(&mut self, id: u64, key: CallKey, makes_task: bool, ticket: Option<WeakLoadGuard>) {
        if self.wire.era() == Era::Legacy {
            let now = Instant::now();
            let at = now + GRACE.min(self.config.settings.call_timeout);
            let until = Until { at, answered: self.wire.next_id() };
            self.cancelled.add((id, key.session), Some(until), ticket, now);
        } else {
            self.cancelled.add_modern(key.session, Instant::now());
        }
        self.wire.give_up(id);
        if makes_task {
            self.tasks.give_up(id, key);
        }
    }

    /// The server has answered the call, which it knows by `id`.
    pub(super) fn end_call(
        &mut self,
        call: Unanswered,
        id: &Bytes,
        answer: Bytes,
        response: Result<&Bytes, &Bytes>,
    ) -> Effect {
        if let Some(failure) = response.err().and_then(|error| self.refused_for_headers(error)) {
            self.fail_sent(call, failure, false);
            return Effect::Nothing;
        }
        let task = match self.task_news(&call, id, response) {
            Ok(task) => task,
            Err(failure) => {
                self.fail_call(call, failure);
                return Effect::Nothing;
            }
        };
        let key = call.reply.key;
        if let Err(error) = response {
            self.stats.errors.add_one();
            if let Some(to) = call.reply.to() {
                self.server_requests.call_failed(error, key.session, to);
            }
        }
        self.end_answered(call, answer, Outcome::of(response), task);
        let subscription = self.subscriptions.answered(&mut self.wire, key, response);
        subscription.map_or(Effect::Nothing, |subscription| Effect::Subscribed(Box::new(subscription)))
    }

    /// Gives the agent its answer.
    pub(super) fn end_answered(&mut self, call: Unanswered, answer: Bytes, outcome: Outcome, task: News) {
        self.count_calls(self.calls - 1);
        call.reply.answer_with(answer, outcome, task);
    }

    /// Answers for the server, which gets a call that it has not begun to read no more; whether it may have read it.
    pub(super) fn fail_call(&mut self, call: Unanswered, failure: Failure) -> bool {
        let sent = !self.wire.retract(call.line);
        self.fail_sent(call, failure, sent);
        sent
    }

    /// The same for one of which it is known whether the server may have read it, as it was sent last.
    pub(super) fn fail_sent(&mut self, call: Unanswered, failure: Failure, sent: bool) {
        let sent = sent || call.was_sent_before();
        self.count_calls(self.calls - 1);
        self.stats.errors.add_one();
        self.subscriptions.failed(&mut self.wire, call.reply.key, &failure, sent);
        if call.follows_task() {
            self.drop_task_of(call.reply.key);
        }
        call.reply.fail(failure, sent);
    }

    /// Takes back calls that wait for a server that does not read, and that their listener hides by now.
    pub(in crate::server) fn revoke_hidden(&mut self, lists: &Lists) {
        let server = &self.config.name;
        let is_hidden = |call: &Unanswered, has_begun: bool| {
            !has_begun
                && !call.is_parked()
                && call.access.as_ref().is_some_and(|access| access.exposure(server, lists) == Exposure::Hidden)
        };
        for (_, call) in self.wire.remove_calls_where(is_hidden) {
            self.wire.retract(call.line);
            self.end_hidden(call);
        }
    }

    /// Answers a call of what its listener does not expose any more.
    pub(super) fn end_hidden(&mut self, call: Unanswered) {
        let Some(access) = &call.access else { return };
        self.count_calls(self.calls - 1);
        self.stats.errors.add_one();
        let failure = Failure::Unavailable { reason: "it was refused".to_owned(), retry_after: None };
        self.subscriptions.failed(&mut self.wire, call.reply.key, &failure, false);
        if call.follows_task() {
            self.drop_task_of(call.reply.key);
        }
        call.reply.answer_unknown(access);
    }

    /// Passes progress to the call whose token it carries, and puts its deadline off.
    pub(super) fn progress(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(token)])) = params.map(|params| members(params, ["progressToken"])) else { return };
        let Some(PendingRequest::Call(call)) = self.wire.get_mut(&token) else {
            return self.task_progress(line, &token);
        };
        let Some(own) = &call.progress_token else { return };
        call.deadline.put_off(Instant::now());
        let line = splice(line, &mut [Edit { part: &token, replacement: own }]);
        call.reply.progress(line);
    }

    /// Ends every call, and with them the tasks: the server is gone, or may not be waited for any longer.
    pub(in crate::server) fn fail_all(&mut self, written: &Failure, unwritten: &Failure) {
        self.tasks = Tasks::default();
        self.stated = StatedTasks::default();
        self.subscriptions.fail_all(unwritten);
        self.server_requests.withdraw_all();
        for (_, owner) in self.wire.remove_where(|_| true) {
            if let PendingRequest::Call(call) = owner {
                let was_written = self.wire.has_begun(call.line) || call.was_sent_before();
                let failure = if was_written { written } else { unwritten };
                self.fail_call(call, failure.clone());
            }
        }
    }
}
