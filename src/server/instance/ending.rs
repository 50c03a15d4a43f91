//! How requests to the server end, and what follows for each kind of request.
//!
//! Fetched lists are published without the tools whose header requirements are invalid. Source: MCP 2026-07-28,
//! `basic/transports/streamable-http`, "Schema Extension" and "Client Behavior".
//!
//! A server at a URL may have forgotten the session. The specification has HTTP 404 for it (MCP 2025-11-25, `basic/transports`, "Session
//! Management"). Servers also answer with other statuses
//! ([`RequestError::may_end_session`](crate::transport::http::RequestError::may_end_session)), or with a JSON-RPC error. Such an error may
//! have another cause, so a ping in the same session decides.

use bytes::Bytes;
use serde_json::json;

use super::lists::Fetch;
use super::pending_request::{PendingCall, PendingRequest, ServerResponse};
use super::wire::Wire;
use super::{Effect, Effects, Instance};
use crate::calls::CallOutcome;
use crate::catalog::List;
use crate::config::Launch;
use crate::durations::Operation;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::list_kind::ListKind;
use crate::message_limit::MessageLimit;
use crate::printable::excerpt;
use crate::server::error::{ListProblem, ServerError};
use crate::server::listing::Listing;
use crate::server::messages::call::Failure;
use crate::transport::http::{HeaderParams, RequestError, unprocessed};

/// The end of a request.
pub(super) enum Ending<'a> {
    /// The server has sent a response.
    Response(ServerResponse<'a>),
    /// The response of the server is malformed or too large.
    Unusable(Failure),
    /// The transport has failed for this request.
    NoResponse(RequestError),
    /// The deadline of the request has passed.
    Expired,
    /// The server is gone, or may not be waited for any longer. A call fails by whether it was written.
    ServerGone { written: &'a Failure, unwritten: &'a Failure },
}

impl Instance {
    /// Ends a request that has this id at the server.
    ///
    /// This file is the one place that says what follows from each end of each kind of request.
    pub(super) fn end(&mut self, id: u64, pending: PendingRequest, ending: Ending<'_>) -> Effects {
        self.note_ending(&pending, &ending);
        match pending {
            PendingRequest::Call(call) => return self.end_call(id, call, ending),
            PendingRequest::Page { listing, sent, .. } => {
                let operation = Operation::new(listing.kind().method(), None);
                self.measure(&operation, sent, outcome_of(&ending));
                return self.end_page(listing, ending);
            }
            PendingRequest::Subscribe { uri, raw, .. } => return self.end_renewed_subscription(uri, &raw, ending),
            PendingRequest::Check => match ending {
                Ending::Response(_) | Ending::Unusable(_) | Ending::NoResponse(_) => {
                    return Effect::Checked(self.health.checked()).into();
                }
                // The health checks of the server decide how long its callers wait.
                Ending::Expired | Ending::ServerGone { .. } => {}
            },
            PendingRequest::Ping | PendingRequest::SessionCheck { .. } => match ending {
                Ending::Response(_) => self.health.ping_answered(),
                Ending::Unusable(_) | Ending::NoResponse(_) | Ending::Expired | Ending::ServerGone { .. } => {}
            },
            PendingRequest::CancellationCheck => match ending {
                Ending::Response(_) => self.check_cancellations(),
                Ending::Unusable(_) | Ending::NoResponse(_) | Ending::Expired | Ending::ServerGone { .. } => {}
            },
            PendingRequest::LogLevel { .. } => match ending {
                Ending::Response(_) | Ending::Unusable(_) | Ending::NoResponse(_) | Ending::Expired => {
                    self.logging.answered(&mut self.wire);
                }
                Ending::ServerGone { .. } => {}
            },
            PendingRequest::Listen { .. } => match ending {
                Ending::Response(response) => {
                    return Effects::of_refused(self.subscriptions.listen_ended(id, Some(response.result)));
                }
                Ending::Unusable(_) | Ending::NoResponse(_) => drop(self.subscriptions.listen_ended(id, None)),
                Ending::Expired => {
                    self.wire.abandon_http_response(id);
                    self.wire.queue_line(reply::cancelled(id, "it was not acknowledged in time"));
                    self.subscriptions.listen_ended(id, None);
                }
                Ending::ServerGone { .. } => {}
            },
            PendingRequest::CancelTask { task_key, .. } => match ending {
                Ending::Response(response) => self.tasks.disowned(task_key, response.result),
                // The server may still work on the task.
                Ending::Unusable(_) | Ending::NoResponse(_) | Ending::Expired | Ending::ServerGone { .. } => {}
            },
            // The handshake takes its own requests. A response after the handshake ends none.
            PendingRequest::Initialize | PendingRequest::Discover => match ending {
                Ending::Response(response) => self.receive_stray_response(response),
                Ending::Unusable(_) | Ending::NoResponse(_) | Ending::Expired | Ending::ServerGone { .. } => {}
            },
            // Any message of the server is a sign of life.
            PendingRequest::Probe | PendingRequest::Ignored { .. } => {}
        }
        Effects::none()
    }

