//! Errors of one request, and of the whole connection. Pure.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::status::is_busy;
use crate::era;
use crate::net::client::NetError;

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The server has received nothing of it.
    NotSent {
        /// Why not.
        reason: NetError,
    },
    /// The server has received it, and states over HTTP/2 that it did not process it.
    Unprocessed {
        /// For a person, on one line.
        reason: String,
    },
    /// The server requires a login.
    LoginNeeded {
        /// For a person, on one line.
        why: String,
    },
    /// The server answered a request within an HTTP session with 404. It has not processed the request, and does not know the session if it
    /// keeps to the specification.
    NotFoundInSession {
        /// The server's error text, shortened.
        message: Option<String>,
    },
    /// The server answered with an HTTP error status.
    Status {
        /// Which one.
        status: StatusCode,
        /// The delay that the server requests.
        retry_after: Option<Duration>,
        /// The server's error text, shortened.
        message: Option<String>,
    },
    /// The connection failed before the response.
    Interrupted {
        /// Why.
        reason: NetError,
    },
    /// The response exceeds the message cap.
    TooLarge,
    /// The response has a content coding that mcpd cannot decode.
    UnknownCoding {
        /// Its name.
        coding: String,
    },
    /// The body is not a JSON-RPC response.
    NoResponse {
        /// Its media type, if that is neither JSON nor an event stream.
        media_type: Option<String>,
    },
}

/// Why the connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// There is no connection to the server.
    Unreachable {
        /// Why.
        reason: NetError,
    },
    /// The server answered with an HTTP error status.
    Status {
        /// Which one.
        status: StatusCode,
        /// The delay that the server requests.
        retry_after: Option<Duration>,
        /// The server's error text, shortened.
        message: Option<String>,
    },
    /// The server has ended the HTTP session.
    SessionEnded,
    /// The server has closed its only stream (HTTP+SSE).
    Closed,
    /// The server requires a login.
    LoginNeeded {
        /// For a person, on one line.
        why: String,
    },
    /// The server refuses the configured headers with HTTP 401.
    Unauthorized,
    /// The server answers with a content coding that mcpd cannot decode.
    UnknownCoding {
        /// Its name.
        coding: String,
    },
    /// The server violates the protocol.
    ProtocolViolation {
        /// For a person, on one line.
        what: String,
    },
}

impl Disconnect {
    /// A stable word for the reason.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { reason } => reason.code(),
            Self::Status { status, .. } => match *status {
                StatusCode::UNAUTHORIZED => "http_unauthorized",
                StatusCode::FORBIDDEN => "http_forbidden",
                StatusCode::NOT_FOUND => "http_not_found",
                StatusCode::METHOD_NOT_ALLOWED => "http_method_not_allowed",
                _ => "http_status",
            },
            Self::SessionEnded => "session_ended",
            Self::Closed => "event_stream_closed",
            Self::LoginNeeded { .. } => "login_needed",
            Self::Unauthorized => "http_unauthorized",
            Self::UnknownCoding { .. } => "unknown_coding",
            Self::ProtocolViolation { .. } => "protocol_violation",
        }
    }

    /// The delay that the server requests.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { retry_after, .. } = self { *retry_after } else { None }
    }
}

/// The reason on one line, for use after the server's name and a colon.
impl fmt::Display for Disconnect {
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
            Self::Unauthorized => f.write_str("refuses the configured headers (HTTP 401)"),
            Self::UnknownCoding { coding } => write!(f, "answers with {}", unknown_coding(coding)),
            Self::ProtocolViolation { what } => f.write_str(what),
        }
    }
}

impl RequestError {
    /// Whether the server itself has responded.
    pub(crate) fn is_response(&self) -> bool {
        match self {
            Self::Status { .. }
            | Self::NotFoundInSession { .. }
            | Self::Unprocessed { .. }
            | Self::TooLarge
            | Self::UnknownCoding { .. }
            | Self::NoResponse { .. } => true,
            Self::NotSent { .. } | Self::LoginNeeded { .. } | Self::Interrupted { .. } => false,
        }
    }

