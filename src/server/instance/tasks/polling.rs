//! Requests of a legacy agent for the result of a modern server's task, which are answered by polling the state of the task.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use crate::bridge::task_params;
use crate::jsonrpc::reply;
use crate::server::instance::bridged_call::PendingBridgedCall;
use crate::server::instance::pending_request::PendingRequest;
use crate::server::instance::wire::Wire;
use crate::server::messages::call::RequestKind;

/// Requests the state of the task that a call waits for.
pub(in crate::server::instance) fn poll(wire: &mut Wire, mut bridged: Box<PendingBridgedCall>) {
    let RequestKind::LegacyTask(task_request) = &bridged.call.kind else { return };
    let raw_id = Bytes::from(json!(String::from_utf8_lossy(&task_request.id)).to_string());
    let Some(client_meta) = bridged.state.poll() else { return };
    let params = task_params(&raw_id, &client_meta);
    let params: Option<&RawValue> = serde_json::from_slice(&params).ok();
    wire.send_bridged(bridged, |_, id| reply::request(id, "tasks/get", &params));
}

/// Requests the states of tasks whose polls are due.
pub(in crate::server::instance) fn poll_due(wire: &mut Wire, now: Instant) {
    poll_where(wire, |bridged| bridged.state.next_poll().is_some_and(|at| at <= now));
}

/// Requests the state of a task that calls wait for, because the server reports that it has changed.
pub(in crate::server::instance) fn poll_now(wire: &mut Wire, id: &[u8]) {
    poll_where(wire, |bridged| bridged.state.next_poll().is_some() && bridged.call.awaits(id));
}

fn poll_where(wire: &mut Wire, is_due: impl Fn(&PendingBridgedCall) -> bool) {
    if !wire.bridged_calls().any(|(_, bridged)| is_due(bridged)) {
        return;
    }
    let due = wire.remove_where(|pending| matches!(pending, PendingRequest::Bridged(bridged) if is_due(bridged)));
    for (_, pending) in due {
        if let PendingRequest::Bridged(bridged) = pending {
            poll(wire, bridged);
        }
    }
}

/// Repeats a poll that was lost on its way, which has no effects. Any other call is returned.
pub(in crate::server::instance) fn repeat(
    wire: &mut Wire,
    mut bridged: Box<PendingBridgedCall>,
    at: Instant,
) -> Option<Box<PendingBridgedCall>> {
    if !bridged.state.poll_later(at) {
        return Some(bridged);
    }
    wire.expire_by(at);
    wire.register_without_request(bridged);
    None
}
