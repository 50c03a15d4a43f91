//! The state of one bridged call.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::to_legacy::{CallToLegacy, InputRequiredAnswer, ModernAgent, ServerRequest, Suspension};
use super::to_modern::{CallToModern, InputResponses};
use super::{BridgeError, BridgedRequest, Step};
use crate::client_capabilities::ClientCapabilities;
use crate::era::request_meta::LegacyClientMeta;
use crate::era::{request_meta, response};
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::splice::Change;

/// A call whose agent and server speak different eras.
#[derive(Debug)]
pub(crate) struct BridgedCall {
    request: BridgedRequest,
    state: CallState,
}

#[derive(Debug)]
enum CallState {
    /// A response of the modern server is awaited.
    PendingAtModernServer(CallToModern),
    /// The legacy agent has to answer the input requests of the modern server.
    AwaitingInputResponses { call: CallToModern, responses: InputResponses },
    /// A response of the legacy server is awaited, and its requests are collected.
    PendingAtLegacyServer(CallToLegacy),
    /// The modern agent was answered `input_required` and has to retry the call.
    Suspended { call: CallToLegacy, suspension: Suspension },
}

/// Constructors. Each returns the changes that the other era needs.
impl BridgedCall {
    /// A call of a legacy agent.
    pub(crate) fn for_modern_server(
        request: BridgedRequest,
        client_meta: &Arc<LegacyClientMeta>,
    ) -> Result<(Self, Vec<Change>), NotAnObject> {
        let call = CallToModern { client_meta: Arc::clone(client_meta), input_rounds: 0 };
        let changes = call.changes(request.params())?;
        Ok((Self { request, state: CallState::PendingAtModernServer(call) }, changes))
    }

    /// A call of a modern agent.
    pub(crate) fn for_legacy_server(
        request: BridgedRequest,
        agent: ModernAgent,
    ) -> Result<(Self, Vec<Change>), NotAnObject> {
        let changes = request_meta::params_to_legacy(request.params())?;
        Ok((Self { request, state: CallState::PendingAtLegacyServer(CallToLegacy::new(agent)) }, changes))
    }
}

/// Properties.
impl BridgedCall {
    pub(crate) fn request(&self) -> &BridgedRequest {
        &self.request
    }

    /// Whether no request for this call is pending at the server.
    pub(crate) fn has_no_pending_request(&self) -> bool {
        match &self.state {
            CallState::AwaitingInputResponses { .. } => true,
            CallState::Suspended { suspension, .. } => suspension.response.is_some(),
            CallState::PendingAtModernServer(_) | CallState::PendingAtLegacyServer(_) => false,
        }
    }

    /// The response has arrived and waits for the retry of the agent.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(&self.state, CallState::Suspended { suspension, .. } if suspension.response.is_some())
    }

    /// The agent was answered `input_required` and has not retried the call.
    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self.state, CallState::Suspended { .. })
    }

    /// An earlier request for it was sent, so it may have had effects.
    pub(crate) fn was_sent_before(&self) -> bool {
        matches!(&self.state, CallState::PendingAtModernServer(call) | CallState::AwaitingInputResponses { call, .. } if call.input_rounds > 0)
    }

    /// Another instance can send it instead.
    pub(crate) fn fits_any_instance(&self) -> bool {
        match &self.state {
            CallState::PendingAtModernServer(call) => call.input_rounds == 0,
            CallState::PendingAtLegacyServer(_) => true,
            _ => false,
        }
    }

    /// Memory in bytes while it waits for input responses.
    pub(crate) fn input_response_bytes(&self) -> usize {
        match &self.state {
            CallState::AwaitingInputResponses { responses, .. } => self.request.bytes() + responses.bytes(),
            _ => 0,
        }
    }

    /// Memory in bytes of the collected requests and, if the call is suspended, of the call and its cached response.
    pub(crate) fn retained_bytes(&self) -> usize {
        match &self.state {
            CallState::PendingAtLegacyServer(call) => call.bytes(),
            CallState::Suspended { call, suspension } => {
                self.request.bytes() + call.bytes() + suspension.response.as_ref().map_or(0, Bytes::len)
            }
            _ => 0,
        }
    }
}

/// Time.
impl BridgedCall {
    /// The next time at which the collected requests are due (`is_input_required_due`), or the agent's connection has to be checked
    /// (`check_agent_connection`).
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        match &self.state {
            CallState::PendingAtLegacyServer(call) => call.input_required_at(),
            CallState::Suspended { call, suspension } => call.input_required_at().or(Some(suspension.check_at)),
            _ => None,
        }
    }

    /// Whether the collected requests of the server have to be presented to the agent by `now`.
    pub(crate) fn is_input_required_due(&self, now: Instant) -> bool {
        match &self.state {
            CallState::PendingAtLegacyServer(call) | CallState::Suspended { call, .. } => {
                call.input_required_at().is_some_and(|at| at <= now)
            }
            _ => false,
        }
    }

    /// Checks the connection of the agent of a suspended call. `true` if the agent is gone for good.
    pub(crate) fn check_agent_connection(&mut self, is_gone: bool, now: Instant) -> bool {
        match &mut self.state {
            CallState::Suspended { suspension, .. } => suspension.check_connection(is_gone, now),
            _ => false,
        }
    }
}

