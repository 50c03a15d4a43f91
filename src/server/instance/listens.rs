//! Listening to a server of the modern era: asking for it, and what the server says of that.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::listening::{Begun, Due, Topic, topics};
use super::{Accepted, Effect, Instance, PendingRequest};
use crate::calls::Outcome;
use crate::era::notification::{subscription, without_subscription};
use crate::era::subscription::Filter;
use crate::era::{self, Era};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND};
use crate::jsonrpc::splice::applied;
use crate::server::call::{Call, Failure};
use crate::server::{MAX_IN_FLIGHT, share};

impl Instance {
    /// Asks for what is wanted by now; when to look again.
    pub(in crate::server) fn relisten(&mut self) -> Option<Instant> {
        if self.wire.era() == Era::Legacy {
            return None;
        }
        match self.listening.due(Instant::now()) {
            Due::Nothing => None,
            Due::At(at) => Some(at),
            Due::Ask(filter) => {
                self.listen(filter);
                None
            }
            Due::End(id) => {
                self.listening.close();
                self.end_listen(id);
                None
            }
        }
    }

    fn listen(&mut self, filter: Filter) {
        let params = if filter.tasks.is_empty() { era::own_params() } else { era::own_task_params() };
        let said = params["_meta"].to_string();
        let members = said.strip_prefix('{').and_then(|said| said.strip_suffix('}')).unwrap_or_default();
        // All of it is JSON: what was taken in as such, and what is said here.
        let Ok(params) = RawValue::from_string(filter.listen(members)) else { return };
        let acknowledge_by = Some(self.aside_deadline());
        let id = self.wire.request("subscriptions/listen", &params, PendingRequest::Listen { acknowledge_by });
        self.listening.asked(id, filter);
    }

    /// A legacy agent subscribes to a resource.
    pub(super) fn listen_for(&mut self, call: Call) {
        if !self.listening.tells_updates() {
            let why = "the server does not tell of changes of resources";
            return call.refuse_with(&ErrorObject::new(METHOD_NOT_FOUND, why));
        }
        if let Some(left) = self.listening.pause() {
            return call.refuse(Failure::Unavailable { reason: ENDED.to_owned(), retry_after: Some(left) });
        }
        let waiting = || self.listening.waiting().map(|call| (call.reply.key.session, 1));
        if waiting().count() >= MAX_IN_FLIGHT && !share::is_due(MAX_IN_FLIGHT, call.reply.key.session, 1, waiting()) {
            self.stats.errors.add_one();
            return call.refuse(Failure::Overloaded { what: "it has too many unanswered calls" });
        }
        let until = self.listening.wait(call, Instant::now());
        self.wire.expire_by(until);
    }

    /// Ends the calls that have waited too long for a subscription to begin.
    pub(super) fn expire_waiting(&mut self, now: Instant) {
        for (call, after) in self.listening.take_overdue(now) {
            self.stats.errors.add_one();
            call.refuse(Failure::TimedOut { after });
        }
    }

    /// The server says that it has begun to tell of this.
    pub(super) fn acknowledged(&mut self, params: Option<&Bytes>) -> Effect {
        let id = subscription(params).and_then(|raw| minted(&raw));
        let Some((id, begun)) = id.and_then(|id| Some((id, self.listening.acknowledged(id, Instant::now())?))) else {
            return Effect::Nothing;
        };
        if let Some(PendingRequest::Listen { acknowledge_by }) = self.wire.get_mut(id.to_string().as_bytes()) {
            *acknowledge_by = None;
        }
        let Begun { filter, before, has_missed } = begun;
        if let Some(before) = before {
            self.end_listen(before);
        }
        if has_missed {
            self.lists.have_changed();
        }
        // One that cannot be read, for what all agents want may be more than one may ask for, takes nothing back.
        let granted = params.and_then(|params| Filter::read(params).ok()).unwrap_or_else(|| filter.clone());
        self.grant(&filter, &granted)
    }

