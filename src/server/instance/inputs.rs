//! Inputs that a modern server requires of a legacy agent before it answers a call.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`.

use std::time::Instant;

use bytes::Bytes;

use super::Instance;
use super::forwarded_requests::{self, CallInput, FromAgent, InputAnswer, Recipient, RequestEnd};
use super::pending_call::{Bridge, PendingCall};
use super::wire::Wire;
use crate::bridge::{self, MAX_RETAINED_MEMORY};
use crate::client_capabilities::ClientCapability;
use crate::era::input::Input;
use crate::server::agent_scope::roots_result;
use crate::server::messages::call::Failure;

/// Why a call fails whose inputs are too large. The text continues the name of the server.
const INPUTS_TOO_LARGE: &str = "requested input, and its requests and their answers together are too large";

impl Instance {
    /// Requests the inputs of the agent, or sends the call again at once if there are none.
    pub(super) fn collect_inputs(&mut self, mut call: PendingCall, inputs: &[Input]) {
        call.deadline.extend(Instant::now());
        let (session, to) = (call.response_handle.key.session, call.response_handle.to().cloned());
        let call = self.wire.register_without_request(call);
        if !has_space_for_inputs(&self.wire, call) {
            return self.fail_inputs(call, INPUTS_TOO_LARGE.to_owned());
        }
        for (index, input) in inputs.iter().enumerate() {
            let requested = match to.clone() {
                Some(to) => self.request_input(&Recipient { session, to }, CallInput { call, index }, input),
                None => Err("nobody waits for it any more".to_owned()),
            };
            if let Err(why) = requested {
                return self.fail_inputs(call, why);
            }
        }
        self.resend_if_complete(call);
    }

    /// Sends the agent a request for an input, unless the configuration has it. `Err` continues the name of the server.
    fn request_input(&mut self, recipient: &Recipient, call_input: CallInput, input: &Input) -> Result<(), String> {
        let parsed = forwarded_requests::read_input(input)?;
        if parsed.capability != ClientCapability::Roots || !self.has_configured_roots() {
            let sent = self.forwarded_requests.send_input(&mut self.wire, recipient, call_input, input, parsed);
            return sent.map_err(|error| error.message);
        }
        set_input_response(&mut self.wire, call_input, roots_result(self.config.roots()).into());
        Ok(())
    }

    /// An agent has sent a response, or progress, for a request of the server.
    pub(in crate::server) fn handle_agent_message(&mut self, received: FromAgent) {
        if let Some(InputAnswer { input, response: Ok(line) }) =
            self.forwarded_requests.handle_agent_message(&mut self.wire, received)
        {
            self.receive_input(input, bridge::input_response_of(&line));
        }
    }

    /// A call of this session has ended without a response of the server.
    pub(super) fn end_requests_for(&mut self, session: u64, end: RequestEnd) {
        let ended = self.forwarded_requests.call_ended(&mut self.wire, session, end);
        self.requests_ended(ended);
    }

    /// Agents will not answer these requests.
    pub(super) fn requests_ended(&mut self, ended: Vec<InputAnswer>) {
        for InputAnswer { input, response } in ended {
            if let Err(why) = response {
                self.receive_input(input, Err(format!("requested input, but {why}")));
            }
        }
    }

    fn receive_input(&mut self, input: CallInput, result: Result<Bytes, String>) {
        match result {
            Ok(result) => {
                set_input_response(&mut self.wire, input, result);
                if has_space_for_inputs(&self.wire, input.call) {
                    self.resend_if_complete(input.call);
                } else {
                    self.fail_inputs(input.call, INPUTS_TOO_LARGE.to_owned());
                }
            }
            Err(why) => self.fail_inputs(input.call, why),
        }
    }

    /// Sends the call again once every input is there.
    fn resend_if_complete(&mut self, call: u64) {
        let Some(Bridge { state, .. }) = self.wire.bridge_mut(call) else { return };
        let Some(changes) = state.resend() else { return };
        let request = state.request().line().clone();
        if let Some(call) = self.wire.take_call(call) {
            self.resend(call, request, &changes);
        }
    }

    /// The call cannot be sent again; `why` continues the name of the server.
    fn fail_inputs(&mut self, call: u64, why: String) {
        self.withdraw_inputs(call);
        if let Some(call) = self.wire.take_call(call) {
            self.fail_with(call, Failure::InputUnavailable { why }, true);
        }
    }
}

/// Whether the inputs of this call, and those of all calls, are within the limits.
fn has_space_for_inputs(wire: &Wire, id: u64) -> bool {
    let bytes = |(_, bridge): (u64, &Bridge)| bridge.state.input_response_bytes();
    let of_call: usize = wire.bridges().filter(|(other, _)| *other == id).map(bytes).sum();
    let of_all: usize = wire.bridges().map(bytes).sum();
    of_call <= wire.buffer_unit() && of_all <= MAX_RETAINED_MEMORY * wire.buffer_unit()
}

/// The agent has answered an input of a call.
fn set_input_response(wire: &mut Wire, input: CallInput, result: Bytes) {
    if let Some(bridge) = wire.bridge_mut(input.call) {
        bridge.state.set_input_response(input.index, result);
    }
}
