//! Errors of one request, and of the whole connection. Pure.
//!
//! A request counts as not processed only if the specification of its HTTP status says so. Any other status but success leaves
//! that open. 429 and 503, for example, may come from a proxy behind which the server has already acted.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

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

/// The statuses whose specification says that the request was not processed, each with that statement.
const UNPROCESSED: [(StatusCode, &str); 19] = [
    (StatusCode::MOVED_PERMANENTLY, "RFC 9110, 15.4.2: the resource is at another URI"),
    (StatusCode::FOUND, "RFC 9110, 15.4.3: the resource is at another URI for now"),
    (StatusCode::TEMPORARY_REDIRECT, "RFC 9110, 15.4.8: the resource is at another URI for now"),
    (StatusCode::PERMANENT_REDIRECT, "RFC 9110, 15.4.9: the resource is at another URI"),
    (StatusCode::BAD_REQUEST, "RFC 9110, 15.5.1: the server cannot or will not process the request"),
    (StatusCode::UNAUTHORIZED, "RFC 9110, 15.5.2: the request has not been applied"),
    (StatusCode::FORBIDDEN, "RFC 9110, 15.5.4: the server refuses to fulfill the request"),
    (StatusCode::METHOD_NOT_ALLOWED, "RFC 9110, 15.5.6: the resource does not support the method"),
    (StatusCode::PROXY_AUTHENTICATION_REQUIRED, "RFC 9110, 15.5.8: the proxy does not forward the request"),
    (StatusCode::REQUEST_TIMEOUT, "RFC 9110, 15.5.9: the server did not receive a complete request"),
    (StatusCode::LENGTH_REQUIRED, "RFC 9110, 15.5.12: the server refuses to accept the request"),
    (StatusCode::PRECONDITION_FAILED, "RFC 9110, 15.5.13: the method was prevented from being applied"),
    (StatusCode::PAYLOAD_TOO_LARGE, "RFC 9110, 15.5.14: the server refuses to process the request"),
    (StatusCode::URI_TOO_LONG, "RFC 9110, 15.5.15: the server refuses to service the request"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "RFC 9110, 15.5.16: the server refuses to service the request"),
    (
        StatusCode::MISDIRECTED_REQUEST,
        "RFC 9110, 15.5.20: the server does not answer for this URI; any method may be retried",
    ),
    (StatusCode::TOO_EARLY, "RFC 8470, 5.2: the server is unwilling to process the request"),
    (StatusCode::UPGRADE_REQUIRED, "RFC 9110, 15.5.22: the server refuses to perform the request"),
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RFC 6585, 5: the server is unwilling to process the request"),
];

/// The statement by which this status says that the request was not processed; `None` if it may have been.
///
/// HTTP 404 says so only of a session (MCP 2025-11-25, `basic/transports`, "Session Management"), which the caller knows.
pub(crate) fn unprocessed(status: StatusCode) -> Option<&'static str> {
    UNPROCESSED.iter().find(|(one, _)| *one == status).map(|(_, statement)| *statement)
}

/// Whether the server refuses all requests for now.
pub(crate) fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error status of the IANA registry, and what its specification says. Those that are left open have the reason why.
    #[test]
    fn a_status_means_not_processed_only_if_its_specification_says_so() {
        for (status, expected) in [
            (300, Err("offers representations, also of what was done")),
            (301, Ok("15.4.2")),
            (302, Ok("15.4.3")),
            (303, Err("is how a processed POST is answered")),
            (304, Err("is about a conditional GET")),
            (305, Err("is deprecated")),
            (307, Ok("15.4.8")),
            (308, Ok("15.4.9")),
            (400, Ok("15.5.1")),
            (401, Ok("15.5.2")),
            (402, Err("is reserved")),
            (403, Ok("15.5.4")),
            (404, Err("says that a representation was not found")),
            (405, Ok("15.5.6")),
            (406, Err("is about the response")),
            (407, Ok("15.5.8")),
            (408, Ok("15.5.9")),
            (409, Err("says that the request could not be completed")),
            (410, Err("says that access is no longer available")),
            (411, Ok("15.5.12")),
            (412, Ok("15.5.13")),
            (413, Ok("15.5.14")),
            (414, Ok("15.5.15")),
            (415, Ok("15.5.16")),
            (416, Err("is about ranges")),
            (417, Err("says that an expectation was not met")),
            (418, Err("is unused")),
            (421, Ok("15.5.20")),
            (422, Err("says that the instructions could not be processed, not at which of them")),
            (423, Err("says that a resource is locked")),
            (424, Err("says that another action failed")),
            (425, Ok("RFC 8470, 5.2")),
            (426, Ok("15.5.22")),
            (428, Err("requires conditions")),
            (429, Err("says how many requests there were")),
            (431, Ok("RFC 6585, 5")),
            (451, Err("says that access is denied")),
            (500, Err("says that something unexpected happened")),
            (501, Err("says that functionality is missing")),
            (502, Err("is about the next server")),
            (503, Err("says that the server cannot handle the request now")),
            (504, Err("is about the next server")),
            (505, Err("is about the version of the response")),
            (506, Err("is about negotiation")),
            (507, Err("says that the method could not be performed to its end")),
            (508, Err("ends an operation that was begun")),
            (511, Err("is sent by whoever intercepts, for whatever it intercepted")),
            (599, Err("has no specification")),
        ] {
            let statement = unprocessed(StatusCode::from_u16(status).expect("a status"));
            match expected {
                Ok(section) => assert!(statement.is_some_and(|text| text.contains(section)), "{status}: {statement:?}"),
                Err(why) => assert_eq!(statement, None, "{status} {why}"),
            }
        }
    }
}
