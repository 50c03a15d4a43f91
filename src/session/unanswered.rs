//! The unanswered requests of the agent: calls at servers, and parked requests. Pure.
//!
//! A request is parked while the first lists are incomplete, or while a server may still list the name that it needs.
//! Each is charged to the account of the agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::call_record::CallRecord;
use super::fan_out::FanOuts;
use super::own_request::OwnRequest;
use super::received_call::ReceivedCall;
use super::task_token::TaskIdReplacement;
use crate::account::{Account, Charge, Cost, OverLimit};
use crate::era::{self, Era};
use crate::server::messages::call::CallKey;
use crate::server::{ResourceSubscriptionChange, ServerHandle};

/// A call at a server.
pub(super) struct UnansweredCall {
    pub(super) key: CallKey,
    pub(super) server: ServerHandle,
    pub(super) record: CallRecord,
    pub(super) on_response: OnResponse,
    #[expect(dead_code, reason = "it counts the call until it is dropped")]
    pub(super) charge: Charge,
}

/// What the session does on the response to a call.
pub(super) enum OnResponse {
    Nothing,
    /// A subscription begins or ends.
    Subscription(Box<ResourceSubscriptionChange>),
    /// A created task is recorded. `tool` is the server's own name of the tool.
    NewTask {
        tool: Arc<str>,
    },
    /// If the server does not complete arguments, an agent of this era gets an empty completion.
    Completion(Era),
    /// The id of a modern task in the response is replaced.
    ReplaceTaskId(TaskIdReplacement),
    /// The request is about a skill.
    Skill(Box<SkillRequest>),
    /// The call is a subrequest of a fan-out request.
    Subrequest,
    /// The call subscribes to a resource of a `subscriptions/listen`.
    Topic(Box<ResourceSubscriptionChange>),
}

/// What filtering the response to a request about a skill needs.
pub(super) struct SkillRequest {
    pub(super) era: Era,
    pub(super) face: Option<Arc<str>>,
    /// The response line if policy hides the skill.
    pub(super) unknown: Bytes,
}

/// A request that may have to wait for lists or for a handshake.
pub(super) enum ParkableRequest {
    Own(OwnRequest),
    Call {
        call: ReceivedCall,
        /// Deadline for a starting server to list the name. Set once the first lists are complete and no server lists the name.
        until: Option<Instant>,
    },
}

impl ParkableRequest {
    pub(super) fn id(&self) -> &Bytes {
        match self {
            Self::Own(request) => request.id(),
            Self::Call { call, .. } => &call.id,
        }
    }

    pub(super) fn era(&self) -> Era {
        match self {
            Self::Own(OwnRequest::List { era, .. }) => *era,
            Self::Own(OwnRequest::Handshake { protocol, .. }) => era::of(protocol),
            Self::Own(OwnRequest::Listen { .. }) => Era::Modern,
            Self::Call { call, .. } => call.era(),
        }
    }

    fn is_initialize(&self) -> bool {
        matches!(self, Self::Own(OwnRequest::Handshake { .. })) && self.era() == Era::Legacy
    }

    /// The server whose face it uses, if it names one.
    pub(super) fn face(&self) -> Option<&Arc<str>> {
        match self {
            Self::Own(
                OwnRequest::List { face, .. } | OwnRequest::Handshake { face, .. } | OwnRequest::Listen { face, .. },
            ) => face.as_ref(),
            Self::Call { call, .. } => call.face.as_ref(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Own(OwnRequest::List { id, .. } | OwnRequest::Handshake { id, .. }) => id.len(),
            Self::Own(OwnRequest::Listen { id, filter, .. }) => id.len() + filter.to_json().len(),
            Self::Call { call, .. } => call.line.len(),
        }
    }
}

pub(super) struct UnansweredRequests {
    session: u64,
    /// Of the last call.
    serial: u64,
    /// By the agent's raw ids. There are usually a few, and at most [`crate::server::messages::call::MAX_UNANSWERED_PER_SESSION`], so a linear
    /// search is faster than a hash map.
    calls: Vec<(Bytes, UnansweredCall)>,
    /// In the order in which they arrived.
    parked: Vec<(ParkableRequest, Charge)>,
    fan_outs: FanOuts,
    account: Arc<Account>,
}

impl UnansweredRequests {
    pub(super) fn new(session: u64, account: Arc<Account>) -> Self {
        let fan_outs = FanOuts::default();
        Self { session, serial: 0, calls: Vec::new(), parked: Vec::new(), fan_outs, account }
    }

    /// The requests that several servers answer.
    pub(super) fn fan_outs_mut(&mut self) -> &mut FanOuts {
        &mut self.fan_outs
    }

    /// The bytes of responses to requests that several servers answer.
    pub(super) fn gathered_bytes(&self) -> usize {
        self.fan_outs.bytes()
    }

    /// Charges a request to the account of the agent.
    ///
    /// # Errors
    /// If a limit is reached.
    pub(super) fn charge(&self, cost: Cost) -> Result<Charge, OverLimit> {
        self.account.charge(cost, Instant::now())
    }

    /// A message of the agent was handled. Returns how long mcpd has to pause before it handles the next one.
    pub(super) fn pause_after_message(&self) -> Duration {
        self.account.pause_after_message(Instant::now())
    }

