//! A call that waits for its response.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::bridge::BridgedCall;
use crate::calls::CallOutcome;
use crate::jsonrpc::members::{NotAnObject, members_of_parsed};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::methods::TargetKind;
use crate::server::deadline::Deadline;
use crate::server::messages::call::{Access, Call, Origin, RequestKind, ResponseHandle, SessionSender};
use crate::server::messages::tasks::TaskEvent;
use crate::server::stats::Stats;
use crate::task_state::TaskOperation;
use crate::transport::INLINE;
use crate::validity::{ResultKind, may_be_malformed, mended_response};

/// A call that is queued for the server or was written to it.
pub(in crate::server) struct PendingCall {
    pub(super) response_handle: ResponseHandle,
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
        let Call { request, response_handle, kind, result_kind, origin, access, limit, .. } = call;
        let pending = Self {
            response_handle,
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
        let Self { response_handle, kind, result_kind, deadline, origin, access, .. } = self;
        Ok(Call { request, kind, result_kind, limit: deadline.limits(), origin, access, response_handle })
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

#[cfg(test)]
mod tests {
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
}
