//! Transport errors of requests to a server at a URL.

use crate::message_limit::MessageLimit;
use crate::server::error::ServerError;
use crate::server::messages::call::Failure;
use crate::transport::http::{RequestError, unprocessed};

/// The failure for the agent, and whether the server may have acted on the call.
pub(super) fn failure(error: RequestError, limit: &MessageLimit) -> (Failure, bool) {
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
