//! A call that waits for its response.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::calls::CallOutcome;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, RESOURCE_NOT_FOUND};
use crate::jsonrpc::request_line::RequestLine;
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::methods::TargetKind;
use crate::server::deadline::Deadline;
use crate::server::messages::call::{
    Access, Call, CallKey, Origin, RequestKind, ResponseHandle, SessionSender, WeakLoadToken,
};
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
}

/// The rest of a call that was cancelled or has timed out.
pub(super) struct AbandonedCall {
    /// Its id at the server.
    pub(super) id: u64,
    pub(super) key: CallKey,
    /// The user of its agent, if that is known.
    pub(super) uid: Option<u32>,
    /// The server may make a task of it.
    pub(super) creates_task: bool,
    pub(super) load: Option<WeakLoadToken>,
}

impl PendingCall {
    /// The call, and its line for the server as a function of its id.
    pub(super) fn new(call: Call, changes: &[Change]) -> (Self, impl FnOnce(u64) -> Bytes) {
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

    /// What remains of it at the server, which knows it by `id`.
    pub(super) fn abandoned(&self, id: u64) -> AbandonedCall {
        let load = self.response_handle.load_token().map(Arc::downgrade);
        let ResponseHandle { key, .. } = self.response_handle;
        let uid = self.response_handle.to().and_then(SessionSender::uid);
        AbandonedCall { id, key, uid, creates_task: self.requests_task(), load }
    }
}

/// Calls that were not written when their instance ended. No server has seen any byte of them, so another instance can send them.
impl PendingCall {
    /// Whether another instance could execute it: it is no subscription and concerns no existing task.
    pub(super) fn fits_any_instance(&self) -> bool {
        matches!(self.kind, RequestKind::Plain | RequestKind::NewTask | RequestKind::MayBeTask)
    }

    /// The call as its session sent it. `line` was queued for the server.
    pub(super) fn into_call(self, line: &Bytes) -> Result<Call, Box<Self>> {
        match self.original(line) {
            Ok(request) => Ok(self.with_request(request)),
            Err(NotAnObject) => Err(Box::new(self)),
        }
    }

    pub(super) fn with_request(self, request: RequestLine) -> Call {
        let Self { response_handle, kind, result_kind, deadline, origin, access, .. } = self;
        Call { request, kind, result_kind, limit: deadline.limits(), origin, access, response_handle }
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
    let [id, params] = members(line, ["id", "params"])?;
    let member = |object: Option<Bytes>, name| match object {
        Some(object) => members(&object, [name]).map(|[value]| value),
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
