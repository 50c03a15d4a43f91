//! Requests to the server without a response, the call of such a request, and when they expire. [`super::ending`] says what follows from their ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::bridge::BridgedCall;
use crate::calls::CallOutcome;
use crate::config::CallLimit;
use crate::durations::Operation;
use crate::jsonrpc::members::{NotAnObject, members_of_parsed};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::methods::TargetKind;
use crate::server::listing::Listing;
use crate::server::messages::call::{Access, Call, Origin, RequestKind, ResponseHandle, SessionSender};
use crate::server::messages::tasks::TaskEvent;
use crate::server::stats::Stats;
use crate::task_state::TaskOperation;
use crate::transport::INLINE;
use crate::validity::{ResultKind, may_be_malformed, mended_response};

/// The response of the server to a request.
#[derive(Clone, Copy)]
pub(super) struct ServerResponse<'a> {
    /// The server's id of the request, raw.
    pub(super) id: &'a Bytes,
    pub(super) line: &'a Bytes,
    /// The raw result or error.
    pub(super) result: Result<&'a Bytes, &'a Bytes>,
}

/// A request that the server has not answered.
pub(in crate::server) enum PendingRequest {
    /// `initialize` of the handshake, which has its own deadline.
    Initialize,
    /// `server/discover` of the handshake.
    Discover,
    /// A health check. Any message of the server answers it.
    Ping,
    /// A request for a list in place of a ping. Its items are not used.
    Probe,
    /// A ping whose response shows that the server has read the cancellations before it.
    CancellationCheck,
    /// A ping that shows whether the server still knows the session.
    SessionCheck { deadline: Instant },
    /// A health check with callers.
    Check,
    /// A page of a list.
    Page { listing: Listing, sent: Instant, deadline: Instant },
    /// An agent's call.
    Call(PendingCall),
    /// Subscribes again to a resource that the previous instance was subscribed to.
    Subscribe { uri: Bytes, raw: Bytes, deadline: Instant },
    /// Sets the log level.
    LogLevel { deadline: Instant },
    /// `subscriptions/listen`. Stays open once it is acknowledged.
    Listen { acknowledge_by: Option<Instant> },
    /// Cancels a task without an owner.
    CancelTask { task_key: u64, deadline: Instant },
    /// The response is ignored.
    Ignored { deadline: Instant },
}

impl PendingRequest {
    /// When [`Instance::expire`](super::Instance::expire) has to check it.
    pub(super) fn next_check_at(&self) -> Option<Instant> {
        match self {
            Self::Initialize | Self::Discover | Self::Ping | Self::Probe | Self::CancellationCheck | Self::Check => {
                None
            }
            Self::Page { deadline, .. } | Self::Subscribe { deadline, .. } => Some(*deadline),
            Self::SessionCheck { deadline } | Self::LogLevel { deadline } | Self::Ignored { deadline } => {
                Some(*deadline)
            }
            Self::CancelTask { deadline, .. } => Some(*deadline),
            Self::Listen { acknowledge_by } => *acknowledge_by,
            Self::Call(call) => Some(call.next_event()),
        }
    }

    /// When it ends without a response.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.call().map_or_else(|| self.next_check_at(), |call| Some(call.deadline.at()))
    }

    /// The call, if it is one of an agent.
    pub(super) fn call(&self) -> Option<&PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The call, if it is one of an agent.
    pub(super) fn into_call(self) -> Option<PendingCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Whether the server may make a task of it, which belongs to a session.
    pub(super) fn creates_task(&self) -> bool {
        matches!(self, Self::Call(call) if call.requests_task())
    }

    /// Whether an error in its response may be about a resource.
    pub(super) fn is_about_resource(&self) -> bool {
        self.call().is_some_and(|call| call.resource.is_some())
    }

    /// Whether it belongs to the handshake.
    pub(super) fn is_handshake_request(&self) -> bool {
        matches!(self, Self::Initialize | Self::Discover)
    }
}

/// A call that is queued for the server or was written to it.
pub(in crate::server) struct PendingCall {
    pub(super) response_handle: ResponseHandle,
    pub(super) operation: Operation,
    pub(super) kind: RequestKind,
    result_kind: Option<ResultKind>,
    pub(super) progress_token: Option<Bytes>,
    pub(super) deadline: Deadline,
    /// The number of its line in the outbox.
    pub(super) line: u64,
    /// The approximate size of its line.
    pub(super) bytes: usize,
    pub(super) origin: Origin,
    /// The URI of the resource that it is about, if policy decides about it.
    pub(super) resource: Option<Bytes>,
    /// The permission, until the call is written.
    pub(super) access: Option<Box<Access>>,
    /// `None` for a call within one era.
    pub(super) bridge: Option<Box<Bridge>>,
}

/// What only a call between the eras has.
pub(in crate::server) struct Bridge {
    pub(super) state: BridgedCall,
    /// The agent of a suspended call.
    pub(super) absent_agent: Option<SessionSender>,
}

