//! Calls of agents: queued for the server, cancelled, and ended with the answer or error that the agent gets.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::abandoned_calls::{AbandonedCall, GRACE, Until};
use super::ending::Ending;
use super::forwarded_requests::RequestEnd;
use super::pending_request::{PendingCall, PendingRequest, ServerResponse};
use super::wire::{MAX_SMALL_LINE, Wire};
use super::{Effect, Effects, Instance, suspended_calls};
use crate::bridge::BridgedCall;
use crate::calls::CallOutcome;
use crate::catalog::Lists;
use crate::config::{Malformed, SandboxLevel};
use crate::durations::{Labels, Measured, Operation};
use crate::era::response::with_result_type;
use crate::era::{Era, HEADER_MISMATCH};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::list_kind::ListKind;
use crate::printable::excerpt;
use crate::server::error::ServerError;
use crate::server::messages::call::{Call, CallKey, Failure, Origin, RequestKind};
use crate::server::server_request::Cancellation;

/// Maximum number of characters of the server's message in an error.
const MAX_EXCERPT_LEN: usize = 100;

/// Requests.
impl Instance {
    /// Queues an agent's call, or refuses it at once.
    pub(in crate::server) fn call(&mut self, call: Box<Call>) -> Effects {
        if let Some(left) = self.wire.paused_for() {
            self.refuse(*call, Failure::Unavailable { reason: ServerError::RetryLater, retry_after: Some(left) });
            return Effects::none();
        }
        if call.origin.era() != self.wire.era() {
            return self.bridge(*call);
        }
        self.send(*call, None, &[]);
        Effects::none()
    }

    /// Queues a call for the server, or refuses it. A call between the eras has a state, and changes to its line.
    pub(super) fn send(&mut self, call: Call, state: Option<BridgedCall>, changes: &[Change]) {
        let Some(call) = self.check_limits(call) else { return };
        if state.is_some()
            && let Origin::Modern { level: Some(level), .. } = &call.origin
        {
            // Before the call, so that the level applies to the call.
            self.logging.call_started(&mut self.wire, *level);
        }
        let (call, line) = PendingCall::new(call, state, changes);
        self.wire.expire_by(call.deadline.at());
        self.calls.count_started();
        self.queue(call, line);
    }

    /// Queues a request of a call, or fails the call if the request is too large.
    pub(super) fn queue(&mut self, call: PendingCall, line: impl FnOnce(u64) -> Bytes) {
        if let Err(refused) = self.wire.send_call(call, line) {
            let (call, size) = *refused;
            let limit = self.wire.limit().clone();
            self.fail_with(call, Failure::RequestTooLarge { size, limit }, false);
        }
    }

    /// Returns the call unless it is refused.
    fn check_limits(&self, call: Call) -> Option<Call> {
        let what = if matches!(call.kind, RequestKind::NewTask) && !self.tasks.have_capacity() {
            "it has too many tasks that have not ended"
        } else if self.calls.exceeds_outbox(&self.wire, &call) {
            "it does not read its input"
        } else {
            return Some(call);
        };
        self.refuse(call, Failure::Overloaded { what });
        None
    }

    fn refuse(&self, call: Call, failure: Failure) {
        self.stats().errors.add_one();
        call.refuse(failure);
    }

    /// Subscribes to a resource for an agent's call.
    pub(in crate::server) fn subscribe(&mut self, call: Call) -> Effects {
        let key = call.response_handle.key;
        let Some(call) = self.subscriptions.subscribe(&mut self.wire, call) else { return Effects::none() };
        let effects = self.call(Box::new(call));
        if !self.wire.calls().any(|(_, call)| call.response_handle.key == key) {
            self.subscriptions.forget_request(key);
        }
        effects
    }

    /// Unsubscribes from a resource for the call of the last agent that has subscribed to it.
    pub(in crate::server) fn unsubscribe(&mut self, call: Box<Call>) -> Effects {
        self.subscriptions.unsubscribe_for(&self.wire, call).map_or_else(Effects::none, |call| self.call(call))
    }

    /// Cancels a call. The server receives the cancellation if it may have received the call.
    pub(in crate::server) fn cancel(&mut self, key: CallKey, cancellation: Option<&Cancellation>) -> Effects {
        let Some((id, mut call)) = self.wire.take_call_of(key) else {
            self.subscriptions.cancel_waiting(key);
            self.drop_task_of(key);
            return Effects::none();
        };
        self.withdraw_requests_for(id, &mut call);
        let abandoned = AbandonedCall::of(&call, id);
        let may_have_arrived = !call.has_no_pending_request() && !self.wire.retract(call.line);
        if may_have_arrived {
            self.measure_call(&call, CallOutcome::Cancelled);
        }
        call.response_handle.disarm();
        self.count_ended();
        if may_have_arrived {
            let line = match cancellation.filter(|cancellation| cancellation.line.len() <= MAX_SMALL_LINE) {
                Some(Cancellation { line, request }) => {
                    splice(line, &mut [Edit { part: request, replacement: id.to_string().as_bytes() }])
                }
                None if cancellation.is_some() => reply::cancelled(id, "the agent cancelled"),
                None => reply::cancelled(id, "the agent disconnected"),
            };
            self.abandon(abandoned, line);
        }
        let reason = "the agent has given up the call that this was for";
        self.end_requests_for(key.session, RequestEnd { code: ErrorCode::Died, reason });
        let mut effects = Effects::none();
        for call in self.subscriptions.cancelled(&mut self.wire, key, may_have_arrived) {
            effects.append(self.subscribe(call));
        }
        effects
    }

