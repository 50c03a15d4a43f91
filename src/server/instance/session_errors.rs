//! Errors by which a server at a URL may say that it has forgotten the session.
//!
//! The specification has HTTP 404 for it (MCP 2025-11-25, `basic/transports`, "Session Management"). Servers also answer with other statuses
//! ([`RequestError::may_end_session`](crate::transport::http::RequestError::may_end_session)), or with a JSON-RPC error. Such an error may
//! have another cause, so a ping in the same session decides.

use bytes::Bytes;
use serde_json::json;

use super::Instance;
use super::ending::Ending;
use super::pending_request::PendingRequest;
use crate::config::Launch;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};

/// "Server not initialized", as in the Language Server Protocol. MCP has the same code for unknown resources.
const NOT_INITIALIZED: i32 = -32002;

impl Instance {
    /// Whether a request that ends so may have failed because the server has forgotten the session.
    pub(super) fn may_end_session(&self, pending: &PendingRequest, ending: &Ending<'_>) -> bool {
        let is_error = match ending {
            Ending::Response(response) => {
                response.result.is_err_and(|error| self.wire.is_remote_session() && is_about_session(error))
            }
            Ending::NoResponse(error) => error.may_end_session(self.has_rotating_secrets()),
            Ending::Unusable(_) | Ending::Expired | Ending::ServerGone { .. } => false,
        };
        is_error && !pending.is_about_resource()
    }

    /// Whether its headers have secrets that are read again once the server refuses them.
    fn has_rotating_secrets(&self) -> bool {
        let remote = self.config.launch.as_ref().ok().and_then(Launch::remote);
        remote.is_some_and(|remote| !remote.rotating.is_empty())
    }

    /// This request has failed as it does in a session that the server has forgotten. If it is the ping that was to show that, the session
    /// is over.
    pub(super) fn note_session_error(&mut self, pending: &PendingRequest) {
        match pending {
            PendingRequest::SessionCheck { .. } => self.wire.forget_session(),
            _ => self.doubt_session(),
        }
    }

    /// Sends a ping that shows whether the server still knows the session, unless one is unanswered.
    pub(super) fn doubt_session(&mut self) {
        let is_checked = |pending: &PendingRequest| matches!(pending, PendingRequest::SessionCheck { .. });
        if self.wire.is_remote_session() && !self.wire.has_pending(is_checked) {
            let deadline = self.request_deadline();
            self.wire.own_request("ping", json!({}), PendingRequest::SessionCheck { deadline });
        }
    }
}

/// Whether this error, which is about no resource, may be about the session.
fn is_about_session(error: &Bytes) -> bool {
    let Ok(ErrorObject { code, message, .. }) = serde_json::from_slice(error) else { return false };
    let message = message.to_ascii_lowercase();
    let is_named = ["session", "initializ"].iter().any(|word| message.contains(word));
    !matches!(code, INVALID_PARAMS | METHOD_NOT_FOUND) && (code == NOT_INITIALIZED || is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_about_the_session_if_it_names_it() {
        for (error, expected) in [
            (r#"{"code":-32000,"message":"Bad Request: No valid session ID provided"}"#, true),
            (r#"{"code":-32001,"message":"Session not found"}"#, true),
            (r#"{"code":-32600,"message":"Invalid Request: Server not initialized"}"#, true),
            (r#"{"code":-32002,"message":"call initialize first"}"#, true),
            (r#"{"code":-32002,"message":"nicht bereit"}"#, true),
            (r#"{"code":-32602,"message":"no such session: x"}"#, false),
            (r#"{"code":-32601,"message":"Method not found: session"}"#, false),
            (r#"{"code":-32603,"message":"database is locked"}"#, false),
            (r#"{"message":"session"}"#, false),
            ("null", false),
        ] {
            assert_eq!(is_about_session(&Bytes::from_static(error.as_bytes())), expected, "{error}");
        }
    }
}
