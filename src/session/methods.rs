//! Method by method: everything an agent can ask, on one page.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `basic/utilities`, `server/tools`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::agent_message::{AgentMessage, Notification, Request, Routed};
use super::in_flight::InFlight;
use super::said_meta::Said;
use super::{Delayed, Introduction, Session};
use crate::calls::{Caller, Outcome};
use crate::era::speaker::Speaker;
use crate::era::{self, Era};
use crate::jsonrpc::Malformed;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
};
use crate::kind::Kind;
use crate::peer;
use crate::printable::{excerpt, one_line};
use crate::server::client_capabilities::ClientCapabilities;
use crate::server::messages::cancellation::Cancellation;

/// Most characters of what an agent calls itself.
pub(super) const LONGEST_CLIENT: usize = 100;

/// The methods that neither lead to one server nor list what all have.
const SET_LEVEL: &[u8] = b"logging/setLevel";
const LIST_TASKS: &[u8] = b"tasks/list";

const NOT_INTRODUCED: &str = "send `initialize` first, or state in `_meta` of each request what MCP 2026-07-28 wants there: \
    `io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities`";

impl Session {
    /// Takes what the agent sent: a message, or a batch that it may not send.
    pub(super) fn take_one(&mut self, message: AgentMessage) {
        match message {
            AgentMessage::Request(request) => self.request(request),
            AgentMessage::Notification(notification) => self.notification(notification),
            AgentMessage::Response { line, id, result } => self.answered(&line, &id, result.as_ref()),
            AgentMessage::Malformed(Malformed::BadResponse { id }) => {
                self.answered_badly(&id, INTERNAL_ERROR, "the answer of the agent is no valid response");
            }
            AgentMessage::TooLarge { id: Some(id), is_response: true } => {
                self.answered_badly(
                    &id,
                    ErrorCode::TooLarge.number(),
                    "the answer of the agent is over the message cap",
                );
            }
            AgentMessage::Malformed(Malformed::NotJson) => self.refuse(None, PARSE_ERROR, "not JSON"),
            AgentMessage::Malformed(Malformed::Batch) | AgentMessage::Batch(_) => self.refuse_batch(),
            AgentMessage::Malformed(Malformed::NotAMessage { id }) => {
                self.refuse(id.as_ref(), INVALID_REQUEST, "not a JSON-RPC 2.0 message");
            }
            AgentMessage::TooLarge { id, .. } => {
                let message = format!("the message is over the cap of {} bytes", self.setup.max_message);
                self.fail(id.as_ref(), ErrorObject::of_mcpd(ErrorCode::TooLarge, message, Delivery::NotSent));
            }
        }
    }

    fn notification(&mut self, Notification { line, method, subject }: Notification) {
        match &method[..] {
            b"notifications/initialized" => {
                self.initialized = self.setup.facts.introduction.get().is_some();
                if self.initialized {
                    self.tell_early_questions();
                }
                self.tell_of_changes();
            }
            b"notifications/cancelled" => self.cancelled(line, subject),
            b"notifications/progress" => self.progressed(&line, subject),
            b"notifications/tasks/status" => self.status_told(&line, subject.as_ref()),
            b"notifications/roots/list_changed" => self.delayed = Some(Delayed::RootsChanged(line)),
            _ => {}
        }
    }

    fn request(&mut self, Request { id, method, params, routed, stated }: Request) {
        if self.is_unanswered(&id) {
            return self.refuse(Some(&id), INVALID_REQUEST, "a request with this id is unanswered");
        }
        if let Some(refusal) = &self.refusal {
            return self.fail(Some(&id), refusal.clone());
        }
        match stated {
            Ok(Some(stated)) => self.stateless_request(id, &method, params.as_ref(), (stated, routed)),
            Ok(None) => self.legacy_request(id, &method, params.as_ref(), routed),
            Err(error) => self.fail(Some(&id), error.to_object()),
        }
    }

    fn legacy_request(&mut self, id: Bytes, method: &Bytes, params: Option<&Bytes>, routed: Routed) {
        let protocol = self.setup.facts.introduction.get().map(|introduction| introduction.protocol);
        let introduced = protocol.is_some();
        match &method[..] {
            _ if protocol.is_some_and(|protocol| !era::has(protocol, method)) => {
                self.unknown_method(&id, method);
            }
            b"initialize" if introduced => self.refuse(Some(&id), INVALID_REQUEST, "already initialized"),
            b"initialize" => self.initialize(&id, params),
            b"ping" => self.answer(&id, b"{}"),
            _ => match (routed, Kind::listed_by(method)) {
                _ if !introduced => self.refuse(Some(&id), INVALID_PARAMS, NOT_INTRODUCED),
                (None, None) if ![SET_LEVEL, LIST_TASKS].contains(&&method[..]) => self.unknown_method(&id, method),
                (Some(Ok(asked)), _) => self.ask(asked),
                (Some(Err(error)), _) => self.fail(Some(&id), error.to_object()),
                (None, Some(kind)) => self.list(kind, id, params, Era::Legacy),
                (None, None) if method[..] == *LIST_TASKS => self.list_tasks(&id, params),
                (None, None) => self.set_level(&id, params),
            },
        }
    }