impl PendingCall {
    /// The call, and its line for the server as a function of its id. A call between the eras has a `state`, and `changes` to its line.
    pub(super) fn new(call: Call, state: Option<BridgedCall>, changes: &[Change]) -> (Self, impl FnOnce(u64) -> Bytes) {
        let Call { request, operation, response_handle, kind, result_kind, origin, access, limit, .. } = call;
        let pending = Self {
            response_handle,
            operation,
            kind,
            result_kind,
            progress_token: request.progress_token.as_deref().map(Bytes::copy_from_slice),
            deadline: Deadline::new(limit, Instant::now()),
            line: 0,
            bytes: request.line.len(),
            origin,
            resource: access
                .as_ref()
                .filter(|access| access.error_kind == TargetKind::Resource)
                .map(|access| access.requested_name.clone()),
            access,
            bridge: state.map(|state| Box::new(Bridge { state, absent_agent: None })),
        };
        (pending, move |id| request.numbered(id, changes))
    }

    /// Whether its listener has stopped exposing what it calls.
    pub(super) fn is_hidden(&self, server: &str) -> bool {
        self.access.as_ref().is_some_and(|access| access.is_hidden(server))
    }

    /// Whether the agent has requested a task.
    pub(super) fn requests_task(&self) -> bool {
        matches!(self.kind, RequestKind::NewTask)
    }

    /// Whether it waits for the result of this task.
    pub(super) fn awaits(&self, task: &[u8]) -> bool {
        matches!(&self.kind, RequestKind::LegacyTask(task_request) if task_request.operation == TaskOperation::Result && task_request.id == task)
    }

    /// Sends the server's answer to its agent, as the agent accepts it if `mends` is set. Counts in `stats` if that differs. An answer so
    /// large that others would have to wait is mended on another thread.
    pub(super) fn answer(
        self,
        answer: Bytes,
        outcome: CallOutcome,
        task: Option<Box<TaskEvent>>,
        mends: bool,
        stats: &Arc<Stats>,
    ) {
        let Self { response_handle, result_kind, origin, .. } = self;
        let suspicious = result_kind.filter(|kind| mends && may_be_malformed(*kind, &answer));
        let Some(kind) = suspicious else { return response_handle.answer_with(answer, outcome, task) };
        let (era, length, stats) = (origin.era(), answer.len(), Arc::clone(stats));
        let mended = move || match mended_response(kind, &answer, era) {
            Some(mended) => {
                stats.results_mended.add_one();
                mended
            }
            None => answer,
        };
        if length <= INLINE {
            return response_handle.answer_with(mended(), outcome, task);
        }
        tokio::spawn(async move {
            // Without an answer, the handle reports the fault.
            if let Ok(answer) = spawn_blocking(mended).await {
                response_handle.answer_with(answer, outcome, task);
            }
        });
    }

    /// The response line if the server does not have the resource that is read or subscribed to. A denied resource gets the same bytes.
    pub(super) fn not_found(&self, error: &Bytes) -> Option<Bytes> {
        let uri = self.resource.as_ref().filter(|_| self.result_kind != Some(ResultKind::Completion))?;
        let not_found = TargetKind::Resource.unknown(uri, self.origin.era());
        means_not_found(error).then(|| reply::error(Some(self.response_handle.id()), &not_found))
    }
}

/// Calls between the eras.
impl PendingCall {
    /// The time of its next deadline or check.
    pub(super) fn next_event(&self) -> Instant {
        let timer = self.bridge.as_ref().and_then(|bridge| bridge.state.next_timer());
        timer.map_or(self.deadline.at(), |at| at.min(self.deadline.at()))
    }

    /// Whether it waits for its agent: the server has no request of it.
    pub(super) fn has_no_pending_request(&self) -> bool {
        self.bridge.as_ref().is_some_and(|bridge| bridge.state.has_no_pending_request())
    }

    /// Whether the server has answered it, and its agent has not retried it yet.
    pub(super) fn is_answered(&self) -> bool {
        self.bridge.as_ref().is_some_and(|bridge| bridge.state.is_answered())
    }

    /// Whether the server has received it before its latest request.
    pub(super) fn was_sent_before(&self) -> bool {
        self.bridge.as_ref().is_some_and(|bridge| bridge.state.was_sent_before())
    }
}

/// Calls that were not written when their instance ended. No server has seen any byte of them, so another instance can send them.
impl PendingCall {
    /// Whether another instance could execute it: it is no subscription and concerns no existing task.
    pub(super) fn fits_any_instance(&self) -> bool {
        matches!(self.kind, RequestKind::Plain | RequestKind::NewTask | RequestKind::MayBeTask)
            && self.bridge.as_ref().is_none_or(|bridge| bridge.state.fits_any_instance())
    }

    /// The call as its session sent it. `line` was queued for the server.
    pub(super) fn into_call(self, line: &Bytes) -> Result<Call, Box<Self>> {
        let request = match &self.bridge {
            Some(bridge) => bridge.state.request().line().clone(),
            None => match self.original(line) {
                Ok(request) => request,
                Err(NotAnObject) => return Err(Box::new(self)),
            },
        };
        let Self { response_handle, operation, kind, result_kind, deadline, origin, access, .. } = self;
        Ok(Call { request, operation, kind, result_kind, limit: deadline.limits(), origin, access, response_handle })
    }

