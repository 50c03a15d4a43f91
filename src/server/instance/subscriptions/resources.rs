//! Legacy era: unanswered `resources/subscribe` requests.

use bytes::Bytes;

use super::{NewSubscription, ServerSubscriptions};
use crate::calls::CallOutcome;
use crate::jsonrpc::reply;
use crate::server::instance::wire::Wire;
use crate::server::messages::call::{Call, CallKey, Failure, RequestKind, SessionSender};

/// A request that the server has not answered.
pub(super) struct ResourceRequest {
    /// The call that was forwarded.
    key: CallKey,
    /// The channel to the call's agent; `None` if the agent has withdrawn.
    to: Option<SessionSender>,
    uri: Bytes,
    raw: Bytes,
    /// Other calls for the same resource.
    joined: Vec<Call>,
}

impl ServerSubscriptions {
    /// Joins the request for the same resource, or returns the call if there is none.
    pub(super) fn join_request(&mut self, call: Call) -> Option<Call> {
        let RequestKind::ResourceSubscription(subscription) = &call.kind else { return None };
        match self.requests.iter_mut().find(|request| request.uri == subscription.uri) {
            Some(request) => {
                request.joined.push(call);
                None
            }
            None => {
                let (uri, raw) = (subscription.uri.clone(), subscription.raw.clone());
                let (key, to) = (call.response_handle.key, call.response_handle.to().cloned());
                self.requests.push(ResourceRequest { key, to, uri, raw, joined: Vec::new() });
                Some(call)
            }
        }
    }

    /// The call with this key was refused before it was queued.
    pub(in crate::server::instance) fn forget_request(&mut self, key: CallKey) {
        self.take_request(key);
    }

    /// Removes the session from the request for this resource. Returns whether other sessions wait for it.
    pub(super) fn leave_request(&mut self, session: u64, uri: &Bytes) -> bool {
        let Some(index) = self.requests.iter().position(|request| request.uri == *uri) else { return false };
        let request = &mut self.requests[index];
        if request.key.session == session {
            request.to = None;
        }
        for call in request.joined.extract_if(.., |call| call.response_handle.key.session == session) {
            call.answer_empty();
        }
        let others = request.to.is_some() || !request.joined.is_empty();
        if !others {
            self.requests.swap_remove(index);
        }
        others
    }

    /// The server has answered a call, which may be a subscription.
    pub(in crate::server::instance) fn answered(
        &mut self,
        wire: &mut Wire,
        key: CallKey,
        response: Result<&Bytes, &Bytes>,
    ) -> Option<NewSubscription> {
        let ResourceRequest { to, uri, raw, joined, .. } = self.take_request(key)?;
        let mut sessions: Vec<_> = to.map(|to| (key.session, to)).into_iter().collect();
        for call in joined {
            match response {
                Ok(_) => {
                    sessions.extend(call.response_handle.to().map(|to| (call.response_handle.key.session, to.clone())));
                    call.answer_empty();
                }
                Err(error) => {
                    self.stats.errors.add_one();
                    let line = reply::raw_error(call.response_handle.id(), error);
                    call.response_handle.answer(line, CallOutcome::of(response));
                }
            }
        }
        if response.is_err() {
            return None;
        }
        if sessions.is_empty() {
            self.unsubscribe(wire, &raw);
            return None;
        }
        Some(NewSubscription { uri, raw, sessions })
    }

    /// A call, which may be a subscription, has failed. Calls that have joined it fail too. If the server may have received it, mcpd
    /// unsubscribes.
    pub(in crate::server::instance) fn failed(
        &mut self,
        wire: &mut Wire,
        key: CallKey,
        failure: &Failure,
        may_have_arrived: bool,
    ) {
        let Some(request) = self.take_request(key) else { return };
        if may_have_arrived {
            self.unsubscribe(wire, &request.raw);
        }
        self.fail_joined(request, failure);
    }

    pub(super) fn fail_joined(&self, request: ResourceRequest, failure: &Failure) {
        for call in request.joined {
            self.stats.errors.add_one();
            call.refuse(failure.clone());
        }
    }

    /// A call, which may be a subscription, was cancelled. Returns the calls that have joined it; the first of them subscribes instead.
    /// If there are none, mcpd unsubscribes from a server that may have received the call.
    pub(in crate::server::instance) fn cancelled(
        &mut self,
        wire: &mut Wire,
        key: CallKey,
        may_have_arrived: bool,
    ) -> Vec<Call> {
        let Some(ResourceRequest { raw, joined, .. }) = self.take_request(key) else { return Vec::new() };
        if joined.is_empty() && may_have_arrived {
            self.unsubscribe(wire, &raw);
        }
        joined
    }

    /// Takes the call with this key, if it has joined the request of another one.
    pub(super) fn take_joined(&mut self, key: CallKey) -> Vec<Call> {
        let requests = self.requests.iter_mut();
        requests.flat_map(|request| request.joined.extract_if(.., |call| call.response_handle.key == key)).collect()
    }

    fn take_request(&mut self, key: CallKey) -> Option<ResourceRequest> {
        let index = self.requests.iter().position(|request| request.key == key)?;
        Some(self.requests.swap_remove(index))
    }
}