    /// What its version lacks, an agent asks in vain as what no version has.
    pub(super) fn unknown_method(&mut self, id: &Bytes, method: &Bytes) {
        self.refuse(
            Some(id),
            METHOD_NOT_FOUND,
            format!("unknown method: {}", one_line(&String::from_utf8_lossy(method))),
        );
    }

    fn initialize(&mut self, id: &Bytes, params: Option<&Bytes>) {
        let asked =
            params.and_then(|params| members(params, ["protocolVersion", "clientInfo", "_meta", "capabilities"]).ok());
        let Some([Some(version), client, meta, capabilities]) = asked else {
            return self.refuse(Some(id), INVALID_PARAMS, "`protocolVersion` is missing");
        };
        let Some(version) = text(&version) else {
            return self.refuse(Some(id), INVALID_PARAMS, "`protocolVersion` is not a string");
        };
        // Both are required (MCP, `schema`, "InitializeRequest").
        if !capabilities.as_ref().is_some_and(|raw| raw.starts_with(b"{")) {
            return self.refuse(Some(id), INVALID_PARAMS, "`capabilities` is missing or not an object");
        }
        if !client.as_ref().is_some_and(is_implementation) {
            return self.refuse(Some(id), INVALID_PARAMS, "`clientInfo` needs a `name` and a `version`, both strings");
        }
        let protocol = era::negotiate(&String::from_utf8_lossy(&version));
        self.abilities = Arc::new(ClientCapabilities::read(protocol, capabilities.as_ref()));
        self.speaker = Arc::new(Speaker {
            capabilities: self.abilities.raw(),
            client: client.as_deref().map(Bytes::copy_from_slice),
            level: self.level,
        });
        let client = client.and_then(|info| peer::software(&info, LONGEST_CLIENT));
        self.caller = Arc::new(Caller { client: client.clone(), ..Caller::clone(&self.caller) });
        let introduction = Introduction { client, protocol };
        // The only task that sets it, and only once.
        let _ = self.setup.facts.introduction.set(introduction);
        self.heed(meta.as_ref().map(Said::read).unwrap_or_default());
        self.attach();
        let mut result = json!({
            "protocolVersion": protocol,
            "capabilities": era::capabilities(protocol),
            "serverInfo": { "name": "mcpd", "version": env!("CARGO_PKG_VERSION") },
        });
        if let Some(instructions) = self.setup.view.borrow().instructions() {
            result["instructions"] = instructions.into();
        }
        self.answer(id, result.to_string().as_bytes());
    }

    fn heed(&mut self, said: Said) {
        let Said { cwd, connect, ids_from } = said;
        self.setup.cwd = cwd.or(self.setup.cwd.take());
        self.questions.begin_at(ids_from);
        let (own, session) = (env!("CARGO_PKG_VERSION"), self.setup.number);
        if let Some(connect) = connect.filter(|connect| connect != own) {
            let connect = excerpt(&connect, LONGEST_CLIENT);
            tracing::warn!(session, "an agent comes through `mcpd connect` {connect}; this is mcpd {own}");
        }
    }

    fn cancelled(&mut self, line: Bytes, id: Option<Bytes>) {
        let Some(id) = id else { return };
        self.drop_deferred(|waiting| *waiting.id() == id);
        self.cancel_page(&id);
        self.end_listening(&id);
        if let Some(InFlight { key, server, account, .. }) = self.calls.remove(&id) {
            self.tell(account, &server, Outcome::Cancelled, 0);
            self.subscriptions.end(key, false);
            self.tasks.end_ask(key);
            self.delayed = Some(Delayed::Cancel(server, key, Cancellation { line, request: id.clone() }));
        }
        self.forget(&id);
    }

    pub(super) fn answer(&mut self, id: &Bytes, result: &[u8]) {
        self.respond(None, [reply::result(id, result)]);
    }

    pub(super) fn refuse(&mut self, id: Option<&Bytes>, code: i32, message: impl Into<String>) {
        self.fail(id, ErrorObject::new(code, message));
    }

    pub(super) fn fail(&mut self, id: Option<&Bytes>, error: ErrorObject) {
        self.respond(None, [reply::error(id.map(|id| &id[..]), &error)]);
    }
}

/// Whether this raw `clientInfo` names a client (MCP, `schema`, "Implementation").
fn is_implementation(info: &Bytes) -> bool {
    let parts = members(info, ["name", "version"]);
    parts.is_ok_and(|parts| parts.into_iter().all(|raw| raw.is_some_and(|raw| text(&raw).is_some())))
}
