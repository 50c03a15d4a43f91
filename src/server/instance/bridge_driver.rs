//! Drives calls between the eras: carries out the steps of [`crate::bridge`], suspends and resumes calls, and requests the
//! inputs that a modern server requires of a legacy agent before it answers a call.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::forwarded_requests::{self, CallInput, FromAgent, InputAnswer, Recipient, RequestEnd};
use super::pending_request::{Bridge, PendingCall, ServerResponse};
use super::suspended_calls::{self, tag_of_retry};
use super::wire::Wire;
use super::{Effects, Instance};
use crate::bridge::{self, BridgeError, BridgedCall, BridgedRequest, MAX_RETAINED_MEMORY, ModernAgent, Step};
use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::config::ServerConfig;
use crate::era::input::{Input, RetryResponses};
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::jsonrpc::{Message, parse};
use crate::printable::one_line;
use crate::server::agent_scope::roots_result;
use crate::server::messages::call::{Call, Failure, MissingInput, Origin, RequestKind};

impl Instance {
    /// Whether a call continues one that this instance has suspended.
    pub(in crate::server) fn is_resumed_by(&self, call: &Call) -> bool {
        self.wire.era() == Era::Legacy && tag_of_retry(call) == Some(self.tag)
    }

    /// Begins a call of the other era.
    pub(super) fn bridge(&mut self, call: Call) -> Effects {
        match begin(call, &self.config) {
            Beginning::Send(call, state, changes) => self.send(call, Some(state), &changes),
            Beginning::Resume(retry) => return self.resume(*retry),
            Beginning::Refused => {}
        }
        Effects::none()
    }

    /// Carries out what follows from the response to a call.
    pub(super) fn carry_out(&mut self, call: PendingCall, response: ServerResponse<'_>, step: Step) -> Effects {
        match step {
            Step::ForwardResponse(changes) => return self.complete_changed(call, response, &changes),
            Step::RequireUrls(result) => {
                let answer = reply::result(call.response_handle.id(), &result);
                return self.complete_call(call, answer, response);
            }
            Step::MissingCapability(capability) => {
                let error = era::response::missing_capability(capability.declared_by(), &self.config.name);
                let error = Bytes::from(json!(error).to_string());
                let answer = reply::raw_error(call.response_handle.id(), &error);
                return self.complete_call(call, answer, ServerResponse { result: Err(&error), ..response });
            }
            Step::RequestInputs(inputs) => self.collect_inputs(call, &inputs),
            Step::Fail(error) => {
                let failure = match error {
                    BridgeError::Malformed => Failure::MalformedResponse,
                    BridgeError::UnknownResult(what) => Failure::UnknownResultType { what },
                    BridgeError::TooManyInputs(times) => {
                        Failure::InputUnavailable { why: MissingInput::TooOften(times) }
                    }
                };
                self.fail_with(call, failure, true);
            }
        }
        Effects::none()
    }

    /// Ends a call with the server's line, with these changes.
    fn complete_changed(&mut self, call: PendingCall, response: ServerResponse<'_>, changes: &[Change]) -> Effects {
        let agent_id = call.response_handle.id().clone();
        let id = Edit { part: response.id, replacement: &agent_id };
        let mut edits: Vec<_> = std::iter::once(id).chain(changes.iter().map(Change::edit)).collect();
        let answer = splice(response.line, &mut edits);
        self.complete_call(call, answer, response)
    }

    /// Sends the request of a call again, with these changes: the server has ended the call.
    pub(super) fn resend(&mut self, mut call: PendingCall, request: RequestLine, changes: &[Change]) {
        if call.is_hidden(&self.config.name) {
            return self.end_hidden(call);
        }
        call.deadline.extend(Instant::now());
        self.queue(call, |id| request.numbered(id, changes));
    }

