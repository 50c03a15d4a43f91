//! How requests to the server end, and what follows for each kind of request.

use bytes::Bytes;

use super::pending_call::PendingCall;
use super::pending_request::{PendingRequest, ServerResponse};
use super::{Effect, Effects, Instance};
use crate::jsonrpc::reply;
use crate::message_limit::MessageLimit;
use crate::server::error::{ListProblem, ServerError};
use crate::server::listing::Listing;
use crate::server::messages::call::Failure;
use crate::transport::http::{RequestError, unprocessed};

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
            PendingRequest::Page { listing, .. } => return self.end_page(listing, ending),
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
                Ending::Response(response) => self.note_stray_response(response),
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