/// Responses of the server.
impl BridgedCall {
    /// The server has answered.
    pub(crate) fn on_response(&mut self, outcome: Result<&Bytes, &Bytes>) -> Step {
        let Self { request, state } = self;
        match state {
            CallState::PendingAtModernServer(call) => match outcome {
                Ok(raw) => match call.on_result(raw) {
                    Ok(step) => step,
                    Err(required) => {
                        call.input_rounds += 1;
                        let (call, responses) = (call.clone(), InputResponses::new(&required));
                        self.state = CallState::AwaitingInputResponses { call, responses };
                        Step::RequestInputs(required.inputs)
                    }
                },
                Err(raw) => {
                    Step::ForwardResponse(response::error_to_legacy(request.method(), raw).into_iter().collect())
                }
            },
            CallState::PendingAtLegacyServer(call) => call.on_response(request, outcome),
            // The server has no pending request in these states, or its response was cached.
            CallState::AwaitingInputResponses { .. } | CallState::Suspended { .. } => {
                Step::Fail(BridgeError::Malformed)
            }
        }
    }
}

/// Input responses for a modern server.
impl BridgedCall {
    /// The agent has answered one of the input requests.
    pub(crate) fn set_input_response(&mut self, index: usize, result: Bytes) {
        if let CallState::AwaitingInputResponses { responses, .. } = &mut self.state {
            responses.set(index, result);
        }
    }

    /// The changes to send the call again, once every input response has arrived.
    pub(crate) fn resend(&mut self) -> Option<Vec<Change>> {
        let CallState::AwaitingInputResponses { call, responses } = &self.state else { return None };
        let mut changes = call.changes(self.request.params()).ok().filter(|_| responses.are_complete())?;
        changes.push(responses.change(self.request.params()));
        self.state = CallState::PendingAtModernServer(call.clone());
        Some(changes)
    }
}

/// Calls of a modern agent.
impl BridgedCall {
    /// The server has sent a request for the call. `None` if the agent is not modern, `false` if there are too many requests.
    pub(crate) fn on_server_request(
        &mut self,
        request: &ServerRequest<'_>,
        max_bytes: usize,
        now: Instant,
    ) -> Option<bool> {
        match &mut self.state {
            CallState::PendingAtLegacyServer(call) | CallState::Suspended { call, .. } => {
                Some(call.on_server_request(request, max_bytes, now))
            }
            _ => None,
        }
    }

    /// Answers the waiting agent `input_required` with the collected requests and this `requestState`, and suspends the call. If
    /// `request_state` is `None`, no agent waits, and only the requests that the agent cannot answer are returned, to be refused.
    pub(crate) fn answer_input_required(&mut self, request_state: Option<String>, now: Instant) -> InputRequiredAnswer {
        match &mut self.state {
            CallState::PendingAtLegacyServer(call) => {
                let (answer, suspension) = call.answer_input_required(request_state, now);
                if let Some(suspension) = suspension {
                    self.state = CallState::Suspended { call: std::mem::take(call), suspension };
                }
                answer
            }
            CallState::Suspended { call, .. } => call.answer_input_required(None, now).0,
            _ => InputRequiredAnswer::default(),
        }
    }

    /// The server has cancelled its request with this id.
    pub(crate) fn withdraw(&mut self, id: &Bytes) {
        if let CallState::PendingAtLegacyServer(call) | CallState::Suspended { call, .. } = &mut self.state {
            call.withdraw(id);
        }
    }

    /// Removes the requests of the server for the call, which nobody will answer. Returns their ids.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Bytes> {
        match &mut self.state {
            CallState::PendingAtLegacyServer(call) | CallState::Suspended { call, .. } => call.take_unanswered(),
            _ => Vec::new(),
        }
    }

    /// Caches the response to a suspended call until its agent retries.
    pub(crate) fn cache_response(&mut self, line: &Bytes) {
        if let CallState::Suspended { suspension, .. } = &mut self.state {
            suspension.response = Some(Bytes::copy_from_slice(line));
        }
    }

    /// Whether it is suspended with this `requestState`, for this profile.
    pub(crate) fn is_suspended_as(&self, state: &[u8], profile: &str) -> bool {
        match &self.state {
            CallState::Suspended { call, suspension } => *call.agent.profile == *profile && suspension.is_for(state),
            _ => false,
        }
    }

    /// Whether `request` is a retry of it.
    pub(crate) fn is_retried_by(&self, request: &BridgedRequest) -> bool {
        self.request.method() == request.method() && request_meta::is_retry(self.request.params(), request.params())
    }

    /// The agent retries a suspended call, and declares these capabilities.
    pub(crate) fn resume(&mut self, capabilities: ClientCapabilities, responses: &[(Bytes, Bytes)]) -> Resumption {
        let CallState::Suspended { call, suspension } = &mut self.state else { return Resumption::default() };
        let answered = call.resume(capabilities, responses);
        let resumed = Resumption { answered, response: suspension.response.take() };
        self.state = CallState::PendingAtLegacyServer(std::mem::take(call));
        resumed
    }
}

/// What the retry of a suspended call makes available.
#[derive(Debug, Default)]
pub(crate) struct Resumption {
    /// The server's ids of its requests that are answered, with the response lines for it.
    pub(crate) answered: Vec<(Bytes, Bytes)>,
    /// The response to the call, if it has arrived.
    pub(crate) response: Option<Bytes>,
}
