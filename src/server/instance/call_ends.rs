//! Ends of agents' calls: the answer or error that the agent gets, and what the server may still work on.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::cancelled_calls::{GRACE, Until};
use super::ending::Ending;
use super::pending_call::{AbandonedCall, PendingCall};
use super::pending_request::{PendingRequest, ServerResponse};
use super::server_requests::RequestEnd;
use super::wire::Wire;
use super::{Effect, Effects, Instance};
use crate::calls::CallOutcome;
use crate::config::{Malformed, SandboxLevel};
use crate::era::result::with_result_type;
use crate::era::{Era, HEADER_MISMATCH};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::list_kind::ListKind;
use crate::printable::excerpt;
use crate::server::error::ServerError;
use crate::server::messages::call::Failure;

/// Maximum number of characters of the server's message in an error.
const MAX_EXCERPT_LEN: usize = 100;

/// Answers of the server.
impl Instance {
    /// The server has answered a call of its own era. The agent gets the answer with its own id.
    pub(super) fn answer_call(&mut self, call: PendingCall, response: ServerResponse<'_>) -> Effects {
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
        let tag = self.suspended.tag();
        let noted = self.tasks.response(&mut self.wire, &mut self.cancelled, &call, response, tag);
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
                self.server_requests.call_failed(error, key.session, to);
            }
        }
        self.count_ended();
        let ended = CallOutcome::of(outcome);
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

    /// Fails a call. `may_have_arrived` is whether the server may have read it.
    pub(super) fn fail_with(&mut self, call: PendingCall, failure: Failure, may_have_arrived: bool) {
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

    pub(super) fn expire_call(&mut self, id: u64, call: PendingCall) {
        let (abandoned, session, after) =
            (call.abandoned(id), call.response_handle.key.session, call.deadline.current_limit());
        self.health.call_timed_out(call.deadline.begun());
        if self.fail_call(call, Failure::TimedOut { after }) {
            self.abandon(abandoned, reply::cancelled(id, "the call timed out"));
        }
        self.end_timed_out_requests(session);
    }

    pub(super) fn end_timed_out_requests(&mut self, session: u64) {
        let reason = "the call that this was for timed out";
        self.end_requests_for(session, RequestEnd { code: ErrorCode::TimedOut, reason });
    }

    /// Ends every request and task: the server is gone, or may not be waited for any longer.
    pub(in crate::server) fn fail_all(&mut self, written: &Failure, unwritten: &Failure) {
        self.tasks.clear();
        self.subscriptions.fail_all(unwritten);
        self.server_requests.withdraw_all();
        for (id, pending) in self.wire.remove_where(|_| true) {
            // The instance ends, so the server's task has nothing to do.
            drop(self.end(id, pending, Ending::ServerGone { written, unwritten }));
        }
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
    fn note_abandoned(&mut self, AbandonedCall { id, key, uid, creates_task, load }: AbandonedCall) {
        let now = Instant::now();
        let agent = (key.session, uid);
        if self.wire.era() == Era::Legacy {
            let at = now + GRACE.min(self.config.settings.call_timeout);
            let until = Until { at, answered_from: self.wire.next_id() };
            self.cancelled.add(id, agent, Some(until), load, now);
        } else {
            self.cancelled.add_modern(agent, now);
        }
        self.wire.abandon_http_response(id);
        if creates_task {
            self.tasks.call_cancelled(id, key);
        }
    }

    /// Sends a ping behind a cancellation, unless one is unanswered: its response shows that the server has read the cancellation.
    pub(super) fn check_cancellations(&mut self) {
        let is_sent = self.wire.has_pending(|pending| matches!(pending, PendingRequest::CancellationCheck));
        if !is_sent && self.cancelled.has_unread() {
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