    fn end_call(&mut self, id: u64, call: PendingCall, ending: Ending<'_>) -> Effects {
        match ending {
            Ending::Response(response) => return self.answer_call(call, response),
            Ending::Unusable(failure) => {
                self.fail_call(call, failure);
            }
            Ending::NoResponse(error) => {
                let (failure, may_have_arrived) = call_failure(error, self.wire.limit());
                self.fail_with(call, failure, may_have_arrived);
            }
            Ending::Expired => self.expire_call(id, call),
            Ending::ServerGone { written, unwritten } => {
                let was_written = self.wire.has_begun(call.line) || call.was_sent_before();
                let failure = if was_written { written } else { unwritten };
                self.fail_call(call, failure.clone());
            }
        }
        Effects::none()
    }

    fn end_page(&mut self, listing: Listing, ending: Ending<'_>) -> Effects {
        let fetch = match ending {
            Ending::Response(response) => self.lists.add_page(&mut self.wire, listing, response.result),
            Ending::Unusable(failure) => self.lists.fail(listing, unusable_page(&failure)),
            Ending::NoResponse(error) => self.lists.fail(listing, missing_page(&error)),
            Ending::Expired => self.lists.fail(listing, ListProblem::TimedOut),
            Ending::ServerGone { .. } => return Effects::none(),
        };
        self.report_fetch(fetch)
    }

    /// A subscription that the server has not accepted is removed. If the server may have accepted it, mcpd ends it there.
    fn end_renewed_subscription(&mut self, uri: Bytes, raw: &Bytes, ending: Ending<'_>) -> Effects {
        let may_have_begun = match ending {
            Ending::Response(ServerResponse { result: Ok(_), .. }) | Ending::ServerGone { .. } => {
                return Effects::none();
            }
            Ending::Response(ServerResponse { result: Err(_), .. }) => false,
            Ending::NoResponse(error) => call_failure(error, self.wire.limit()).1,
            Ending::Unusable(_) | Ending::Expired => true,
        };
        if may_have_begun {
            self.subscriptions.unsubscribe(&mut self.wire, raw);
        }
        Effect::SubscribeRefused(uri).into()
    }

    /// Notes what the end of a request of any kind shows.
    fn note_ending(&mut self, pending: &PendingRequest, ending: &Ending<'_>) {
        if let Ending::Response(response) = ending {
            self.abandoned.pending_answered(response.id);
        }
        if self.may_end_session(pending, ending) {
            self.note_session_error(pending);
        }
    }
}

/// How a request of mcpd has ended.
fn outcome_of(ending: &Ending<'_>) -> CallOutcome {
    match ending {
        Ending::Response(ServerResponse { result: Err(error), .. }) => CallOutcome::of(Err(error)),
        Ending::Response(ServerResponse { result: Ok(_), .. }) => CallOutcome::Ok,
        Ending::Unusable(failure) => failure.outcome(),
        Ending::ServerGone { written, .. } => written.outcome(),
        Ending::NoResponse(_) => CallOutcome::Died,
        Ending::Expired => CallOutcome::TimedOut,
    }
}