    /// The line with the id and the progress token of the agent. The name stays the server's own.
    fn original(&self, line: &Bytes) -> Result<RequestLine, NotAnObject> {
        let (id, token) = id_and_token(line)?;
        let own = self.progress_token.as_ref();
        let mut edits = vec![Edit { part: &id, replacement: self.response_handle.id() }];
        edits.extend(token.iter().zip(own).map(|(part, replacement)| Edit { part, replacement }));
        let line = splice(line, &mut edits);
        let line = line.slice(..line.len() - 1);
        let (id, token) = id_and_token(&line)?;
        Ok(RequestLine { line, id, rename: None, progress_token: token.filter(|_| own.is_some()) })
    }
}

/// Whether a server's error means that it does not have a resource. The Python SDK before 2.0 has no code for it.
fn means_not_found(error: &Bytes) -> bool {
    serde_json::from_slice(error).is_ok_and(|ErrorObject { code, message, .. }: ErrorObject| match code {
        INVALID_PARAMS | RESOURCE_NOT_FOUND => true,
        code => code == 0 && message.starts_with("Unknown resource"),
    })
}

fn id_and_token(line: &Bytes) -> Result<(Bytes, Option<Bytes>), NotAnObject> {
    let [id, params] = members_of_parsed(line, ["id", "params"])?;
    let member = |object: Option<Bytes>, name| match object {
        Some(object) => members_of_parsed(&object, [name]).map(|[value]| value),
        None => Ok(None),
    };
    let token = member(member(params, "_meta")?, "progressToken")?;
    Ok((id.ok_or(NotAnObject)?, token))
}

/// A deadline that progress postpones, up to the limit of the whole call.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Instant,
    latest: Instant,
    limit: CallLimit,
}

impl Deadline {
    /// The deadline of a call that begins `now`.
    pub(super) fn new(limit: CallLimit, now: Instant) -> Self {
        let latest = now + limit.total;
        Self { at: latest.min(now + limit.progress_timeout), latest, limit }
    }

    /// Postpones the deadline, as the call makes progress at `now`.
    pub(super) fn extend(&mut self, now: Instant) {
        self.at = self.at.max(self.latest.min(now + self.limit.progress_timeout));
    }

    /// Ends the call at `now`, as nobody waits for it.
    pub(super) fn end(&mut self, now: Instant) {
        self.at = self.at.min(now);
    }

    /// The present deadline.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// The start of the call.
    pub(super) fn begun(&self) -> Instant {
        self.latest - self.limit.total
    }

    /// The limits of the call.
    pub(super) fn limits(&self) -> CallLimit {
        self.limit
    }

    /// Which limit the deadline comes from: the total or the silence.
    pub(super) fn current_limit(&self) -> Duration {
        if self.at == self.latest { self.limit.total } else { self.limit.progress_timeout }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_of_servers_that_lack_a_resource_are_recognised() {
        for (error, expected) in [
            (r#"{"code":-32002,"message":"Resource not found","data":{"uri":"x:1"}}"#, true),
            (r#"{"code":-32602,"message":"Resource x:1 not found"}"#, true),
            (r#"{"code":0,"message":"Unknown resource: x:1"}"#, true),
            (r#"{"code":0,"message":"the disk is full"}"#, false),
            (r#"{"code":-32603,"message":"Unknown resource: x:1"}"#, false),
            (r#"{"code":-32601,"message":"Method not found"}"#, false),
        ] {
            assert_eq!(means_not_found(&Bytes::from_static(error.as_bytes())), expected, "{error}");
        }
    }

    #[test]
    fn a_call_without_progress_ends_at_the_shorter_limit() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (progress_timeout, total) in [(1, 9), (9, 1), (5, 5)] {
            let deadline =
                Deadline::new(CallLimit { progress_timeout: progress_timeout * second, total: total * second }, now);
            assert_eq!(
                (deadline.at(), deadline.current_limit()),
                (now + progress_timeout.min(total) * second, progress_timeout.min(total) * second)
            );
        }
    }

    proptest! {
        #[test]
        fn progress_postpones_a_deadline_up_to_the_total_limit(
            (silence, total) in (1..100u64, 1..1000u64),
            steps in prop::collection::vec(0..120u64, 0..50),
        ) {
            let (silence, total) = (Duration::from_secs(silence), Duration::from_secs(total));
            let begin = Instant::now();
            let mut deadline = Deadline::new(CallLimit { progress_timeout: silence, total }, begin);
            let mut now = begin;
            for step in steps {
                now += Duration::from_secs(step);
                if now >= deadline.at() {
                    break;
                }
                let before = deadline.at();
                deadline.extend(now);
                prop_assert_eq!(deadline.at(), (now + silence).min(begin + total));
                prop_assert!(deadline.at() >= before, "progress never shortens the deadline");
                let ended_by = if begin + total <= now + silence { total } else { silence };
                prop_assert_eq!(deadline.current_limit(), ended_by);
            }
        }
    }
}