    /// Whether servers also respond so to requests in a session that they have forgotten. 401 is about the secret if `secrets_rotate`.
    pub(crate) fn may_end_session(&self, secrets_rotate: bool) -> bool {
        match self {
            Self::NotFoundInSession { .. } => true,
            Self::Status { status, .. } => {
                (self.is_unauthorized() && !secrets_rotate)
                    || matches!(*status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE)
            }
            _ => false,
        }
    }

    /// Whether the server rejects the credentials.
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Status { status: StatusCode::UNAUTHORIZED, .. })
    }

    /// Whether a server of 2024-11-05 may respond so to a POST (MCP 2025-11-25, `basic/transports`, "Backwards
    /// Compatibility").
    pub(super) fn may_be_http_sse(&self) -> bool {
        let Self::Status { status, .. } = self else { return false };
        matches!(*status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
    }

    /// Whether a server that only knows handshakes may respond so to `server/discover`. An unreachable, busy or
    /// unauthorized one has not read the request.
    pub(crate) fn may_be_legacy(&self) -> bool {
        match self {
            Self::NotSent { .. }
            | Self::NotFoundInSession { .. }
            | Self::Unprocessed { .. }
            | Self::LoginNeeded { .. } => false,
            Self::Status { status, .. } => !self.is_unauthorized() && !is_busy(*status),
            Self::Interrupted { .. } | Self::TooLarge | Self::UnknownCoding { .. } | Self::NoResponse { .. } => true,
        }
    }

    /// Whether the server refused the request itself, and `initialize` is worth a second attempt by its words.
    pub(crate) fn permits_second_initialize(&self) -> bool {
        let text = match self {
            Self::Status { message, .. } => message.as_deref(),
            _ => None,
        };
        self.is_refusal() && text.is_some_and(|text| era::version_after_refusal(text).is_some())
    }

    /// Whether the server refused the request itself.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Status { status, .. } if status.is_client_error()) && self.may_be_legacy()
    }

    /// The error of the whole connection, if the first request fails like this. The scheme of the URL may be wrong.
    pub(crate) fn disconnect_at_first(&self) -> Disconnect {
        match self {
            Self::Interrupted { reason } => Disconnect::Unreachable { reason: reason.clone().of_first_request() },
            error => error.disconnect(),
        }
    }

    /// The error of the whole connection, if a request fails like this.
    pub(crate) fn disconnect(&self) -> Disconnect {
        match self {
            Self::NotSent { reason } => Disconnect::Unreachable { reason: reason.clone() },
            Self::Unprocessed { reason } => Disconnect::Unreachable { reason: reason.clone().into() },
            Self::Interrupted { reason } => Disconnect::Unreachable { reason: reason.to_string().into() },
            Self::LoginNeeded { why } => Disconnect::LoginNeeded { why: why.clone() },
            Self::NotFoundInSession { message } => {
                Disconnect::Status { status: StatusCode::NOT_FOUND, retry_after: None, message: message.clone() }
            }
            Self::Status { status: StatusCode::UNAUTHORIZED, .. } => Disconnect::Unauthorized,
            Self::Status { status, retry_after, message } => {
                Disconnect::Status { status: *status, retry_after: *retry_after, message: message.clone() }
            }
            Self::TooLarge => Disconnect::ProtocolViolation {
                what: "answers the first message with more than the message cap".to_owned(),
            },
            Self::UnknownCoding { coding } => Disconnect::UnknownCoding { coding: coding.clone() },
            Self::NoResponse { media_type } => {
                let instead = media_type.as_ref().map(|name| format!(" (`Content-Type: {name}`)")).unwrap_or_default();
                Disconnect::ProtocolViolation {
                    what: format!("answers the first message with something else{instead}"),
                }
            }
        }
    }
}

/// The coding of a body that cannot be decoded, for use after `answers with`.
pub(crate) fn unknown_coding(coding: &str) -> String {
    format!("`Content-Encoding: {coding}`, which mcpd does not request and cannot decode")
}
