//! A request of a server on its way to an agent, and the agent's answer.
//!
//! Each request gets exactly one answer: a dropped [`ServerResponseHandle`] sends an error, so a session that ends answers everything.
//! The server may withdraw its request, or end.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::client_capabilities::ClientCapability;
use crate::era::request_meta;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};

/// Pending progress notifications of one request; more are dropped.
const PROGRESS_CAPACITY: usize = 8;

/// A `notifications/cancelled` that is passed on.
///
/// Source: MCP 2025-11-25, `basic/utilities/cancellation`.
#[derive(Debug, Clone)]
pub struct Cancellation {
    /// The whole notification, without its newline.
    pub line: Bytes,
    /// The sender's id of the request, raw: a slice of `line`.
    pub request: Bytes,
}

/// A parsed request of a server. The parts are slices of its params.
#[derive(Debug)]
pub(super) struct ParsedRequest {
    pub(super) capability: ClientCapability,
    pub(super) progress_token: Option<Bytes>,
    /// The id of a URL elicitation, as text.
    pub(super) elicitation: Option<Bytes>,
}

impl ParsedRequest {
    /// Parses a request; `None` for a method that agents do not have.
    pub(super) fn read(method: &[u8], params: Option<&Bytes>) -> Option<Result<Self, ErrorObject>> {
        let capability = match method {
            b"sampling/createMessage" => ClientCapability::Sampling,
            b"elicitation/create" => ClientCapability::Form,
            b"roots/list" => ClientCapability::Roots,
            _ => return None,
        };
        let none = Bytes::from_static(b"{}");
        let parsed = Self::of(capability, params.unwrap_or(&none));
        Some(parsed.map_err(|what| ErrorObject::new(INVALID_PARAMS, what)))
    }

    /// Reads a request of an extension.
    pub(super) fn of_extension(params: Option<&Bytes>) -> Result<Self, ErrorObject> {
        let meta = params.map(|params| members(params, ["_meta"])).transpose();
        let meta = meta.map_err(|_| "`params` is no object").map(|found| found.and_then(|[meta]| meta));
        let progress_token = meta.and_then(request_meta::read);
        let progress_token = progress_token.map_err(|what| ErrorObject::new(INVALID_PARAMS, what))?;
        Ok(Self { capability: ClientCapability::Extension, progress_token, elicitation: None })
    }

    fn of(capability: ClientCapability, params: &Bytes) -> Result<Self, &'static str> {
        let [meta, mode, elicitation] =
            members(params, ["_meta", "mode", "elicitationId"]).map_err(|_| "`params` is no object")?;
        let progress_token = request_meta::read(meta)?;
        let capability = match (capability, mode.as_ref().and_then(text).as_deref()) {
            (ClientCapability::Form, Some(b"url")) => ClientCapability::Url,
            (ClientCapability::Form, Some(b"form")) => ClientCapability::Form,
            (ClientCapability::Form, _) if mode.is_some() => return Err("`mode` is neither `form` nor `url`"),
            (other, _) => other,
        };
        let elicitation = elicitation.as_ref().and_then(text).filter(|_| capability == ClientCapability::Url);
        Ok(Self { capability, progress_token, elicitation })
    }
}

/// A request of a server for one agent. Its id and token are slices of its line.
#[derive(Debug)]
pub struct ForwardedRequest {
    /// The whole request, without its newline.
    pub line: Bytes,
    /// The server's raw id.
    pub id: Bytes,
    /// The server's raw progress token.
    pub progress_token: Option<Bytes>,
    /// The capability that the agent must have declared.
    pub capability: ClientCapability,
    /// Sends the answer to the server.
    pub response_handle: ServerResponseHandle,
    /// Ends when the server withdraws the request; without a value, when the server has ended.
    pub withdrawn: oneshot::Receiver<Withdrawal>,
}

impl ForwardedRequest {
    /// Whether the server has not withdrawn the request.
    pub fn is_pending(&mut self) -> bool {
        matches!(self.withdrawn.try_recv(), Err(TryRecvError::Empty))
    }
}

/// Why a request was withdrawn.
#[derive(Debug)]
pub enum Withdrawal {
    /// The server has cancelled it.
    Cancelled(Cancellation),
    /// mcpd has withdrawn it. The text is for a person.
    Reason(&'static str),
}

/// A whole line of the agent for the server.
#[derive(Debug)]
pub(super) enum FromAgentMessage {
    Progress(Bytes),
    Response(Bytes),
}

/// Sends the one answer to a server. Dropping it sends the error that the agent has gone.
#[derive(Debug)]
pub struct ServerResponseHandle {
    id: Bytes,
    server: Arc<str>,
    /// The permit for the answer, reserved in the channel; `None` once it was sent.
    answer: Option<mpsc::OwnedPermit<FromAgentMessage>>,
    progress: mpsc::Sender<FromAgentMessage>,
}

impl ServerResponseHandle {
    /// A responder for the request with the raw id `id` of `server`, and the receiver of the replies.
    pub(super) fn new(id: &Bytes, server: &Arc<str>) -> (Self, mpsc::Receiver<FromAgentMessage>) {
        let (progress, replies) = mpsc::channel(PROGRESS_CAPACITY + 1);
        // The channel is empty, so this does not fail.
        let answer = progress.clone().try_reserve_owned().ok();
        // Copied, so that a small id does not keep a large line in memory.
        let id = Bytes::copy_from_slice(id);
        (Self { id, server: Arc::clone(server), answer, progress }, replies)
    }