    /// A key for a call or subscription of this session.
    pub(super) fn next_key(&mut self) -> CallKey {
        self.serial += 1;
        CallKey { session: self.session, serial: self.serial }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.parked.is_empty()
    }

    /// Whether a request with this id is unanswered.
    pub(super) fn contains(&self, id: &Bytes) -> bool {
        self.calls.iter().any(|(known, _)| known == id) || self.parked.iter().any(|(parked, _)| parked.id() == id)
    }

    /// The raw id of this call, if it is unanswered.
    pub(super) fn id_of(&self, key: CallKey) -> Option<&Bytes> {
        self.calls.iter().find(|(_, call)| call.key == key).map(|(id, _)| id)
    }

    /// Calls at servers.
    pub(super) fn calls(&self) -> impl Iterator<Item = &UnansweredCall> {
        self.calls.iter().map(|(_, call)| call)
    }

    /// Parked calls.
    pub(super) fn parked_calls(&self) -> impl Iterator<Item = &ReceivedCall> {
        self.parked.iter().filter_map(|(parked, _)| match parked {
            ParkableRequest::Call { call, .. } => Some(call),
            ParkableRequest::Own(_) => None,
        })
    }

    /// Unanswered calls that begin a subscription, each with its server.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = (&ResourceSubscriptionChange, &ServerHandle)> {
        self.calls.iter().filter_map(|(_, call)| match &call.on_response {
            OnResponse::Subscription(subscription) if subscription.begins => Some((&**subscription, &call.server)),
            _ => None,
        })
    }

    /// How many unanswered calls request a task.
    pub(super) fn new_tasks(&self) -> usize {
        self.calls.iter().filter(|(_, call)| matches!(call.on_response, OnResponse::NewTask { .. })).count()
    }

    /// Adds a call with a unique id.
    pub(super) fn insert(&mut self, id: Bytes, call: UnansweredCall) {
        self.calls.push((id, call));
    }

    pub(super) fn remove(&mut self, id: &Bytes) -> Option<UnansweredCall> {
        Some(self.remove_where(|known, _| known == id)?.1)
    }

    /// Removes the call `key`, with its id, unless it was cancelled.
    pub(super) fn remove_call(&mut self, key: CallKey) -> Option<(Bytes, UnansweredCall)> {
        self.remove_where(|_, call| call.key == key)
    }

    /// Removes all calls, each with its id.
    pub(super) fn take_calls(&mut self) -> Vec<(Bytes, UnansweredCall)> {
        std::mem::take(&mut self.calls)
    }

    fn remove_where(&mut self, is_it: impl Fn(&Bytes, &UnansweredCall) -> bool) -> Option<(Bytes, UnansweredCall)> {
        let index = self.calls.iter().position(|(id, call)| is_it(id, call))?;
        Some(self.calls.swap_remove(index))
    }

    pub(super) fn park(&mut self, request: ParkableRequest, charge: Charge) {
        self.parked.push((request, charge));
    }

    /// Whether `initialize` is parked.
    pub(super) fn has_initialize(&self) -> bool {
        self.parked.iter().any(|(parked, _)| parked.is_initialize())
    }

    /// Removes the parked requests, each with its charge.
    pub(super) fn take_parked(&mut self) -> Vec<(ParkableRequest, Charge)> {
        std::mem::take(&mut self.parked)
    }

    /// Removes the parked request with this id, except for `initialize`: MCP does not let agents cancel it (`basic/utilities/cancellation`).
    pub(super) fn cancel_parked(&mut self, id: &Bytes) -> Option<ParkableRequest> {
        let is_it = |parked: &ParkableRequest| parked.id() == id && !parked.is_initialize();
        let index = self.parked.iter().position(|(parked, _)| is_it(parked))?;
        Some(self.parked.remove(index).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::unlimited;
    use crate::clock::Moment;
    use crate::list_kind::ListKind;

    fn requests() -> UnansweredRequests {
        UnansweredRequests::new(7, unlimited())
    }

    fn park(requests: &mut UnansweredRequests, request: ParkableRequest) {
        let charge = requests.charge(Cost::Request(request.bytes())).expect("within the limits");
        requests.park(request, charge);
    }

    fn list(id: &'static str) -> ParkableRequest {
        ParkableRequest::Own(OwnRequest::List {
            id: Bytes::from(id),
            kind: ListKind::Tools,
            era: Era::Legacy,
            face: None,
            received: Moment::now(),
        })
    }

    #[test]
    fn parked_requests_are_found_by_id_and_stay_in_order() {
        let mut requests = requests();
        ["1", "2", "3"].map(list).into_iter().for_each(|request| park(&mut requests, request));
        assert!(requests.contains(&Bytes::from("2")) && !requests.is_empty());
        assert!(requests.cancel_parked(&Bytes::from("2")).is_some());
        assert!(requests.cancel_parked(&Bytes::from("2")).is_none() && !requests.contains(&Bytes::from("2")));
        let ids: Vec<_> = requests.take_parked().iter().map(|(parked, _)| parked.id().clone()).collect();
        assert_eq!(ids, ["1", "3"]);
        assert!(requests.is_empty());
    }

    #[test]
    fn keys_are_unique_within_the_session() {
        let mut requests = requests();
        let (one, other) = (requests.next_key(), requests.next_key());
        assert!(one != other && one.session == 7 && other.session == 7);
        assert!(requests.id_of(one).is_none() && requests.remove_call(one).is_none());
    }
}