    /// The agent of a suspended call retries it: the server gets the inputs, and the agent waits for the call as before.
    fn resume(&mut self, Retry { call, request, agent, given }: Retry) -> Effects {
        let resumed = match suspended_calls::resume(&mut self.wire, call, &request, agent, &given) {
            Ok(resumed) => resumed,
            Err(call) => {
                suspended_calls::refuse_unknown(call, &self.config.name);
                return Effects::none();
            }
        };
        let effects = match resumed.response {
            Some(line) => self.end_cached(resumed.id, &line),
            None => {
                suspended_calls::answer_input_required(&mut self.wire, self.tag, resumed.id, Instant::now());
                Effects::none()
            }
        };
        self.send_answers(resumed.answered);
        effects
    }

    /// Ends a resumed call with the response that was cached for it.
    fn end_cached(&mut self, id: u64, line: &Bytes) -> Effects {
        match (self.wire.take_call(id), parse(line)) {
            (Some(call), Ok(Message::Response { id, response })) => {
                self.answer_call(call, ServerResponse { id: &id, line, result: response.as_ref() })
            }
            _ => Effects::none(),
        }
    }
}

/// What the instance does next.
#[expect(clippy::large_enum_variant, reason = "it is moved once, to its only caller")]
enum Beginning {
    Send(Call, BridgedCall, Vec<Change>),
    /// The call is the retry of a suspended call.
    Resume(Box<Retry>),
    /// The call was answered with an error.
    Refused,
}

/// The retry of a suspended call.
struct Retry {
    call: Call,
    request: BridgedRequest,
    agent: ModernAgent,
    given: RetryResponses,
}

/// Begins a call of the other era.
fn begin(call: Call, config: &ServerConfig) -> Beginning {
    let request = match BridgedRequest::new(&call.request) {
        Ok(request) => request,
        Err(NotAnObject) => return refuse_malformed(call),
    };
    // Tasks do not cross eras.
    match &call.kind {
        RequestKind::NewTask => return refuse(call, &no_task(&config.name)),
        RequestKind::LegacyTask(_) | RequestKind::ModernTask(_) => {
            call.refuse_unknown_task();
            return Beginning::Refused;
        }
        RequestKind::Plain | RequestKind::MayBeTask | RequestKind::ResourceSubscription(_) => {}
    }
    match call.origin.clone() {
        Origin::Legacy(client_meta) => match BridgedCall::for_modern_server(request, &client_meta) {
            Ok((state, changes)) => Beginning::Send(call, state, changes),
            Err(NotAnObject) => refuse_malformed(call),
        },
        Origin::Modern { profile, .. } => {
            let Ok([meta]) = members(request.params(), ["_meta"]) else { return refuse_malformed(call) };
            let declared = meta.and_then(|meta| members(&meta, [era::meta::CAPABILITIES]).ok()).and_then(|[raw]| raw);
            let capabilities = ClientCapabilities::read(era::MODERN, declared.as_ref());
            begin_to_legacy(call, request, ModernAgent { profile, capabilities }, &config.name)
        }
    }
}

fn begin_to_legacy(call: Call, request: BridgedRequest, agent: ModernAgent, server: &str) -> Beginning {
    if let Some(error) = bridge::unopened_urls(&request, server) {
        return refuse(call, &error.with_delivery(Delivery::NotSent));
    }
    match bridge::read_retry(&request.line().line, request.params()) {
        Ok(None) => {}
        Ok(Some(given)) => return Beginning::Resume(Box::new(Retry { call, request, agent, given })),
        Err(NotAnObject) => {
            // As a new call, it would call the tool twice.
            let why = "`inputResponses` or `requestState` is malformed";
            return refuse(call, &ErrorObject::new(INVALID_PARAMS, why));
        }
    }
    match BridgedCall::for_legacy_server(request, agent) {
        Ok((state, changes)) => Beginning::Send(call, state, changes),
        Err(NotAnObject) => refuse_malformed(call),
    }
}

