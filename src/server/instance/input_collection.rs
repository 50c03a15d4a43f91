//! Inputs that a modern server requires of a legacy agent before it answers a call.

use bytes::Bytes;

use super::bridged_call::PendingBridgedCall;
use super::server_requests::CallInput;
use super::wire::Wire;
use crate::bridge::MAX_RETAINED_MEMORY;
use crate::jsonrpc::splice::Change;

/// Whether the inputs of this call, and those of all calls, are within the limits.
pub(super) fn has_space_for_inputs(wire: &Wire, id: u64) -> bool {
    let bytes = |(_, bridged): (u64, &PendingBridgedCall)| bridged.state.input_response_bytes();
    let of_call: usize = wire.bridged_calls().filter(|(other, _)| *other == id).map(bytes).sum();
    let of_all: usize = wire.bridged_calls().map(bytes).sum();
    of_call <= wire.buffer_unit() && of_all <= MAX_RETAINED_MEMORY * wire.buffer_unit()
}

/// The agent has answered an input of a call.
pub(super) fn set_input_response(wire: &mut Wire, input: CallInput, result: Bytes) {
    if let Some(bridged) = wire.bridged_mut(input.call) {
        bridged.state.set_input_response(input.index, result);
    }
}

/// Removes a call whose inputs are all there, with the changes to send it again.
pub(super) fn take_complete(wire: &mut Wire, id: u64) -> Option<(Box<PendingBridgedCall>, Vec<Change>)> {
    let changes = wire.bridged_mut(id)?.state.resend()?;
    Some((wire.take_bridged(id)?, changes))
}
