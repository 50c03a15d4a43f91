//! Suspended calls: pending calls of modern agents at a legacy server that were answered `input_required` and wait for their retry.
//!
//! The `requestState` of a suspended call is the tag of its instance, by which the retry is routed, and a random number. The call itself
//! stays here.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;

use super::pending_request::{Bridge, PendingCall};
use super::wire::Wire;
use crate::bridge::{self, BridgedRequest, MAX_RETAINED_MEMORY, ModernAgent, ServerRequest};
use crate::era::Era;
use crate::era::input::RetryResponses;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::random;
use crate::server::messages::call::{Call, SessionSender};
use crate::server::server_request::undeclared;

/// A suspended call that was resumed by its retry.
pub(super) struct ResumedCall {
    /// The id of the call at the server.
    pub(super) id: u64,
    /// The server's ids of its requests that are answered, with the response lines for it.
    pub(super) answered: Vec<(Bytes, Bytes)>,
    /// The response to the call, if it has arrived.
    pub(super) response: Option<Bytes>,
}

/// The tag of the instance with this label. It differs in each daemon, so that no agent can guess the tag of another instance.
///
/// The label `modern` gets the same tag as no label, so that task ids stay valid when a server switches from one instance to one per era.
pub(in crate::server) fn tag(label: Option<&str>) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let label = label.filter(|label| *label != Era::Modern.word());
    KEYS.hash_one(label)
}

/// The tag of the instance that has suspended the call, if `call` is a retry.
pub(in crate::server) fn tag_of_retry(call: &Call) -> Option<u64> {
    if !call.origin.is_stateless() {
        return None;
    }
    let [params] = members(&call.request.line, ["params"]).ok()?;
    let RetryResponses { request_state, .. } = bridge::read_retry(&call.request.line, &params?).ok()??;
    let (tag, _) = str::from_utf8(&request_state).ok()?.split_once('.')?;
    u64::from_str_radix(tag, 16).ok()
}

/// Whether this many more bytes may be kept for suspended calls.
fn has_space(wire: &Wire, bytes: usize) -> bool {
    let kept: usize = wire.bridges().map(|(_, bridge)| bridge.state.retained_bytes()).sum();
    kept + bytes <= MAX_RETAINED_MEMORY * wire.buffer_unit()
}

/// Collects a request of the server. The modern call that it belongs to will be answered `input_required` with it.
///
/// # Errors
/// Why the request is refused.
pub(super) fn collect(wire: &mut Wire, call: u64, request: &ServerRequest<'_>) -> Result<(), &'static str> {
    let (bytes, buffer_unit, now) = (request.params.map_or(0, Bytes::len), wire.buffer_unit(), Instant::now());
    if !has_space(wire, bytes) {
        return Err("too many calls wait for the retries of their agents");
    }
    let Some(PendingCall { bridge: Some(bridge), deadline, .. }) = wire.call_mut(call) else {
        return Err("the call that this is for is not bridged");
    };
    match bridge.state.on_server_request(request, buffer_unit, now) {
        None => Err("the call that this is for is not bridged"),
        Some(false) => Err("too many requests for agents are unanswered"),
        Some(true) => {
            deadline.extend(now);
            expire_by_next_event(wire, call);
            Ok(())
        }
    }
}

/// Answers calls with the requests that were collected for them, when it is time.
pub(super) fn present_due(wire: &mut Wire, tag: u64, now: Instant) {
    let due = wire.bridges().filter(|(_, bridge)| bridge.state.is_input_required_due(now));
    let due: Vec<_> = due.map(|(id, _)| id).collect();
    due.into_iter().for_each(|id| answer_input_required(wire, tag, id, now));
}

/// Answers the call with this id with the collected requests, if its agent waits.
pub(super) fn answer_input_required(wire: &mut Wire, tag: u64, id: u64, now: Instant) {
    let Some(PendingCall { bridge: Some(bridge), response_handle, .. }) = wire.call_mut(id) else { return };
    // Without random numbers there is no state that an agent could retry with.
    let random = response_handle.to().and_then(|_| random::token().ok());
    let state = random.map(|random| format!("{tag:x}.{random}"));
    let answer = bridge.state.answer_input_required(state, now);
    if let Some(result) = answer.result {
        bridge.absent_agent = response_handle.to().cloned();
        let line = reply::result(response_handle.id(), &result);
        response_handle.suspend(line);
    }
    expire_by_next_event(wire, id);
    for (id, capability) in answer.refused {
        wire.try_queue_line(reply::error(Some(&id), &undeclared(capability)));
    }
}

/// Ends calls whose agents are gone for good.
pub(super) fn check_agents(wire: &mut Wire, now: Instant) {
    for call in wire.calls_mut() {
        let Some(bridge) = &mut call.bridge else { continue };
        let is_gone = bridge.absent_agent.as_ref().is_some_and(SessionSender::is_gone);
        if bridge.state.check_agent_connection(is_gone, now) {
            call.deadline.end(now);
        }
    }
}

/// Caches the server's response to a suspended call until its agent retries. `Err` has the call if the response is too large
/// together with all others.
pub(super) fn store_response(wire: &mut Wire, mut call: PendingCall, line: &Bytes) -> Result<(), Box<PendingCall>> {
    match &mut call.bridge {
        Some(bridge) if has_space(wire, line.len()) => bridge.state.cache_response(line),
        _ => return Err(Box::new(call)),
    }
    wire.register_without_request(call);
    Ok(())
}

fn expire_by_next_event(wire: &mut Wire, call: u64) {
    if let Some(at) = wire.call_mut(call).map(|call| call.next_event()) {
        wire.expire_by(at);
    }
}

/// The agent of a suspended call retries it: the agent waits for the call as before. `Err` has a retry of an unknown call.
#[expect(clippy::result_large_err, reason = "the call is moved once, to its only caller")]
pub(super) fn resume(
    wire: &mut Wire,
    retry: Call,
    request: &BridgedRequest,
    agent: ModernAgent,
    RetryResponses { responses, request_state }: &RetryResponses,
) -> Result<ResumedCall, Call> {
    let is_it = |Bridge { state, .. }: &Bridge| {
        state.is_suspended_as(request_state, &agent.profile) && state.is_retried_by(request)
    };
    let Some((id, _)) = wire.bridges().find(|(_, bridge)| is_it(bridge)) else { return Err(retry) };
    let Some(call) = wire.call_mut(id) else { return Err(retry) };
    let Some(bridge) = &mut call.bridge else { return Err(retry) };
    call.deadline.extend(Instant::now());
    call.progress_token = retry.request.progress_token.as_deref().map(Bytes::copy_from_slice);
    call.response_handle = retry.response_handle;
    // Every modern request identifies its agent.
    call.origin = retry.origin;
    bridge.absent_agent = None;
    let resumed = bridge.state.resume(agent.capabilities, responses);
    Ok(ResumedCall { id, answered: resumed.answered, response: resumed.response })
}

/// Answers the retry of a call that is not suspended here. What has become of that call is unknown.
pub(super) fn refuse_unknown(retry: Call, server: &Arc<str>) {
    let error = ErrorObject::new(INVALID_PARAMS, "`requestState` is not known, or not any more");
    retry.refuse_with(&error.about_server(server).with_delivery(Delivery::Unknown));
}
