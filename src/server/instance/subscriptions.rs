//! Subscriptions at one server: to resources, tasks and changed lists.
//!
//! In the legacy era the first agent's call is forwarded, and calls of other agents for the same resource wait for its response. mcpd
//! unsubscribes after the last agent ([`resources`]). In the modern era mcpd keeps one `subscriptions/listen` open for all agents
//! ([`listen`], [`listen_state`]).
//!
//! Source: MCP 2025-11-25, `server/resources`, "Subscriptions"; MCP 2026-07-28, `basic/patterns/subscriptions`.

mod listen;
mod listen_state;
mod resources;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use self::listen_state::ListenState;
pub(in crate::server) use self::listen_state::Topic;
use self::resources::ResourceRequest;
use super::pending_request::PendingRequest;
use super::wire::Wire;
use crate::era::Era;
use crate::jsonrpc::members::text;
use crate::list_kind::PerKind;
use crate::server::messages::call::{Call, CallKey, Failure, SessionSender};
use crate::server::stats::Stats;

/// Subscriptions at one instance.
pub(in crate::server) struct ServerSubscriptions {
    /// Legacy era: `resources/subscribe` requests that the server has not answered.
    requests: Vec<ResourceRequest>,
    /// Modern era.
    listen_state: ListenState,
    stats: Arc<Stats>,
    /// Time limit for requests of mcpd.
    timeout: Duration,
}

/// The notifications that a modern server sends to `subscriptions/listen`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct NotificationSupport {
    /// Changed lists.
    pub(in crate::server) changes: PerKind<bool>,
    /// Changed resources.
    pub(in crate::server) updates: bool,
    /// The status of tasks.
    pub(in crate::server) tasks: bool,
}

/// A resource whose changes the server reports from now on.
pub(in crate::server) struct NewSubscription {
    /// As text.
    pub(in crate::server) uri: Bytes,
    pub(in crate::server) raw: Bytes,
    /// The subscribed sessions, each with its channel.
    pub(in crate::server) sessions: Vec<(u64, SessionSender)>,
}

/// The topics that the server has acknowledged or refused.
#[derive(Default)]
pub(super) struct Acknowledgement {
    pub(super) accepted: Vec<NewSubscription>,
    pub(super) refused: Vec<Topic>,
    /// Lists may have changed while no request was open.
    pub(super) lists_may_have_changed: bool,
}

impl ServerSubscriptions {
    pub(super) fn new(stats: Arc<Stats>, timeout: Duration) -> Self {
        Self { requests: Vec::new(), listen_state: ListenState::default(), stats, timeout }
    }

    /// The server has declared its notifications.
    pub(in crate::server) fn declare(&mut self, support: NotificationSupport) {
        self.listen_state.declare(support);
    }

    /// Whether calls wait for a subscription to begin.
    pub(super) fn are_waited_for(&self) -> bool {
        self.listen_state.waiting().next().is_some()
    }

    /// When the next call that waits expires.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.listen_state.next_end()
    }

    /// Subscribes for a call. Returns the call if it is to be sent to the server; see [`forget_request`](Self::forget_request).
    pub(super) fn subscribe(&mut self, wire: &mut Wire, call: Call) -> Option<Call> {
        match wire.era() {
            Era::Legacy => self.join_request(call),
            Era::Modern => {
                self.wait_for_stream(wire, call);
                None
            }
        }
    }

    /// A session withdraws its subscription, which may not have begun. Returns whether other sessions wait for the same resource.
    pub(in crate::server) fn withdraw(&mut self, session: u64, uri: &Bytes) -> bool {
        let is_it = |call: &Call| call.subscription().is_some_and(|own| own.uri == *uri);
        let is_own = |call: &Call| call.response_handle.key.session == session && is_it(call);
        self.listen_state.take_waiting(is_own).into_iter().for_each(Call::answer_empty);
        self.leave_request(session, uri)
    }

    /// Unsubscribes for a call: no other agent has the resource. Returns the call if it is to be sent to the server.
    pub(super) fn unsubscribe_for(&mut self, wire: &Wire, call: Box<Call>) -> Option<Box<Call>> {
        if wire.era() == Era::Legacy {
            return Some(call);
        }
        if let Some(subscription) = call.subscription() {
            self.listen_state.remove(&Topic::Resource(subscription.uri.clone()));
        }
        call.answer_empty();
        None
    }

    /// Unsubscribes from a resource without subscribed agents.
    pub(in crate::server) fn unsubscribe(&mut self, wire: &mut Wire, raw: &Bytes) {
        if wire.era() == Era::Modern {
            return text(raw).into_iter().for_each(|uri| self.listen_state.remove(&Topic::Resource(uri)));
        }
        let deadline = Instant::now() + self.timeout;
        request_about(wire, "resources/unsubscribe", raw, PendingRequest::Ignored { deadline });
    }

    /// Subscribes to a resource that no call waits for, such as one that the previous instance was subscribed to.
    pub(in crate::server) fn subscribe_quietly(&mut self, wire: &mut Wire, uri: &Bytes, raw: &Bytes) {
        if wire.era() == Era::Modern {
            return self.listen_state.add(Topic::Resource(uri.clone()), raw);
        }
        let deadline = Instant::now() + self.timeout;
        let pending = PendingRequest::Subscribe { uri: uri.clone(), raw: raw.clone(), deadline };
        request_about(wire, "resources/subscribe", raw, pending);
    }

    /// An agent subscribes to a task of a modern server.
    pub(super) fn subscribe_task(&mut self, id: &Bytes) {
        let raw = json!(String::from_utf8_lossy(id)).to_string();
        self.listen_state.add(Topic::Task(id.clone()), &raw.into());
    }

    /// The last agent unsubscribes from a task of a modern server.
    pub(super) fn unsubscribe_task(&mut self, id: &Bytes) {
        self.listen_state.remove(&Topic::Task(id.clone()));
    }

    /// The server reports that this task has ended: nothing more follows about it.
    pub(super) fn task_ended(&mut self, id: &Bytes) {
        self.listen_state.end_topic(&Topic::Task(id.clone()));
    }

    /// An agent has cancelled a call that may wait for its subscription.
    pub(super) fn cancel_waiting(&mut self, key: CallKey) {
        let waiting = self.listen_state.take_waiting(|call| call.response_handle.key == key);
        let waiting = waiting.into_iter().chain(self.take_joined(key));
        waiting.for_each(|call| call.response_handle.disarm());
    }

    /// The server is gone, or may not be waited for any longer.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        self.refuse_waiting(failure);
        for request in std::mem::take(&mut self.requests) {
            self.fail_joined(request, failure);
        }
    }
}

fn request_about(wire: &mut Wire, method: &str, raw: &Bytes, entry: PendingRequest) {
    let uri: Option<&serde_json::value::RawValue> = serde_json::from_slice(raw).ok();
    wire.own_request(method, json!({ "uri": uri }), entry);
}
