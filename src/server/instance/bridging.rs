//! How a call from the other era begins: which request the server gets for it, or why it gets none.

use bytes::Bytes;

use super::tasks::TaskTable;
use super::wire::Wire;
use crate::bridge::{self, BridgedCall, BridgedRequest, EMPTY_MODERN_RESULT, ModernAgent};
use crate::client_capabilities::ClientCapabilities;
use crate::config::ServerConfig;
use crate::era;
use crate::era::input::{self, RetryResponses};
use crate::era::request_meta::Meta;
use crate::era::task::missing_task_support;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::Change;
use crate::server::messages::call::{Call, Origin, RequestKind};
use crate::server::messages::tasks::unknown_task;

/// What the instance does next.
#[expect(clippy::large_enum_variant, reason = "it is moved once, to its only caller")]
pub(super) enum Beginning {
    Send(Call, BridgedCall, Vec<Change>),
    /// The call is the retry of a suspended call.
    Resume(Box<Retry>),
    /// The call is answered. The server gets these responses to its requests, each with the id of the request.
    Respond(Vec<(Bytes, Bytes)>),
    /// The server has too many tasks for one more.
    TooManyTasks(Call),
    /// The call was answered with an error.
    Refused,
}

/// The retry of a suspended call.
pub(super) struct Retry {
    pub(super) call: Call,
    pub(super) request: BridgedRequest,
    pub(super) agent: ModernAgent,
    pub(super) given: RetryResponses,
}

/// Begins a call of the other era.
pub(super) fn begin(call: Call, tasks: &mut TaskTable, wire: &Wire, config: &ServerConfig) -> Beginning {
    let request = match BridgedRequest::new(&call.request) {
        Ok(request) => request,
        Err(NotAnObject) => return refuse_malformed(call),
    };
    match call.origin.clone() {
        Origin::Legacy(client_meta) => {
            let begun = match &call.kind {
                RequestKind::LegacyTask(task_request) => {
                    BridgedCall::for_task_at_modern_server(request, &client_meta, task_request.operation)
                }
                kind => {
                    let task = tasks.use_for(kind, &request);
                    BridgedCall::for_modern_server(request, &client_meta, task)
                }
            };
            match begun {
                Ok((state, changes)) => Beginning::Send(call, state, changes),
                Err(NotAnObject) => refuse_malformed(call),
            }
        }
        Origin::Modern { profile, .. } => {
            let Ok([meta]) = members(request.params(), ["_meta"]) else { return refuse_malformed(call) };
            let declared = meta.and_then(|meta| members(&meta, [era::meta::CAPABILITIES]).ok()).and_then(|[raw]| raw);
            let capabilities = ClientCapabilities::read(era::MODERN, declared.as_ref());
            begin_to_legacy(call, request, ModernAgent { profile, capabilities }, tasks, wire, config)
        }
    }
}

fn begin_to_legacy(
    call: Call,
    request: BridgedRequest,
    agent: ModernAgent,
    tasks: &mut TaskTable,
    wire: &Wire,
    config: &ServerConfig,
) -> Beginning {
    if let Some(error) = bridge::unopened_urls(&request, &config.name) {
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
    let name = request.server_name().unwrap_or_default();
    let requires_task = request.method() == b"tools/call" && tasks.requires_task(&name);
    let is_about_task = matches!(request.method(), b"tasks/get" | b"tasks/update" | b"tasks/cancel");
    if requires_task {
        let meta = Meta::of(Some(request.params()));
        if !meta.is_ok_and(|meta| meta.modern.is_some_and(|modern| modern.supports_tasks)) {
            return refuse(call, &missing_task_support());
        }
        if !tasks.have_capacity_for_profiles(wire.creating_calls()) {
            return Beginning::TooManyTasks(call);
        }
    }
    if is_about_task {
        if !tasks.declare_for(&agent.profile, &name, agent.capabilities.clone().bare()) {
            return refuse(call, &unknown_task(&request.exposed_name().unwrap_or_default()));
        }
        match request.method() {
            b"tasks/update" => return update_task(call, &name, request.params(), tasks),
            b"tasks/cancel" if !tasks.support().cancels => {
                return refuse(call, &tasks.cancellation_refusal(&config.name));
            }
            _ => {}
        }
    }
    let Ok((mut state, mut changes)) = BridgedCall::for_legacy_server(request, agent) else {
        return refuse_malformed(call);
    };
    if requires_task {
        changes = state.create_task().unwrap_or(changes);
    } else if is_about_task {
        state.set_task_at_legacy_server(name);
    }
    Beginning::Send(call, state, changes)
}

/// The agent of a legacy server's task answers requests of the server. Answers to anything else are ignored.
fn update_task(call: Call, id: &Bytes, params: &Bytes, tasks: &mut TaskTable) -> Beginning {
    let responses = members(params, ["inputResponses"]).and_then(|[raw]| input::responses(raw.as_ref()));
    let Ok(responses) = responses else {
        return refuse(call, &ErrorObject::new(INVALID_PARAMS, "`inputResponses` is malformed"));
    };
    let answered = tasks.update(id, &responses);
    call.answer_done(EMPTY_MODERN_RESULT);
    Beginning::Respond(answered)
}

fn refuse(call: Call, error: &ErrorObject) -> Beginning {
    call.refuse_with(error);
    Beginning::Refused
}

fn refuse_malformed(call: Call) -> Beginning {
    refuse(call, &ErrorObject::new(INVALID_PARAMS, "`params` or its `_meta` is no object"))
}
