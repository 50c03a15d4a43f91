//! Modern era: sends the requests of the stream, and handles the messages of the server about them.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::listen_state::{ListenAction, StreamStart, Topic, topics};
use super::{Acknowledgement, NewSubscription, ServerSubscriptions};
use crate::calls::CallOutcome;
use crate::era::subscription::{ListenFilter, subscription};
use crate::era::{self, Era};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use crate::server::error::ServerError;
use crate::server::fairness::{MAX_IN_FLIGHT, Shares};
use crate::server::instance::pending_request::PendingRequest;
use crate::server::instance::wire::Wire;
use crate::server::messages::call::{Call, Failure};

impl ServerSubscriptions {
    /// Opens, replaces or closes the stream if the topics have changed. Returns when to call this again.
    pub(in crate::server::instance) fn refresh(&mut self, wire: &mut Wire) -> Option<Instant> {
        if wire.era() == Era::Legacy {
            return None;
        }
        match self.listen_state.next_action(Instant::now()) {
            ListenAction::Nothing => None,
            ListenAction::Wait(at) => Some(at),
            ListenAction::Send(filter) => {
                self.listen(wire, filter);
                None
            }
            ListenAction::End(id) => {
                self.listen_state.close();
                self.end_listen(wire, id);
                None
            }
        }
    }

    fn listen(&mut self, wire: &mut Wire, filter: ListenFilter) {
        let params = if filter.tasks.is_empty() { era::own_params() } else { era::own_task_params() };
        let meta = params["_meta"].to_string();
        let members = meta.strip_prefix('{').and_then(|meta| meta.strip_suffix('}')).unwrap_or_default();
        // The filter was parsed before, so the params are valid JSON.
        let Ok(params) = RawValue::from_string(filter.listen(members)) else { return };
        let acknowledge_by = Some(Instant::now() + self.timeout);
        let id = wire.request("subscriptions/listen", &params, PendingRequest::Listen { acknowledge_by });
        self.listen_state.sent(id, filter);
    }

    /// Makes a legacy agent's call wait until the server has acknowledged its resource.
    pub(super) fn wait_for_stream(&mut self, wire: &mut Wire, call: Call) {
        if !self.listen_state.supports_updates() {
            let why = "the server does not support resource subscriptions";
            return call.refuse_with(&ErrorObject::new(INVALID_PARAMS, why));
        }
        if let Some(left) = self.listen_state.retry_delay() {
            return call.refuse(Failure::Unavailable { reason: ServerError::ListenEnded, retry_after: Some(left) });
        }
        let waiting = || self.listen_state.waiting().map(|call| (call.response_handle.payer(), 1));
        if waiting().count() >= MAX_IN_FLIGHT
            && !Shares::of(waiting()).is_below_share(MAX_IN_FLIGHT, call.response_handle.payer(), 1)
        {
            self.stats.errors.add_one();
            return call.refuse(Failure::Overloaded { what: "it has too many unanswered calls" });
        }
        let until = self.listen_state.wait(call, Instant::now());
        wire.expire_by(until);
    }

    /// Ends calls that have waited too long for their subscription.
    pub(in crate::server::instance) fn expire(&mut self, now: Instant) {
        for (call, after) in self.listen_state.take_overdue(now) {
            self.stats.errors.add_one();
            call.refuse(Failure::TimedOut { after });
        }
    }

    /// The server has sent `notifications/subscriptions/acknowledged`. `None` if no request is pending.
    pub(in crate::server::instance) fn acknowledged(
        &mut self,
        wire: &mut Wire,
        params: Option<&Bytes>,
    ) -> Option<Acknowledgement> {
        let id = subscription(params).and_then(|raw| parse_own_id(&raw))?;
        let StreamStart { filter, replaced, has_missed } = self.listen_state.acknowledged(id, Instant::now())?;
        wire.keep_open(id);
        if let Some(replaced) = replaced {
            self.end_listen(wire, replaced);
        }
        // A malformed acknowledgement counts as granting every topic. It may only be too large, because it lists the topics of all
        // agents.
        let granted = params.and_then(|params| ListenFilter::read(params).ok()).unwrap_or_else(|| filter.clone());
        Some(Acknowledgement { lists_may_have_changed: has_missed, ..self.grant(&filter, &granted) })
    }