    /// Takes back unwritten calls that their listener hides by now.
    pub(in crate::server) fn revoke_hidden(&mut self, lists: &Lists) {
        for call in self.calls.take_hidden(&mut self.wire, &self.config.name, lists) {
            self.end_hidden(call);
        }
    }

    /// Takes the unwritten calls, in the form in which their sessions sent them. For an instance that has ended.
    ///
    /// A call that cannot be read again ends with `failure`.
    pub(in crate::server) fn take_unwritten(&mut self, failure: &Failure) -> Vec<Call> {
        let mut unsent = Vec::new();
        for call in self.calls.take_unwritten(&mut self.wire) {
            match call {
                Ok(call) => unsent.push(call),
                Err(call) => {
                    self.stats().errors.add_one();
                    call.response_handle.fail(failure.clone(), false);
                }
            }
        }
        self.logging.call_ended(&mut self.wire);
        unsent
    }
}

/// Answers of the server.
impl Instance {
    /// The server has answered a call.
    pub(super) fn answer_call(&mut self, mut call: PendingCall, response: ServerResponse<'_>) -> Effects {
        self.refuse_requests_for(&mut call);
        let Some(bridge) = &mut call.bridge else { return self.forward_answer(call, response) };
        if bridge.state.is_suspended() {
            if let Err(call) = suspended_calls::store_response(&mut self.wire, call, response.line) {
                let what = "too many calls wait for the retries of their agents";
                self.fail_with(*call, Failure::Overloaded { what }, true);
            }
            return Effects::none();
        }
        let step = bridge.state.on_response(response.result);
        self.carry_out(call, response, step)
    }

    /// Ends a call within one era. The agent gets the answer with its own id.
    fn forward_answer(&mut self, call: PendingCall, response: ServerResponse<'_>) -> Effects {
        let ServerResponse { id, line, result } = response;
        let id_edit = Edit { part: id, replacement: call.response_handle.id() };
        let modern = result.ok().filter(|_| self.wire.era() == Era::Modern);
        let answer = match modern.and_then(with_result_type) {
            None => splice(line, &mut [id_edit]),
            Some(typed) => splice(line, &mut typed.iter().map(Change::edit).chain([id_edit]).collect::<Vec<_>>()),
        };
        self.complete_call(call, answer, response)
    }

    /// Ends a call that the server has answered. The agent gets `answer`.
    pub(super) fn complete_call(&mut self, call: PendingCall, answer: Bytes, response: ServerResponse<'_>) -> Effects {
        let outcome = response.result;
        if let Some(failure) = outcome.err().and_then(|error| header_refusal(&self.wire, error)) {
            self.lists.mark_changed(ListKind::Tools);
            self.fail_with(call, failure, false);
            return Effects::none();
        }
        let noted = self.tasks.note_response(&mut self.wire, &mut self.abandoned, &call, response, self.tag);
        if call.requests_task() {
            self.drop_early_tasks();
        }
        let news = match noted {
            Ok(news) => news,
            Err(failure) => {
                self.fail_call(call, failure);
                return Effects::none();
            }
        };
        let key = call.response_handle.key;
        let mends = self.config.settings.malformed == Malformed::Mend;
        let not_found = outcome.err().and_then(|error| call.not_found(error));
        let answer = not_found.unwrap_or(answer);
        if let Err(error) = outcome {
            self.stats().errors.add_one();
            if let Some(to) = call.response_handle.to() {
                self.forwarded_requests.call_failed(error, key.session, to);
            }
        }
        self.count_ended();
        let ended = CallOutcome::of(outcome);
        self.measure_call(&call, ended);
        let sandbox = &self.config.settings.sandbox;
        if sandbox.level == SandboxLevel::Files && matches!(ended, CallOutcome::ToolError | CallOutcome::Error { .. }) {
            self.stats().refused_calls.note(sandbox, outcome.unwrap_or_else(|error| error));
        }
        call.answer(answer, ended, news, mends, self.calls.stats());
        let subscription = self.subscriptions.answered(&mut self.wire, key, outcome);
        subscription.map_or_else(Effects::none, |subscription| Effect::Subscribed(Box::new(subscription)).into())
    }
}

/// Failures.
impl Instance {
    /// Fails a call, and takes it back if the server has not begun to read it. Returns whether the server may have read it.
    pub(super) fn fail_call(&mut self, call: PendingCall, failure: Failure) -> bool {
        let may_have_arrived = !self.wire.retract(call.line);
        self.fail_with(call, failure, may_have_arrived);
        may_have_arrived
    }

