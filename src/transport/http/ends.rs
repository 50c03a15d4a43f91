//! How a request ends without an answer, and how all of them do. Pure.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::status::is_busy;
use crate::net::client::NetError;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing of it has reached the server.
    NotSent {
        /// Why not.
        reason: NetError,
    },
    /// It has reached the server, which says that it was not processed: over HTTP/2, or with a 404 because the session has ended.
    Unprocessed {
        /// For a person, on one line.
        reason: String,
    },
    /// The server does not look at it until a person has let mcpd in.
    LoginNeeded {
        /// For a person, on one line.
        why: String,
    },
    /// The server says with a status of HTTP that it does not answer it.
    Status {
        /// Which one.
        status: StatusCode,
        /// When it may be asked again.
        retry_after: Option<Duration>,
        /// What else it said, in bounded length.
        said: Option<String>,
    },
    /// The connection ended before.
    Cut {
        /// For a person, on one line.
        reason: String,
    },
    /// The answer is over the message cap.
    TooLarge,
    /// What came is no answer.
    NoAnswer,
}

/// Why nothing can be sent any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parting {
    /// There is no connection to the server.
    Unreachable {
        /// Why.
        reason: NetError,
    },
    /// The server answers with an HTTP status that is an error.
    Status {
        /// Which one.
        status: StatusCode,
        /// When it may be tried again.
        retry_after: Option<Duration>,
        /// What else it said, in bounded length.
        message: Option<String>,
    },
    /// The server knows the session no longer.
    SessionEnded,
    /// It has closed the one stream that its answers come on.
    Closed,
    /// A person has to let mcpd in.
    LoginNeeded {
        /// For a person, on one line.
        why: String,
    },
    /// It refuses the configured headers with HTTP 401.
    Refused,
    /// It violates the protocol.
    Unfit {
        /// For a person, on one line.
        what: String,
    },
}

impl Parting {
    /// A stable word for the reason.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { reason } => reason.code(),
            Self::Status { status, .. } => match *status {
                StatusCode::FORBIDDEN => "http_forbidden",
                StatusCode::NOT_FOUND => "http_not_found",
                StatusCode::METHOD_NOT_ALLOWED => "http_method_not_allowed",
                _ => "http_status",
            },
            Self::SessionEnded => "session_ended",
            Self::Closed => "event_stream_closed",
            Self::LoginNeeded { .. } => "login_needed",
            Self::Refused => "http_unauthorized",
            Self::Unfit { .. } => "protocol_violation",
        }
    }

    /// How long the server asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// The rest of a sentence that begins with the server's name.
impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { reason } => reason.fmt(f),
            Self::Status { status, message, .. } => {
                write!(f, "answers with HTTP {status}")?;
                message.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
            }
            Self::SessionEnded => f.write_str("has ended the session"),
            Self::Closed => f.write_str("has closed its event stream"),
            Self::LoginNeeded { why } => f.write_str(why),
            Self::Refused => f.write_str("refuses the configured headers (HTTP 401)"),
            Self::Unfit { what } => f.write_str(what),
        }
    }
}

impl Lost {
    /// Whether the server itself has said so.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Unprocessed { .. } | Self::TooLarge | Self::NoAnswer => true,
            Self::NotSent { .. } | Self::LoginNeeded { .. } | Self::Cut { .. } => false,
        }
    }

    /// Whether it does not let mcpd in with what is configured.
    pub(super) fn is_no_admission(&self) -> bool {
        matches!(self, Self::Status { status: StatusCode::UNAUTHORIZED, .. })
    }

    /// Whether a server of 2024-11-05 says so to what is posted where its stream is (MCP 2025-11-25, `basic/transports`,
    /// "Backwards Compatibility").
    pub(super) fn may_be_old(&self) -> bool {
        let Self::Status { status, .. } = self else { return false };
        matches!(*status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
    }

    /// Whether a server that knows the eras with a handshake alone may take the question so in which one it speaks. One that cannot be
    /// reached, lets nobody in or wants to be left alone has not looked at it.
    pub(crate) fn may_be_legacy(&self) -> bool {
        match self {
            Self::NotSent { .. } | Self::Unprocessed { .. } | Self::LoginNeeded { .. } => false,
            Self::Status { status, .. } => !self.is_no_admission() && !is_busy(*status),
            Self::Cut { .. } | Self::TooLarge | Self::NoAnswer => true,
        }
    }

    /// Whether the server has said that it wants nothing of the kind.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Status { status, .. } if status.is_client_error()) && self.may_be_legacy()
    }

    /// What it means for all, if it is said to the first.
    pub(crate) fn parting(&self) -> Parting {
        match self {
            Self::NotSent { reason } => Parting::Unreachable { reason: reason.clone() },
            Self::Unprocessed { reason } | Self::Cut { reason } => {
                Parting::Unreachable { reason: reason.clone().into() }
            }
            Self::LoginNeeded { why } => Parting::LoginNeeded { why: why.clone() },
            Self::Status { status: StatusCode::UNAUTHORIZED, .. } => Parting::Refused,
            Self::Status { status, retry_after, said } => {
                Parting::Status { status: *status, retry_after: *retry_after, message: said.clone() }
            }
            Self::TooLarge => {
                Parting::Unfit { what: "answers the first message with more than the message cap".to_owned() }
            }
            Self::NoAnswer => Parting::Unfit { what: "answers the first message with something else".to_owned() },
        }
    }
}