    /// Answers the calls that wait for these topics, and removes refused topics.
    fn grant(&mut self, filter: &ListenFilter, granted: &ListenFilter) -> Acknowledgement {
        let granted: BTreeSet<_> = topics(granted).map(|(topic, _)| topic).collect();
        let mut acknowledgement = Acknowledgement::default();
        for (topic, raw) in topics(filter) {
            let is_granted = granted.contains(&topic);
            if !is_granted {
                self.listen_state.remove(&topic);
                acknowledgement.refused.push(topic.clone());
            }
            let Topic::Resource(uri) = topic else { continue };
            let waiting = self.listen_state.take_waiting(|call| call.subscription().is_some_and(|own| own.uri == uri));
            let mut sessions = Vec::new();
            for call in waiting {
                if is_granted {
                    sessions.extend(call.response_handle.to().map(|to| (call.response_handle.key.session, to.clone())));
                    call.answer_empty();
                } else {
                    self.stats.errors.add_one();
                    let why = "the server does not report changes of this resource";
                    call.refuse_with(&ErrorObject::new(INVALID_PARAMS, why));
                }
            }
            if !sessions.is_empty() {
                self.listen_state.add(Topic::Resource(uri.clone()), raw);
                acknowledgement.accepted.push(NewSubscription { uri, raw: raw.clone(), sessions });
            }
        }
        acknowledgement
    }

    /// The request of the stream has a response, or was lost. Returns the topics that the server refuses.
    pub(in crate::server::instance) fn listen_ended(
        &mut self,
        id: u64,
        outcome: Option<Result<&Bytes, &Bytes>>,
    ) -> Vec<Topic> {
        let code = outcome.and_then(|outcome| CallOutcome::of(outcome).code());
        if code == Some(METHOD_NOT_FOUND.into()) {
            self.listen_state.disable();
        }
        // The error for an unknown resource. After any other error the same request may succeed later.
        if [INVALID_PARAMS, RESOURCE_NOT_FOUND].iter().any(|known| code == Some((*known).into()))
            && let Some(refused) = self.listen_state.narrow(id)
        {
            self.refuse_resources(&refused);
            return refused;
        }
        if self.listen_state.ended(id, Instant::now(), fastrand::f64()) {
            let retry_after = self.listen_state.retry_delay();
            self.refuse_waiting(&Failure::Unavailable { reason: ServerError::ListenEnded, retry_after });
        }
        Vec::new()
    }

    /// Answers the calls that wait for these topics: the server does not have the resources.
    fn refuse_resources(&mut self, refused: &[Topic]) {
        let is_refused = |topic: &Topic, call: &Call| {
            call.subscription().is_some_and(|own| *topic == Topic::Resource(own.uri.clone()))
        };
        let is_refused = |call: &Call| refused.iter().any(|topic| is_refused(topic, call));
        for call in self.listen_state.take_waiting(is_refused) {
            self.stats.errors.add_one();
            call.refuse_as_unknown();
        }
    }

    /// Refuses all calls that wait for their subscription.
    pub(super) fn refuse_waiting(&mut self, failure: &Failure) {
        for call in self.listen_state.take_waiting(|_| true) {
            self.stats.errors.add_one();
            call.refuse(failure.clone());
        }
    }

    /// A modern server has sent `notifications/cancelled`, which may end the stream.
    pub(in crate::server::instance) fn cancelled_by_server(&mut self, wire: &mut Wire, params: Option<&Bytes>) {
        let Some(Ok([Some(request)])) = params.map(|params| members(params, ["requestId"])) else { return };
        if let Some(id) = parse_own_id(&request).filter(|id| self.listen_state.is_of(*id)) {
            wire.take(&request);
            wire.abandon_http_response(id);
            self.listen_ended(id, None);
        }
    }

    /// Ends this request at the server.
    fn end_listen(&self, wire: &mut Wire, id: u64) {
        // The server may still send a response, which is ignored.
        wire.ignore_response(id, Instant::now() + self.timeout);
        wire.abandon_http_response(id);
        wire.queue_line(reply::cancelled(id, "another subscription has replaced it, or none is needed"));
    }

    /// Whether a notification is for the open stream or names no subscription.
    pub(in crate::server::instance) fn is_expected(&self, wire: &Wire, params: Option<&Bytes>) -> bool {
        let id = || subscription(params);
        wire.era() == Era::Legacy
            || id().is_none_or(|raw| parse_own_id(&raw).is_some_and(|id| self.listen_state.is_open(id)))
    }

    /// Whether a notification is for the open stream.
    pub(in crate::server::instance) fn is_of_stream(&self, params: Option<&Bytes>) -> bool {
        subscription(params).and_then(|raw| parse_own_id(&raw)).is_some_and(|id| self.listen_state.is_open(id))
    }
}