    /// The server's raw id.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.id
    }

    /// The configured server.
    #[must_use]
    pub fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Sends a whole response line with the server's id.
    pub fn answer(mut self, line: Bytes) {
        self.send(line);
    }

    /// Sends an error.
    pub fn refuse(mut self, error: &ErrorObject) {
        self.send(reply::error(Some(&self.id), error));
    }

    /// Sends the error that the agent has not declared this capability.
    pub fn refuse_undeclared(self, capability: ClientCapability) {
        self.refuse(&undeclared(capability));
    }

    /// Sends the error that the request did not reach the agent.
    pub fn not_delivered(self, code: ErrorCode, why: &str) {
        let error = not_delivered(code, why, &self.server);
        self.refuse(&error);
    }

    /// Sends progress to the server, or drops it if too much is pending.
    pub fn progress(&self, line: Bytes) {
        let _ = self.progress.try_send(FromAgentMessage::Progress(line));
    }

    fn send(&mut self, line: Bytes) {
        if let Some(permit) = self.answer.take() {
            permit.send(FromAgentMessage::Response(line));
        }
    }
}

impl Drop for ServerResponseHandle {
    fn drop(&mut self) {
        if self.answer.is_some() {
            self.send(reply::error(
                Some(&self.id),
                &may_have_arrived_error(ErrorCode::Died, "the agent has gone", &self.server),
            ));
        }
    }
}

/// The error that an agent has not declared a capability.
pub(super) fn undeclared(capability: ClientCapability) -> ErrorObject {
    // MCP 2025-11-25, `client/elicitation`, "Error Handling", on a mode that was not declared.
    let code = if capability == ClientCapability::Url { INVALID_PARAMS } else { METHOD_NOT_FOUND };
    ErrorObject::new(code, format!("the agent that this is for has not declared `{}`", capability.declared_by()))
}

/// An error for a server whose request no agent has received.
pub(super) fn not_delivered(code: ErrorCode, why: &str, server: &str) -> ErrorObject {
    ErrorObject::of_mcpd(code, why, Delivery::NotSent).about_server(server)
}

/// An error for a server whose request the agent may have received.
pub(super) fn may_have_arrived_error(code: ErrorCode, why: &str, server: &str) -> ErrorObject {
    ErrorObject::of_mcpd(code, why, Delivery::Unknown).about_server(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, params: Option<&'static str>, expected: Result<(ClientCapability, Option<&str>), &str>) {
        let params = params.map(|params| Bytes::from_static(params.as_bytes()));
        let parsed = ParsedRequest::read(method.as_bytes(), params.as_ref()).expect("a method for agents");
        let found = parsed.as_ref().map(|parsed| (parsed.capability, parsed.elicitation.as_deref()));
        let expected = expected.map(|(capability, elicitation)| (capability, elicitation.map(str::as_bytes)));
        assert_eq!(found.map_err(|error| error.message.as_str()), expected, "{params:?}");
    }

    #[test]
    fn capability_follows_from_method_and_mode() {
        check("roots/list", None, Ok((ClientCapability::Roots, None)));
        check("roots/list", Some(r#"{"mode":"x"}"#), Ok((ClientCapability::Roots, None)));
        check("sampling/createMessage", Some(r#"{"elicitationId":"e"}"#), Ok((ClientCapability::Sampling, None)));
        check("elicitation/create", Some("{}"), Ok((ClientCapability::Form, None)));
        check("elicitation/create", Some(r#"{"mode":"form"}"#), Ok((ClientCapability::Form, None)));
        check(
            "elicitation/create",
            Some(r#"{"mode":"url","elicitationId":"\u0065"}"#),
            Ok((ClientCapability::Url, Some("e"))),
        );
        check("elicitation/create", Some(r#"{"mode":null}"#), Err("`mode` is neither `form` nor `url`"));
        check("elicitation/create", Some(r#"{"Mode":"url"}"#), Err("`params` is no object"));
        check(
            "roots/list",
            Some(r#"{"_meta":{"progressToken":{}}}"#),
            Err("`_meta` or its `progressToken` is malformed"),
        );
        assert!(
            ParsedRequest::read(b"tools/call", None).is_none() && ParsedRequest::read(b"tasks/get", None).is_none()
        );
    }

    #[test]
    fn responder_sends_one_answer_also_when_dropped() {
        let pay = |how: fn(ServerResponseHandle)| {
            let (back, mut replies) = ServerResponseHandle::new(&Bytes::from_static(b"\"q\""), &Arc::from("s"));
            (0..2 * PROGRESS_CAPACITY).for_each(|_| back.progress(Bytes::from_static(b"p")));
            how(back);
            let mut answers = Vec::new();
            while let Ok(next) = replies.try_recv() {
                answers.extend(match next {
                    FromAgentMessage::Response(line) => Some(line),
                    FromAgentMessage::Progress(_) => None,
                });
            }
            String::from_utf8(answers.concat()).expect("text")
        };
        assert_eq!(pay(|back| back.answer(Bytes::from_static(b"a"))), "a");
        assert!(pay(|back| back.refuse(&ErrorObject::new(7, "no"))).contains(r#""id":"q","error":{"code":7"#));
        assert!(pay(drop).contains(r#""code":-31001"#));
    }
}
