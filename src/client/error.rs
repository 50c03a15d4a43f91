//! Errors of requests to one server.

use std::sync::Arc;
use std::time::Duration;

use crate::jsonrpc::reply::ErrorObject;
use crate::naming::is_server_name;
use crate::server::messages::call::{CallError, Failure};
use crate::server::{ServerError, ServerHandle, StateName};

/// What is known about a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server has received nothing of it. It can be sent again.
    NotSent,
    /// The server may have received it, and may have acted on it.
    Unknown,
    /// The server has answered it with this error.
    Answered,
}

/// Why a request to a server failed. Each text has the server's name. [`ClientError::outcome`] tells whether the request may have had an
/// effect.
///
/// All variants but [`ClientError::ErrorResponse`] are errors of mcpd itself, whatever the server sends.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The name cannot be the prefix of tool names. No server was started.
    #[error("`{server}` cannot name a server: use letters, digits and `-`; a single `_` may stand between them")]
    InvalidServerName {
        /// The name.
        server: Arc<str>,
    },
    /// The request came before [`Client::initialize`](crate::Client::initialize) had returned.
    #[error("server `{server}` is not initialized: call `initialize` first")]
    NotInitialized {
        /// The configured name.
        server: Arc<str>,
    },
    /// The client was closed with [`Client::close`](crate::Client::close).
    #[error("the client of server `{server}` is closed")]
    Closed {
        /// The configured name.
        server: Arc<str>,
    },
    /// The server does not take requests: it could not be started, has ended, is still starting, is disabled or needs a login.
    #[error("server `{server}` is not available: {reason}")]
    Unavailable {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// Its state when the request was refused.
        state: StateName,
        /// A stable word for the reason, as in [`ServerReport::code`](crate::manager::report::ServerReport::code).
        code: &'static str,
        /// The reason, on one line.
        reason: String,
        /// When the request is worth repeating, if that is known.
        retry_after: Option<Duration>,
    },
    /// Policy hides the tool. Only a Rust program sees this error: an agent of mcpd gets the error of a nonexistent tool.
    #[error("tool `{tool}` of server `{server}` is denied")]
    ToolDenied {
        /// The configured name.
        server: Arc<str>,
        /// The server's own name for the tool.
        tool: String,
    },
    /// The server lists no such tool.
    #[error("server `{server}` offers no tool `{tool}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    UnknownTool {
        /// The configured name.
        server: Arc<str>,
        /// The requested name.
        tool: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// Policy hides the resource.
    #[error("resource `{uri}` of server `{server}` is denied")]
    ResourceDenied {
        /// The configured name.
        server: Arc<str>,
        /// The requested URI.
        uri: String,
    },
    /// Arguments have to be a JSON object (MCP 2025-11-25, `server/tools`, "Calling Tools").
    #[error("the arguments for server `{server}` {reason}")]
    InvalidArguments {
        /// The configured name.
        server: Arc<str>,
        /// What is wrong with them, after the words above.
        reason: &'static str,
    },
    /// There was no answer within the time limit of the call.
    #[error("server `{server}` did not answer within {}", crate::duration::format(*after))]
    Timeout {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// The limit that has passed.
        after: Duration,
    },
    /// The server ended before it had answered.
    #[error("server `{server}`: {reason}")]
    Died {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// A stable word for the reason, as in [`ServerReport::code`](crate::manager::report::ServerReport::code).
        code: &'static str,
        /// How it ended, on one line.
        reason: String,
    },
    /// The server was closed, disconnected, replaced or restarted before it had answered.
    #[error("server `{server}` was stopped before it had answered")]
    Stopped {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
    },
    /// Too many requests are unanswered.
    #[error("server `{server}` is overloaded: {reason}")]
    Overloaded {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// Which limit is reached.
        reason: &'static str,
    },
    /// The request or its answer is larger than a message may be.
    #[error("{} server `{server}` has more than {limit} bytes", if *outcome == Outcome::NotSent { "the request for" } else { "the answer of" })]
    TooLarge {
        /// The configured name.
        server: Arc<str>,
        /// [`Outcome::NotSent`] if it is the request that is too large.
        outcome: Outcome,
        /// The size in bytes, if it is known.
        size: Option<usize>,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server requires input before it answers, which a program cannot give (MCP 2026-07-28, `input_required`).
    #[error("server `{server}` {reason}")]
    InputRequired {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// Which input, after the words above.
        reason: String,
    },
    /// The server has answered with something that is no valid answer.
    #[error("server `{server}` {reason}")]
    Protocol {
        /// The configured name.
        server: Arc<str>,
        /// Whether the request was sent.
        outcome: Outcome,
        /// What is wrong with the answer, after the words above.
        reason: String,
    },
    /// The server answered with a JSON-RPC error. It is the server's own, even if its code is one of mcpd's.
    #[error("server `{server}`: {} ({})", error.message, error.code)]
    ErrorResponse {
        /// The configured name.
        server: Arc<str>,
        /// The error object.
        error: ErrorObject,
    },
}