    /// Fails a call. `may_have_arrived` is whether the server may have read its latest request.
    pub(super) fn fail_with(&mut self, call: PendingCall, failure: Failure, may_have_arrived: bool) {
        let may_have_arrived = may_have_arrived || call.was_sent_before();
        if may_have_arrived {
            self.measure_call(&call, failure.outcome());
        }
        self.count_ended();
        self.stats().errors.add_one();
        self.subscriptions.failed(&mut self.wire, call.response_handle.key, &failure, may_have_arrived);
        call.response_handle.fail(failure, may_have_arrived);
    }

    /// Answers a call of something that its listener does not expose any more.
    pub(super) fn end_hidden(&mut self, call: PendingCall) {
        let Some(access) = &call.access else { return };
        self.count_ended();
        self.stats().errors.add_one();
        let failure = Failure::Unavailable { reason: ServerError::Hidden, retry_after: None };
        self.subscriptions.failed(&mut self.wire, call.response_handle.key, &failure, false);
        call.response_handle.refuse_unknown(access);
    }

    /// Ends a call whose time limit has passed.
    pub(super) fn expire_call(&mut self, id: u64, mut call: PendingCall) {
        self.withdraw_requests_for(id, &mut call);
        let (session, after) = (call.response_handle.key.session, call.deadline.current_limit());
        if call.has_no_pending_request() {
            // It waits for its agent, which says nothing about the server.
            self.fail_with(call, Failure::TimedOut { after }, true);
        } else {
            self.health.call_timed_out(call.deadline.begun());
            let is_away = call.response_handle.to().is_none();
            let abandoned = AbandonedCall::of(&call, id);
            if self.fail_call(call, Failure::TimedOut { after }) {
                let why = if is_away { "its agent has not come back" } else { "the call timed out" };
                self.abandon(abandoned, reply::cancelled(id, why));
            }
        }
        let reason = "the call that this was for timed out";
        self.end_requests_for(session, RequestEnd { code: ErrorCode::TimedOut, reason });
    }

    /// Ends every request and task: the server is gone, or may not be waited for any longer.
    pub(in crate::server) fn fail_all(&mut self, written: &Failure, unwritten: &Failure) {
        self.tasks.clear();
        self.subscriptions.fail_all(unwritten);
        self.forwarded_requests.withdraw_all();
        for (id, pending) in self.wire.remove_where(|_| true) {
            // The instance ends, so the server's task has nothing to do.
            drop(self.end(id, pending, Ending::ServerGone { written, unwritten }));
        }
    }

    /// Counts how long a call took that the server may have received.
    fn measure_call(&self, call: &PendingCall, outcome: CallOutcome) {
        self.measure(&call.operation, call.deadline.begun(), outcome);
    }

    pub(super) fn measure(&self, operation: &Operation, sent: Instant, outcome: CallOutcome) {
        let labels = Labels { server: Some(&self.config.name), ..Labels::of(operation, outcome) };
        self.stats().durations.add(Measured::ClientOperation, labels, sent.elapsed());
    }

    pub(super) fn count_ended(&mut self) {
        self.calls.count_ended();
        self.logging.call_ended(&mut self.wire);
    }
}

/// Calls that no agent waits for any more.
impl Instance {
    /// Sends the server a call's cancellation, and a ping behind it.
    pub(super) fn abandon(&mut self, abandoned: AbandonedCall, cancellation: Bytes) {
        self.note_abandoned(abandoned);
        self.wire.queue_line(cancellation);
        self.check_cancellations();
    }

    /// The server may go on with a call that no agent waits for.
    fn note_abandoned(&mut self, call: AbandonedCall) {
        let now = Instant::now();
        self.wire.abandon_http_response(call.id);
        if call.creates_task {
            self.tasks.call_cancelled(call.id, call.key);
        }
        if self.wire.era() == Era::Legacy {
            let at = now + GRACE.min(self.config.settings.call_timeout);
            let until = Until { at, answered_from: self.wire.next_id() };
            self.abandoned.add(call, Some(until), now);
        } else {
            self.abandoned.add_modern(&call, now);
        }
    }

    /// Sends a ping behind a cancellation, unless one is unanswered: its response shows that the server has read the cancellation.
    pub(super) fn check_cancellations(&mut self) {
        let is_sent = self.wire.has_pending(|pending| matches!(pending, PendingRequest::CancellationCheck));
        if !is_sent && self.abandoned.has_unread() {
            self.wire.own_request(self.wire.era().greeting(), json!({}), PendingRequest::CancellationCheck);
        }
    }
}

/// The failure of a call that the server has refused for its headers, if this error means that. The server has not acted on the call.
/// Its tools have changed, so they are listed again and the agent has to call again.
fn header_refusal(wire: &Wire, error: &Bytes) -> Option<Failure> {
    if !wire.has_headers() || CallOutcome::of(Err(error)).code() != Some(HEADER_MISMATCH.into()) {
        return None;
    }
    let message = members(error, ["message"]).ok().and_then(|[raw]| text(&raw?)).unwrap_or_default();
    let message = excerpt(&String::from_utf8_lossy(&message), MAX_EXCERPT_LEN);
    Some(Failure::Unavailable { reason: ServerError::HeaderMismatch(message), retry_after: None })
}
