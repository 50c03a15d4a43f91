//! Transport errors of requests to a server at a URL.

use std::time::Duration;

use crate::server::error::ServerError;
use crate::server::lifecycle::MAX_RETRY_AFTER;
use crate::server::messages::call::Failure;
use crate::transport::http::{RequestError, is_busy, unprocessed};

/// Delay before a lost poll of a task is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// The delay before a request without effects may be repeated; `None` if a repetition does not help.
pub(super) fn retry_delay(error: &RequestError) -> Option<Duration> {
    match error {
        RequestError::Interrupted { .. } => Some(RETRY),
        RequestError::Status { status, retry_after, .. } if is_busy(*status) => {
            Some(retry_after.unwrap_or_default().clamp(RETRY, MAX_RETRY_AFTER))
        }
        _ => None,
    }
}

/// The failure for the agent, and whether the server may have acted on the call.
pub(super) fn failure(error: RequestError) -> (Failure, bool) {
    let reason = ServerError::Disconnected(error.disconnect());
    match error {
        RequestError::NotSent { .. } | RequestError::Unprocessed { .. } => {
            (Failure::Unavailable { reason, retry_after: None }, false)
        }
        RequestError::LoginNeeded { why } => (Failure::LoginNeeded { why }, false),
        RequestError::Interrupted { .. } => (Failure::Died { reason }, true),
        RequestError::TooLarge => (Failure::ResponseTooLarge, true),
        RequestError::NoResponse => (Failure::MalformedResponse, true),
        RequestError::Status { status, retry_after, .. } => match unprocessed(status) {
            Some(statement) => {
                tracing::debug!(%status, "a request was not processed: {statement}");
                (Failure::Unavailable { reason, retry_after }, false)
            }
            None => (Failure::Status { reason, retry_after }, true),
        },
    }
}
