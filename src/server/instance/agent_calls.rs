//! Calls of agents, until they are queued for the server or taken back.

use super::pending_call::PendingCall;
use super::pending_request::PendingRequest;
use super::server_requests::RequestEnd;
use super::wire::MAX_SMALL_LINE;
use super::{Effects, Instance};
use crate::catalog::Lists;
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::error::ServerError;
use crate::server::messages::call::{Call, CallKey, Failure, RequestKind};
use crate::server::messages::cancellation::Cancellation;

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
        let Some(call) = self.check_limits(*call) else { return Effects::none() };
        let (call, line) = PendingCall::new(call, &[]);
        self.wire.expire_by(call.deadline.at());
        self.calls.count_started();
        if let Err(refused) = self.wire.send_call(call, line) {
            let (call, size) = *refused;
            self.fail_with(call, self.request_too_large(size), false);
        }
        Effects::none()
    }

    /// Returns the call unless it is refused.
    pub(super) fn check_limits(&self, call: Call) -> Option<Call> {
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

    pub(super) fn request_too_large(&self, size: usize) -> Failure {
        Failure::RequestTooLarge { size, limit: self.wire.limit().clone() }
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
        let is_it = |pending: &PendingRequest| pending.call().is_some_and(|call| call.response_handle.key == key);
        let (id, call, abandoned, has_no_request) = match self.wire.remove_where(is_it).pop() {
            Some((id, PendingRequest::Call(call))) => {
                let abandoned = call.abandoned(id);
                (id, call, abandoned, false)
            }
            Some((id, PendingRequest::Bridged(mut bridged))) => {
                self.withdraw_requests_for(id, &mut bridged);
                let (abandoned, has_no_request) = (bridged.call.abandoned(id), bridged.state.has_no_pending_request());
                (id, bridged.call, abandoned, has_no_request)
            }
            _ => {
                self.subscriptions.cancel_waiting(key);
                self.drop_task_of(key);
                return Effects::none();
            }
        };
        let may_have_arrived = !has_no_request && !self.wire.retract(call.line);
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
        for pending in self.calls.take_hidden(&mut self.wire, &self.config.name, lists) {
            match pending {
                PendingRequest::Call(call) => self.end_hidden(call),
                PendingRequest::Bridged(bridged) => self.end_hidden(bridged.call),
                _ => {}
            }
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