/// The failure of a call without a response, and whether the server may have acted on the call.
fn call_failure(error: RequestError, limit: &MessageLimit) -> (Failure, bool) {
    let reason = ServerError::Disconnected(error.disconnect());
    match error {
        RequestError::NotSent { .. } | RequestError::NotFoundInSession { .. } | RequestError::Unprocessed { .. } => {
            (Failure::Unavailable { reason, retry_after: None }, false)
        }
        RequestError::LoginNeeded { why } => (Failure::LoginNeeded { why }, false),
        RequestError::Interrupted { .. } => (Failure::Died { reason }, true),
        RequestError::TooLarge => (Failure::ResponseTooLarge { size: None, limit: limit.clone() }, true),
        RequestError::UnknownCoding { .. } => (Failure::Status { reason, retry_after: None }, true),
        RequestError::NoResponse { .. } => (Failure::MalformedResponse, true),
        RequestError::Status { status, retry_after, .. } => match unprocessed(status) {
            Some(statement) => {
                tracing::debug!(%status, "a request was not processed: {statement}");
                (Failure::Unavailable { reason, retry_after }, false)
            }
            None => (Failure::Status { reason, retry_after }, true),
        },
    }
}

/// Why a list lacks the page whose response is unusable.
fn unusable_page(failure: &Failure) -> ListProblem {
    if matches!(failure, Failure::ResponseTooLarge { .. }) { ListProblem::TooLarge } else { ListProblem::Unusable }
}

/// Why a list lacks the page that got no response.
fn missing_page(error: &RequestError) -> ListProblem {
    match error {
        RequestError::TooLarge => ListProblem::TooLarge,
        RequestError::UnknownCoding { coding } => ListProblem::UnknownCoding(coding.clone()),
        error => ListProblem::Failed(error.disconnect()),
    }
}

/// Maximum number of omitted tools that are named in the log.
const MAX_NAMED: usize = 10;
/// Maximum number of characters of a tool's name in the log.
const MAX_EXCERPT_LEN: usize = 100;

impl Instance {
    /// Reports how the fetch of a list has ended.
    pub(super) fn report_fetch(&mut self, fetch: Fetch) -> Effects {
        match fetch {
            Fetch::Continues => Effects::none(),
            Fetch::Done(kind, list) => {
                let list = self.prepare(kind, list);
                Effect::Listed { kind, list, settled: self.lists.are_settled() }.into()
            }
            Fetch::Failed { kind, reason, partial } => {
                let partial = partial.map(|list| self.prepare(kind, list));
                Effect::ListFailed { kind, reason, partial, settled: self.lists.are_settled() }.into()
            }
        }
    }

    /// The list as it is published.
    fn prepare(&mut self, kind: ListKind, list: List) -> List {
        if kind != ListKind::Tools {
            return list;
        }
        let mut list = without_unfit(&mut self.wire, &self.config.name, list);
        list.makes_tasks = self.tasks.support().of_calls;
        list
    }
}

/// Reads the header requirements of the tools in a list, and removes tools with invalid requirements.
fn without_unfit(wire: &mut Wire, server: &str, mut list: List) -> List {
    if !wire.has_headers() {
        return list;
    }
    let (mut params, mut left_out) = (HeaderParams::default(), 0);
    list.items.retain(|tool| {
        let Err(why) = params.note(&tool.key, &tool.json) else { return true };
        left_out += 1;
        if left_out <= MAX_NAMED {
            let tool = excerpt(&tool.key, MAX_EXCERPT_LEN);
            tracing::warn!(%server, tool, "the tool is not offered: its schema {why}");
        }
        false
    });
    if left_out > MAX_NAMED {
        tracing::warn!(%server, "{} more tools are not offered for similar reasons", left_out - MAX_NAMED);
    }
    wire.set_header_params(params);
    list
}

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
