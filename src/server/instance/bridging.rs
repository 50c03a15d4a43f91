//! How a call from the other era begins: which request the server gets for it, or why it gets none.

use crate::bridge::{self, BridgedCall, BridgedRequest, ModernAgent};
use crate::client_capabilities::ClientCapabilities;
use crate::config::ServerConfig;
use crate::era;
use crate::era::input::RetryResponses;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::Change;
use crate::server::messages::call::{Call, Origin, RequestKind};

/// What the instance does next.
#[expect(clippy::large_enum_variant, reason = "it is moved once, to its only caller")]
pub(super) enum Beginning {
    Send(Call, BridgedCall, Vec<Change>),
    /// The call is the retry of a suspended call.
    Resume(Box<Retry>),
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
pub(super) fn begin(call: Call, config: &ServerConfig) -> Beginning {
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
