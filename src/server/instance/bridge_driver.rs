//! Drives calls between the eras: carries out the steps of [`crate::bridge`], and suspends and resumes calls.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::pending_call::PendingCall;
use super::pending_request::ServerResponse;
use super::suspended_calls::{self, tag_of_retry};
use super::{Effects, Instance};
use crate::bridge::{self, BridgeError, BridgedCall, BridgedRequest, ModernAgent, Step};
use crate::client_capabilities::ClientCapabilities;
use crate::config::ServerConfig;
use crate::era::input::RetryResponses;
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::jsonrpc::{Message, parse};
use crate::server::messages::call::{Call, Failure, Origin, RequestKind};

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
                    BridgeError::Input(why) => Failure::InputUnavailable { why },
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