    /// Answers those who wait for what was asked for. What was not granted is wanted no more.
    fn grant(&mut self, filter: &Filter, granted: &Filter) -> Effect {
        let granted: BTreeSet<_> = topics(granted).map(|(topic, _)| topic).collect();
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for (topic, raw) in topics(filter) {
            let is_granted = granted.contains(&topic);
            if !is_granted {
                self.listening.forget(&topic);
                refused.push(topic.clone());
            }
            let Topic::Resource(uri) = topic else { continue };
            let waiting = self.listening.take_waiting(|call| call.subscription().is_some_and(|own| own.uri == uri));
            let mut agents = Vec::new();
            for call in waiting {
                if is_granted {
                    agents.extend(call.reply.to().map(|to| (call.reply.key.session, to.clone())));
                    call.grant();
                } else {
                    self.stats.errors.add_one();
                    call.refuse_with(&ErrorObject::new(
                        INVALID_PARAMS,
                        "the server tells of no changes of this resource",
                    ));
                }
            }
            if !agents.is_empty() {
                self.listening.want(Topic::Resource(uri.clone()), raw);
                accepted.push(Accepted { uri, raw: raw.clone(), agents });
            }
        }
        Effect::Acknowledged { accepted, refused }
    }

    /// The server has answered the request that is to stay open, or it was lost.
    pub(super) fn listen_ended(&mut self, id: u64, outcome: Option<Result<&Bytes, &Bytes>>) -> Effect {
        let code = outcome.and_then(|outcome| Outcome::of(outcome).code());
        if code == Some(METHOD_NOT_FOUND.into()) {
            self.listening.give_up();
        }
        // What any server says of a resource that it does not have. After anything else the same may do later.
        if let Some(Err(error)) = outcome
            && [INVALID_PARAMS, RESOURCE_NOT_FOUND].iter().any(|known| code == Some((*known).into()))
            && let Some(refused) = self.listening.narrow(id)
        {
            self.refuse_resources(&refused, error);
            return Effect::Acknowledged { accepted: Vec::new(), refused };
        }
        if self.listening.ended(id, Instant::now()) {
            let retry_after = self.listening.pause();
            self.refuse_waiting(&Failure::Unavailable { reason: ENDED.to_owned(), retry_after });
        }
        Effect::Nothing
    }

    /// Answers those who wait for one of these with the error that the server has for it.
    fn refuse_resources(&mut self, refused: &[Topic], error: &Bytes) {
        let is_refused = |topic: &Topic, call: &Call| {
            call.subscription().is_some_and(|own| *topic == Topic::Resource(own.uri.clone()))
        };
        let is_refused = |call: &Call| refused.iter().any(|topic| is_refused(topic, call));
        for call in self.listening.take_waiting(is_refused) {
            self.stats.errors.add_one();
            let line = reply::raw_error(call.reply.id(), error);
            call.reply.answer(line, Outcome::of(Err(error)));
        }
    }

    /// Refuses what waits for a subscription to begin.
    pub(super) fn refuse_waiting(&mut self, failure: &Failure) {
        for call in self.listening.take_waiting(|_| true) {
            self.stats.errors.add_one();
            call.refuse(failure.clone());
        }
    }

    /// The server withdraws something, which may be what it is listened to for.
    pub(super) fn withdrawn_by_server(&mut self, params: Option<&Bytes>) {
        let Some(Ok([Some(request)])) = params.map(|params| members(params, ["requestId"])) else { return };
        if let Some(id) = minted(&request).filter(|id| self.listening.is_of(*id)) {
            self.wire.take(&request);
            self.wire.give_up(id);
            self.listen_ended(id, None);
        }
    }

    /// Has the server tell no more of what it was asked for with this request.
    pub(super) fn end_listen(&mut self, id: u64) {
        let deadline = self.aside_deadline();
        // A server that answers it nevertheless does no harm.
        if let Some(owner) = self.wire.get_mut(id.to_string().as_bytes()) {
            *owner = PendingRequest::Ignored { deadline };
        }
        self.wire.give_up(id);
        self.wire.notify(reply::cancelled(id, "another subscription has taken its place, or none is wanted"));
    }

    /// It says that a resource has changed: as in the legacy era, for nobody in particular.
    pub(super) fn updated(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        match self.wire.era() {
            Era::Legacy => Effect::Updated { line, params },
            Era::Modern if !self.is_heard(params.as_ref()) => Effect::Nothing,
            Era::Modern => {
                let line = applied(&line, &without_subscription(params.as_ref())).into();
                Effect::Updated { line, params }
            }
        }
    }

    /// Whether what a server says is for a subscription that is open, or for none.
    pub(super) fn is_heard(&self, params: Option<&Bytes>) -> bool {
        let id = || subscription(params);
        self.wire.era() == Era::Legacy || id().is_none_or(|raw| minted(&raw).is_some_and(|id| self.listening.hears(id)))
    }
}

/// Why nobody can subscribe just now.
const ENDED: &str = "it has ended what it was listened to by";
