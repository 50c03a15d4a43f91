//! Drives calls between the eras: carries out the steps of [`crate::bridge`], and suspends and resumes calls.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::pending_call::{PendingBridgedCall, PendingCall};
use super::pending_request::ServerResponse;
use super::suspended_calls::{SuspendedCalls, tag_of_retry};
use super::{Effects, Instance};
use crate::bridge::{self, BridgeError, BridgedCall, BridgedRequest, ModernAgent, Step};
use crate::client_capabilities::ClientCapabilities;
use crate::config::ServerConfig;
use crate::era::input::RetryResponses;
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, splice};
use crate::jsonrpc::{Message, parse};
use crate::server::messages::call::{Call, Failure, Origin, RequestKind};

impl Instance {
    /// Whether a call continues one that this instance has suspended.
    pub(in crate::server) fn is_resumed_by(&self, call: &Call) -> bool {
        self.wire.era() == Era::Legacy && tag_of_retry(call) == Some(self.suspended.tag())
    }

    /// Begins a call of the other era.
    pub(super) fn bridge(&mut self, call: Call) -> Effects {
        match begin(call, &self.config) {
            Beginning::Send(call, state, changes) => self.send_bridged(call, state, &changes),
            Beginning::Resume(retry) => return self.resume(*retry),
            Beginning::Refused => {}
        }
        Effects::none()
    }

    fn send_bridged(&mut self, call: Call, state: BridgedCall, changes: &[Change]) {
        let Some(call) = self.check_limits(call) else { return };
        // Before the call, so that the level applies to the call.
        if let Origin::Modern { level: Some(level), .. } = &call.origin {
            self.logging.call_started(&mut self.wire, *level);
        }
        let (call, line) = PendingCall::new(call, changes);
        self.wire.expire_by(call.deadline.at());
        self.calls.count_started();
        self.queue_bridged(PendingBridgedCall::new(call, state), |_, id| line(id))
    }

    /// Queues a request of a bridged call, or fails the call if the request is too large.
    fn queue_bridged(
        &mut self,
        bridged: Box<PendingBridgedCall>,
        line: impl FnOnce(&PendingBridgedCall, u64) -> Bytes,
    ) {
        if let Err((bridged, size)) = self.wire.send_bridged(bridged, line) {
            self.fail_bridged_with(bridged, self.request_too_large(size), false);
        }
    }

    /// The server has answered a bridged call.
    pub(super) fn answer_bridged(
        &mut self,
        mut bridged: Box<PendingBridgedCall>,
        response: ServerResponse<'_>,
    ) -> Effects {
        self.refuse_requests_for(&mut bridged);
        if bridged.state.is_suspended() {
            if let Err(bridged) = SuspendedCalls::store_response(&mut self.wire, bridged, response.line) {
                let what = "too many calls wait for the retries of their agents";
                self.fail_bridged_with(bridged, Failure::Overloaded { what }, true);
            }
            return Effects::none();
        }
        let step = bridged.state.on_response(response.result);
        self.carry_out(bridged, response, step)
    }

    fn carry_out(&mut self, bridged: Box<PendingBridgedCall>, response: ServerResponse<'_>, step: Step) -> Effects {
        match step {
            Step::ForwardResponse(changes) => self.end_changed(bridged.call, response, &changes),
            Step::RequireUrls(result) => {
                let answer = reply::result(bridged.call.response_handle.id(), &result);
                self.complete_call(bridged.call, answer, response)
            }
            Step::MissingCapability(capability) => {
                let error = era::error::missing_capability(capability.declared_by(), &self.config.name);
                let error = Bytes::from(json!(error).to_string());
                let answer = reply::raw_error(bridged.call.response_handle.id(), &error);
                self.complete_call(bridged.call, answer, ServerResponse { result: Err(&error), ..response })
            }
            Step::RequestInputs(inputs) => {
                self.collect_inputs(bridged, &inputs);
                Effects::none()
            }
            Step::Fail(error) => {
                let failure = match error {
                    BridgeError::Malformed => Failure::MalformedResponse,
                    BridgeError::UnknownResult(what) => Failure::UnknownResultType { what },
                    BridgeError::Input(why) => Failure::InputUnavailable { why },
                };
                self.fail_bridged_with(bridged, failure, true);
                Effects::none()
            }
        }
    }