impl ClientError {
    /// What is known about the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::InvalidServerName { .. }
            | Self::NotInitialized { .. }
            | Self::Closed { .. }
            | Self::ToolDenied { .. }
            | Self::UnknownTool { .. }
            | Self::ResourceDenied { .. }
            | Self::InvalidArguments { .. } => Outcome::NotSent,
            Self::Unavailable { outcome, .. }
            | Self::Timeout { outcome, .. }
            | Self::Died { outcome, .. }
            | Self::Stopped { outcome, .. }
            | Self::Overloaded { outcome, .. }
            | Self::TooLarge { outcome, .. }
            | Self::InputRequired { outcome, .. }
            | Self::Protocol { outcome, .. } => *outcome,
            Self::ErrorResponse { .. } => Outcome::Answered,
        }
    }

    /// The name of the server.
    #[must_use]
    pub fn server(&self) -> &Arc<str> {
        match self {
            Self::InvalidServerName { server }
            | Self::NotInitialized { server }
            | Self::Closed { server }
            | Self::ToolDenied { server, .. }
            | Self::UnknownTool { server, .. }
            | Self::ResourceDenied { server, .. }
            | Self::InvalidArguments { server, .. }
            | Self::Unavailable { server, .. }
            | Self::Timeout { server, .. }
            | Self::Died { server, .. }
            | Self::Stopped { server, .. }
            | Self::Overloaded { server, .. }
            | Self::TooLarge { server, .. }
            | Self::InputRequired { server, .. }
            | Self::Protocol { server, .. }
            | Self::ErrorResponse { server, .. } => server,
        }
    }

    /// Checks a name of a server.
    pub(crate) fn check_name(server: &Arc<str>) -> Result<(), Self> {
        if is_server_name(server) { Ok(()) } else { Err(Self::InvalidServerName { server: Arc::clone(server) }) }
    }

    /// A failure that mcpd has found, of a request to this server.
    pub(crate) fn of_failure(handle: &ServerHandle, error: CallError) -> Self {
        let CallError { server, failure, may_have_arrived } = error;
        let outcome = if may_have_arrived { Outcome::Unknown } else { Outcome::NotSent };
        match failure {
            Failure::Died { reason } => Self::Died { server, outcome, code: reason.code(), reason: reason.to_string() },
            Failure::TimedOut { after } => Self::Timeout { server, outcome, after },
            Failure::Overloaded { what } => Self::Overloaded { server, outcome, reason: what },
            Failure::Unavailable { reason, retry_after } => {
                // A disabled server may still run. Its calls fail for the same reason as those of a stopped one.
                let state = match reason {
                    ServerError::Disabled => StateName::Disabled,
                    _ => handle.published().state_name(),
                };
                let code = reason.code();
                Self::Unavailable { server, outcome, state, code, reason: reason.to_string(), retry_after }
            }
            Failure::LoginNeeded { why } => {
                let (state, code, reason) = (StateName::NeedsLogin, "login_needed", format!("needs a login: {why}"));
                Self::Unavailable { server, outcome, state, code, reason, retry_after: None }
            }
            Failure::ShuttingDown => Self::Stopped { server, outcome },
            Failure::RequestTooLarge { size, limit } => {
                Self::TooLarge { server, outcome, size: Some(size), limit: limit.bytes() }
            }
            Failure::ResponseTooLarge { size, limit } => Self::TooLarge { server, outcome, size, limit: limit.bytes() },
            Failure::InputUnavailable { why } => Self::InputRequired { server, outcome, reason: why.to_string() },
            Failure::MalformedResponse => {
                Self::Protocol { server, outcome, reason: "has sent an invalid answer".to_owned() }
            }
            Failure::Status { reason, .. } => {
                Self::Protocol { server, outcome, reason: format!("gave no result: it {reason}") }
            }
            Failure::UnknownResultType { what } => {
                let reason = format!("answered with a result of type `{what}`, which its version of MCP does not have");
                Self::Protocol { server, outcome, reason }
            }
            Failure::TaskIdTaken => {
                let reason = "has made a task with an id that another task has".to_owned();
                Self::Protocol { server, outcome, reason }
            }
        }
    }
}
