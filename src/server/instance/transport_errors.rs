//! Requests without a usable response, as a server at a URL can leave them.

use std::time::Duration;

use crate::server::error::ServerError;
use crate::server::lifecycle::MAX_RETRY_AFTER;
use crate::server::messages::call::Failure;
use crate::transport::http::{Lost, is_busy, unprocessed};

/// Delay before the poll of a task is repeated that was lost on its way.
const RETRY: Duration = Duration::from_secs(1);

/// When a request without effects may be repeated: soon, or when the server allows it. `None` where that does not help.
pub(super) fn pause(lost: &Lost) -> Option<Duration> {
    match lost {
        Lost::Cut { .. } => Some(RETRY),
        Lost::Status { status, retry_after, .. } if is_busy(*status) => {
            Some(retry_after.unwrap_or_default().clamp(RETRY, MAX_RETRY_AFTER))
        }
        _ => None,
    }
}

/// What the agent receives, and whether the server may have acted on the call.
pub(super) fn failure(lost: Lost) -> (Failure, bool) {
    let error = ServerError::Disconnected(lost.parting());
    match lost {
        Lost::NotSent { .. } | Lost::Unprocessed { .. } => {
            (Failure::Unavailable { reason: error, retry_after: None }, false)
        }
        Lost::LoginNeeded { why } => (Failure::LoginNeeded { why }, false),
        Lost::Cut { .. } => (Failure::Died { reason: error }, true),
        Lost::TooLarge => (Failure::AnswerTooLarge, true),
        Lost::NoAnswer => (Failure::AnswerMalformed, true),
        Lost::Status { status, retry_after, .. } => match unprocessed(status) {
            Some(statement) => {
                tracing::debug!(%status, "a request was not processed: {statement}");
                (Failure::Unavailable { reason: error, retry_after }, false)
            }
            None => (Failure::Status { reason: error, retry_after }, true),
        },
    }
}