/// The error for a legacy call that requests a task of a modern server.
///
/// Source: MCP 2025-11-25, `basic/utilities/tasks`, "Tool-Level Negotiation".
fn no_task(server: &str) -> ErrorObject {
    let why = "runs no tool as a task of this version of MCP; call the tool without `task`";
    ErrorObject::new(METHOD_NOT_FOUND, format!("server `{server}` {why}"))
        .about_server(server)
        .with_delivery(Delivery::NotSent)
}

fn refuse(call: Call, error: &ErrorObject) -> Beginning {
    call.refuse_with(error);
    Beginning::Refused
}

fn refuse_malformed(call: Call) -> Beginning {
    refuse(call, &ErrorObject::new(INVALID_PARAMS, "`params` or its `_meta` is no object"))
}

impl Instance {
    /// Requests the inputs of the agent, or sends the call again at once if there are none.
    pub(super) fn collect_inputs(&mut self, mut call: PendingCall, inputs: &[Input]) {
        call.deadline.extend(Instant::now());
        let (session, to) = (call.response_handle.key.session, call.response_handle.to().cloned());
        let call = self.wire.register_without_request(call);
        if !has_space_for_inputs(&self.wire, call) {
            return self.fail_inputs(call, MissingInput::TooLarge);
        }
        for (index, input) in inputs.iter().enumerate() {
            let requested = match to.clone() {
                Some(to) => self.request_input(&Recipient { session, to }, CallInput { call, index }, input),
                None => Err(MissingInput::NobodyWaits),
            };
            if let Err(why) = requested {
                return self.fail_inputs(call, why);
            }
        }
        self.resend_if_complete(call);
    }

    /// Sends the agent a request for an input, unless the configuration has it.
    fn request_input(
        &mut self,
        recipient: &Recipient,
        call_input: CallInput,
        input: &Input,
    ) -> Result<(), MissingInput> {
        let parsed = forwarded_requests::read_input(input)?;
        if parsed.capability != ClientCapability::Roots || !self.has_configured_roots() {
            let sent = self.forwarded_requests.send_input(&mut self.wire, recipient, call_input, input, parsed);
            return sent.map_err(|error| MissingInput::NotSent(error.message));
        }
        set_input_response(&mut self.wire, call_input, roots_result(self.config.roots()).into());
        Ok(())
    }

    /// An agent has sent a response, or progress, for a request of the server.
    pub(in crate::server) fn handle_agent_message(&mut self, received: FromAgent) {
        if let Some(InputAnswer { input, response: Ok(line) }) =
            self.forwarded_requests.handle_agent_message(&mut self.wire, received)
        {
            self.receive_input(input, input_response(&line));
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
                self.receive_input(input, Err(MissingInput::Unanswered(why)));
            }
        }
    }

    fn receive_input(&mut self, input: CallInput, result: Result<Bytes, MissingInput>) {
        match result {
            Ok(result) => {
                set_input_response(&mut self.wire, input, result);
                if has_space_for_inputs(&self.wire, input.call) {
                    self.resend_if_complete(input.call);
                } else {
                    self.fail_inputs(input.call, MissingInput::TooLarge);
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

    /// The call cannot be sent again.
    fn fail_inputs(&mut self, call: u64, why: MissingInput) {
        self.withdraw_inputs(call);
        if let Some(call) = self.wire.take_call(call) {
            self.fail_with(call, Failure::InputUnavailable { why }, true);
        }
    }
}

/// The raw result in this response line of an agent.
fn input_response(line: &Bytes) -> Result<Bytes, MissingInput> {
    let line = line.slice(..line.len().saturating_sub(1));
    match members(&line, ["result", "error"]) {
        Ok([Some(result), None]) => Ok(result),
        Ok([_, Some(error)]) => {
            let message = members(&error, ["message"]).ok().and_then(|[raw]| text(&raw?));
            let message = message.map(|message| one_line(&String::from_utf8_lossy(&message)));
            Err(MissingInput::Refused(message.unwrap_or_default()))
        }
        _ => Err(MissingInput::NoResult),
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
