//! How a request ends without an answer, and how all of them do. Pure.

use std::time::Duration;

use http::StatusCode;

use super::status::is_busy;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing of it has reached the server.
    NotSent {
        /// For a person, on one line.
        reason: String,
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
    /// Nobody is there, or nobody who serves now.
    Unreachable {
        /// For a person, on one line.
        reason: String,
        /// When it may be tried again.
        retry_after: Option<Duration>,
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
    /// It does not let mcpd in with what is configured.
    Refused {
        /// For a person, on one line.
        why: String,
    },
    /// It does not do what the protocol asks for.
    Unfit {
        /// For a person, on one line.
        what: String,
    },
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
        let unreachable = |reason: &String| Parting::Unreachable { reason: reason.clone(), retry_after: None };
        match self {
            Self::NotSent { reason } | Self::Unprocessed { reason } | Self::Cut { reason } => unreachable(reason),
            Self::LoginNeeded { why } => Parting::LoginNeeded { why: why.clone() },
            Self::Status { status: StatusCode::UNAUTHORIZED, .. } => Parting::Refused {
                why: "does not let mcpd in with the headers that are configured (HTTP 401)".to_owned(),
            },
            Self::Status { status, retry_after, said } => {
                let said = said.as_ref().map(|said| format!(": {said}")).unwrap_or_default();
                let reason = format!("answers with HTTP {status}{said}");
                Parting::Unreachable { reason, retry_after: *retry_after }
            }
            Self::TooLarge => {
                Parting::Unfit { what: "answers the first message with more than the message cap".to_owned() }
            }
            Self::NoAnswer => Parting::Unfit { what: "answers the first message with something else".to_owned() },
        }
    }
}
