//! Failures of calls, and the error objects for them. Pure.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::CallOutcome;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR};
use crate::message_limit::MessageLimit;
use crate::server::error::ServerError;

/// Why mcpd answers a call in place of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct CallError {
    /// The configured server.
    pub server: Arc<str>,
    /// What happened.
    pub failure: Failure,
    /// Whether any part of the call may have reached the server.
    pub may_have_arrived: bool,
}

/// The failure of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The server ended after the call was sent.
    Died {
        /// How it ended.
        reason: ServerError,
    },
    /// The server did not answer within the limits of the call.
    TimedOut {
        /// The limit that has passed.
        after: Duration,
    },
    /// A cap is reached.
    Overloaded {
        /// The cap, for the error text.
        what: &'static str,
    },
    /// The server is down.
    Unavailable {
        /// Why.
        reason: ServerError,
        /// Until the next start attempt.
        retry_after: Option<Duration>,
    },
    /// A person has to log in to the server first.
    LoginNeeded {
        /// Why.
        why: String,
    },
    /// The server or the daemon is being stopped.
    ShuttingDown,
    /// The request is larger than the server's limit.
    RequestTooLarge {
        /// In bytes.
        size: usize,
        /// The limit.
        limit: MessageLimit,
    },
    /// The server's response was larger than its limit.
    ResponseTooLarge {
        /// In bytes, if it was read to its end.
        size: Option<usize>,
        /// The limit.
        limit: MessageLimit,
    },
    /// The server's response was invalid.
    MalformedResponse,
    /// The server answered with an HTTP status that does not show whether the call was processed.
    Status {
        /// The error with the status.
        reason: ServerError,
        /// The `Retry-After` of the server, if it sent one.
        retry_after: Option<Duration>,
    },
    /// The result type of the response does not exist in the era of the call.
    UnknownResultType {
        /// The result type.
        what: String,
    },
    /// The server requested input that it did not get.
    InputUnavailable {
        /// What it requested, and why there is no answer.
        why: MissingInput,
    },
    /// The server gave a new task the id of another task.
    TaskIdTaken,
}

/// Why a server does not get the input that it requires for a call. The text continues the sentence ``server `NAME` …``.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingInput {
    /// mcpd does not forward requests of this method.
    #[error("requires `{method}`, which mcpd does not forward")]
    NotForwarded {
        /// Its method.
        method: String,
    },
    /// Its request is malformed.
    #[error("requires `{method}`, but it is malformed: {reason}")]
    Malformed {
        /// Its method.
        method: String,
        /// What is wrong.
        reason: String,
    },
    /// The agent cannot receive its request.
    #[error("{0}")]
    NotSent(String),
    /// The call was cancelled.
    #[error("nobody waits for it any more")]
    NobodyWaits,
    /// The agent has ended without an answer, or has taken too long.
    #[error("requested input, but {0}")]
    Unanswered(&'static str),
    /// The agent has answered with an error, which has this text.
    #[error("wanted to know more, which was answered with an error: {0}")]
    Refused(String),
    /// The answer of the agent has no result.
    #[error("wanted to know more, which was answered with nothing")]
    NoResult,
    /// The inputs are larger than mcpd keeps.
    #[error("requested input, and its requests and their answers together are too large")]
    TooLarge,
    /// It has required input this often for one call.
    #[error("has required input {0} times")]
    TooOften(usize),
}

impl Failure {
    fn code(&self) -> i32 {
        match self {
            Self::Died { .. } => ErrorCode::Died.number(),
            Self::TimedOut { .. } => ErrorCode::TimedOut.number(),
            Self::Overloaded { .. } => ErrorCode::Overloaded.number(),
            Self::Unavailable { .. } | Self::LoginNeeded { .. } => ErrorCode::Unavailable.number(),
            Self::ShuttingDown => ErrorCode::ShuttingDown.number(),
            Self::RequestTooLarge { .. } | Self::ResponseTooLarge { .. } => ErrorCode::TooLarge.number(),
            Self::MalformedResponse
            | Self::Status { .. }
            | Self::UnknownResultType { .. }
            | Self::InputUnavailable { .. }
            | Self::TaskIdTaken => INTERNAL_ERROR,
        }
    }

    pub(crate) fn outcome(&self) -> CallOutcome {
        match self {
            Self::Died { .. } => CallOutcome::Died,
            Self::TimedOut { .. } => CallOutcome::TimedOut,
            Self::Overloaded { .. } => CallOutcome::Overloaded,
            Self::Unavailable { .. } | Self::LoginNeeded { .. } => CallOutcome::Unavailable,
            Self::ShuttingDown => CallOutcome::ShuttingDown,
            Self::RequestTooLarge { .. } | Self::ResponseTooLarge { .. } => CallOutcome::TooLarge,
            Self::MalformedResponse | Self::Status { .. } | Self::UnknownResultType { .. } | Self::TaskIdTaken => {
                CallOutcome::Malformed
            }
            Self::InputUnavailable { .. } => CallOutcome::Error { code: Some(INTERNAL_ERROR.into()) },
        }
    }
}

impl CallError {
    /// The error object an agent gets.
    #[must_use]
    pub fn to_object(&self) -> ErrorObject {
        let error = ErrorObject::new(self.failure.code(), self.message());
        let delivery = if self.may_have_arrived { Delivery::Unknown } else { Delivery::NotSent };
        let error = error.about_server(&self.server).with_delivery(delivery);
        match self.failure {
            Failure::Unavailable { retry_after: Some(after), .. }
            | Failure::Status { retry_after: Some(after), .. } => error.retry_after(after),
            _ => error,
        }
    }

    fn message(&self) -> String {
        let server = &self.server;
        match &self.failure {
            Failure::Died { reason } => format!("server `{server}`: {reason}"),
            Failure::TimedOut { after } => {
                format!("server `{server}` did not answer within {}", crate::duration::format(*after))
            }
            Failure::Overloaded { what } => format!("server `{server}` is overloaded: {what}"),
            Failure::Unavailable { reason: reason @ ServerError::Disabled, .. } => {
                format!("server `{server}` is not available: {reason}: `mcpd enable` enables it")
            }
            Failure::Unavailable { reason, .. } => format!("server `{server}` is not available: {reason}"),
            Failure::LoginNeeded { why } => {
                format!("server `{server}` needs a login: {why}; run `mcpd login {server}`")
            }
            Failure::ShuttingDown => format!("server `{server}` is being stopped"),
            Failure::RequestTooLarge { size, limit } => {
                format!("the request for server `{server}` {}", limit.excess(Some(*size)))
            }
            Failure::ResponseTooLarge { size, limit } => {
                format!("the response of server `{server}` {}", limit.excess(*size))
            }
            Failure::MalformedResponse => format!("the response of server `{server}` is invalid"),
            Failure::Status { reason, .. } => format!("server `{server}` gave no result: it {reason}"),
            Failure::UnknownResultType { what } => {
                format!(
                    "server `{server}` answered with a result of type `{what}`, which the agent's version of MCP does not have"
                )
            }
            Failure::InputUnavailable { why } => format!("server `{server}` {why}"),
            Failure::TaskIdTaken => format!("server `{server}` has made a task with an id that another task has"),
        }
    }
}