    /// Ends a call with the server's line, with these changes.
    fn end_changed(&mut self, call: PendingCall, response: ServerResponse<'_>, changes: &[Change]) -> Effects {
        let agent_id = call.response_handle.id().clone();
        let id = Edit { part: response.id, replacement: &agent_id };
        let mut edits: Vec<_> = std::iter::once(id).chain(changes.iter().map(Change::edit)).collect();
        let answer = splice(response.line, &mut edits);
        self.complete_call(call, answer, response)
    }

    /// Sends a call again that the server has ended.
    pub(super) fn resend(&mut self, mut bridged: Box<PendingBridgedCall>, changes: &[Change]) {
        if bridged.call.is_hidden(&self.config.name) {
            return self.end_hidden(bridged.call);
        }
        bridged.call.deadline.extend(Instant::now());
        self.queue_bridged(bridged, |bridged, id| bridged.line(id, changes));
    }

    /// The agent of a suspended call retries it: the server gets the inputs, and the agent waits for the call as before.
    fn resume(&mut self, Retry { call, request, agent, given }: Retry) -> Effects {
        let resumed = match SuspendedCalls::resume(&mut self.wire, call, &request, agent, &given) {
            Ok(resumed) => resumed,
            Err(call) => {
                SuspendedCalls::refuse_unknown(call, &self.config.name);
                return Effects::none();
            }
        };
        let effects = match resumed.response {
            Some(line) => self.end_cached(resumed.id, &line),
            None => {
                self.suspended.answer_input_required(&mut self.wire, resumed.id, Instant::now());
                Effects::none()
            }
        };
        self.send_answers(resumed.answered);
        effects
    }

    /// Ends a resumed call with the response that was cached for it.
    fn end_cached(&mut self, id: u64, line: &Bytes) -> Effects {
        match (self.wire.take_bridged(id), parse(line)) {
            (Some(bridged), Ok(Message::Response { id, response })) => {
                self.answer_bridged(bridged, ServerResponse { id: &id, line, result: response.as_ref() })
            }
            _ => Effects::none(),
        }
    }
}

/// Failures of bridged calls.
impl Instance {
    /// Fails a bridged call as [`Self::fail_call`] does.
    pub(super) fn fail_bridged(&mut self, bridged: Box<PendingBridgedCall>, failure: Failure) -> bool {
        let may_have_arrived = !self.wire.retract(bridged.call.line);
        self.fail_bridged_with(bridged, failure, may_have_arrived);
        may_have_arrived
    }

    /// Fails a bridged call. `may_have_arrived` is whether the server may have read the latest request.
    pub(super) fn fail_bridged_with(
        &mut self,
        bridged: Box<PendingBridgedCall>,
        failure: Failure,
        may_have_arrived: bool,
    ) {
        let may_have_arrived = may_have_arrived || bridged.state.was_sent_before();
        self.fail_with(bridged.call, failure, may_have_arrived);
    }

    pub(super) fn expire_bridged(&mut self, id: u64, mut bridged: Box<PendingBridgedCall>) {
        self.withdraw_requests_for(id, &mut bridged);
        let call = &bridged.call;
        let (session, after, is_away) =
            (call.response_handle.key.session, call.deadline.current_limit(), call.response_handle.to().is_none());
        if bridged.state.has_no_pending_request() {
            // It waits for its agent, which says nothing about the server.
            self.fail_bridged_with(bridged, Failure::TimedOut { after }, true);
        } else {
            self.health.call_timed_out(call.deadline.begun());
            let abandoned = bridged.call.abandoned(id);
            if self.fail_bridged(bridged, Failure::TimedOut { after }) {
                let why = if is_away { "its agent has not come back" } else { "the call timed out" };
                self.abandon(abandoned, reply::cancelled(id, why));
            }
        }
        self.end_timed_out_requests(session);
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
