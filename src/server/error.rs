//! Why a server is down or takes no calls, as an enum with a stable code. Pure. The text is only in `Display`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::evidence::{Cause, Evidence, Unexplained};
use super::health::UnansweredCounts;
use super::start_error::{Exit, StartError};
use crate::config::interpolate::UnusableValue;
use crate::duration;
use crate::list_kind::ListKind;
use crate::net::client::NetError;
use crate::transport::http::{Disconnect, unknown_coding};

/// Why a server is down, why it takes no calls, or why one of its requests failed while it runs.
///
/// `Display` gives the reason on one line, for use after the server's name and a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerError {
    /// A value of its configuration cannot be used. The text names it.
    UnusableValue(String),
    /// Its program did not start.
    Start(StartError),
    /// The guard of its process, or the reaper, died.
    Lost(Supervisor),
    /// The guard of its process does not answer.
    GuardSilent,
    /// Its process ended.
    Exited(Exit),
    /// It closed one of its streams, and its process goes on.
    StreamClosed(&'static str),
    /// A server at a URL cannot be reached any more.
    Disconnected(Disconnect),
    /// Another process listened at its URL before its program was started.
    AddressInUse {
        /// The address.
        origin: String,
        /// That process, for a person.
        listener: String,
    },
    /// Its program did not listen at its URL in time.
    NotListening {
        /// The address.
        origin: String,
        /// How long the start took.
        took: Duration,
    },
    /// It did not finish its start in time.
    StartTimedOut(StartTimeout),
    /// Its response to the first request is not a valid JSON-RPC response.
    InvalidResponse {
        /// The first request.
        method: &'static str,
    },
    /// Its response to `initialize` has a result that is not valid.
    MalformedInitialize {
        /// The result, shortened.
        result: String,
    },
    /// It answered `initialize` with an error.
    InitializeError {
        /// The error object, shortened.
        error: String,
        /// The error shows that the server speaks only the modern era (MCP 2026-07-28, `basic/versioning`).
        is_modern_only: bool,
    },
    /// It repeats mcpd's own messages, as `cat` does.
    NotAServer,
    /// It speaks only protocol versions that mcpd does not.
    UnsupportedVersion {
        /// Those versions, shortened.
        versions: String,
    },
    /// It lacks the modern era, which its `era` requires.
    NoModernEra,
    /// It is restarted to serve each era with its own instance.
    HasBothEras,
    /// It left pings or calls unanswered.
    Unanswered(UnansweredCounts),
    /// Marked down by [`crate::Manager::override_health`].
    MarkedDown,
    /// The operator has disabled it with `mcpd disable`.
    Disabled,
    /// mcpd has stopped it: it was removed or replaced, or mcpd is stopping.
    Stopped,
    /// It has not finished its start.
    Starting,
    /// It has not sent its lists yet.
    NotListed,
    /// Its response to a request for a list cannot be used.
    List {
        /// The list.
        kind: ListKind,
        /// What is wrong with the response.
        problem: ListProblem,
        /// Number of items of earlier pages, which mcpd uses.
        used: Option<usize>,
    },
    /// It takes no calls before a time that it has set with its last error.
    RetryLater,
    /// It ended the stream of `subscriptions/listen`.
    ListenEnded,
    /// Its tools require other headers than it has listed; the text is its message.
    HeaderMismatch(String),
    /// A user's agents work in more directories than there may be instances.
    TooManyDirectories,
    /// After the call was sent, policy has hidden its target.
    Hidden,
    /// An error with what may explain it.
    Explained(Box<Explained>),
    /// A fault of mcpd or of the system.
    Internal(String),
}

/// A process of mcpd above that of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supervisor {
    /// That of one server.
    Guard,
    /// That of all servers, so its loss is no fault of one of them.
    Reaper,
}

/// An error with what may explain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    error: ServerError,
    evidence: Evidence,
}

/// Why the response to a request for a list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListProblem {
    /// It is this error, shortened.
    Error(String),
    /// Its result is no list.
    Malformed,
    /// It is no response.
    Unusable,
    /// It is larger than `max_message`.
    TooLarge,
    /// Its body has this coding.
    UnknownCoding(String),
    /// There was none in time.
    TimedOut,
    /// There is none, for this reason.
    Failed(Disconnect),
}

/// A start that took too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartTimeout {
    /// The unanswered request.
    pub method: &'static str,
    /// How long the start took.
    pub took: Duration,
    /// How the server spent that time.
    pub activity: StartActivity,
}

/// The signs of life of a start that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartActivity {
    /// There were none.
    Never,
    /// They continued until the end.
    UntilEnd,
    /// They stopped before the end.
    Stopped,
}

impl ServerError {
    /// The directory of which its namespaces cannot have a copy.
    pub(crate) fn uncopied(&self) -> Option<&Path> {
        match self {
            Self::Start(error) => error.uncopied(),
            _ => None,
        }
    }

    /// Whether the daemon waits for a login before it starts the server again.
    pub(super) fn needs_login(&self) -> bool {
        matches!(self, Self::Disconnected(Disconnect::LoginNeeded { .. }))
    }

    /// The delay that a server at a URL has set with its last disconnect. [`ServerError::RetryLater`] is the state after that, and has no delay
    /// of its own.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if let Self::Disconnected(disconnect) = self { disconnect.retry_after() } else { None }
    }

    /// Whether somebody has to change the configuration or the file before the command can be executed.
    #[must_use]
    pub fn needs_config_change(&self) -> bool {
        matches!(self, Self::Start(error) if error.needs_config_change())
    }

    /// Whether each attempt may prompt a person, who does not want that every few seconds.
    pub(super) fn may_have_prompted(&self) -> bool {
        matches!(self, Self::UnusableValue(_))
    }

    /// Whether it refuses the configured headers. A secret in them may change without the configuration.
    pub(super) fn refuses_headers(&self) -> bool {
        matches!(self, Self::Disconnected(Disconnect::Unauthorized))
    }

    /// Whether it refuses all protocol versions that mcpd was to use.
    pub(super) fn refuses_version(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedVersion { .. } | Self::NoModernEra | Self::InitializeError { is_modern_only: true, .. }
        )
    }

    /// The same error with the words of the server masked. Those over HTTP are masked by the connection.
    pub(super) fn masked(mut self, mask: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            Self::MalformedInitialize { result: words }
            | Self::InitializeError { error: words, .. }
            | Self::UnsupportedVersion { versions: words }
            | Self::List { problem: ListProblem::Error(words), .. } => *words = mask(words),
            _ => {}
        }
        self
    }

    /// The error with the part of the evidence that may explain it, if it needs an explanation.
    pub(super) fn explained(self, evidence: Evidence) -> Self {
        let unexplained = match &self {
            Self::Exited(exit) if exit.limit.is_none() => Unexplained::End { is_success: exit.is_success() },
            Self::StreamClosed(_) => Unexplained::End { is_success: false },
            Self::StartTimedOut(_) | Self::List { problem: ListProblem::TimedOut, .. } => Unexplained::Silence,
            Self::Unanswered(_) => Unexplained::Pause,
            Self::InvalidResponse { .. }
            | Self::List { problem: ListProblem::Unusable, .. }
            | Self::Disconnected(Disconnect::ProtocolViolation { .. }) => Unexplained::Answer,
            _ => return self,
        };
        match evidence.about(unexplained) {
            Some(evidence) => Self::Explained(Box::new(Explained { error: self, evidence })),
            None => self,
        }
    }

    /// Its probable cause, if that is known beside the code.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Explained(explained) => match (explained.error.cause(), explained.evidence.cause()) {
                (Some(cause), Some(Cause::LastMessage)) => Some(cause),
                (_, cause) => cause,
            },
            Self::StreamClosed(_) => Some(Cause::StreamClosed),
            Self::Disconnected(Disconnect::UnknownCoding { .. })
            | Self::List { problem: ListProblem::UnknownCoding(_), .. } => Some(Cause::ContentCoding),
            _ => None,
        }
    }

    /// A stable word for the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Explained(explained) => explained.error.code(),
            Self::UnusableValue(_) => "unusable_value",
            Self::Start(error) => error.code(),
            Self::Lost(Supervisor::Guard) => "guard_lost",
            Self::Lost(Supervisor::Reaper) => "reaper_lost",
            Self::GuardSilent => "guard_silent",
            Self::Exited(exit) => exit.code(),
            Self::StreamClosed(_) => "stream_closed",
            Self::Disconnected(disconnect) => disconnect.code(),
            Self::AddressInUse { .. } => "address_in_use",
            Self::NotListening { .. } => "not_listening",
            Self::StartTimedOut(timeout) => timeout.code(),
            Self::InvalidResponse { .. } => "invalid_response",
            Self::MalformedInitialize { .. } => "malformed_initialize",
            Self::InitializeError { is_modern_only: true, .. } => "modern_only",
            Self::InitializeError { is_modern_only: false, .. } => "initialize_error",
            Self::NotAServer => "not_a_server",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::NoModernEra => "no_modern_era",
            Self::HasBothEras => "has_both_eras",
            Self::Unanswered(_) => "unanswered",
            Self::MarkedDown => "marked_down",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::NotListed => "not_listed",
            Self::List { .. } => "list_failed",
            Self::RetryLater => "paused",
            Self::ListenEnded => "listen_ended",
            Self::HeaderMismatch(_) => "header_mismatch",
            Self::TooManyDirectories => "too_many_directories",
            Self::Hidden => "hidden",
            Self::Internal(_) => "internal",
        }
    }
}

impl From<StartError> for ServerError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<NetError> for ServerError {
    fn from(reason: NetError) -> Self {
        Self::Disconnected(Disconnect::Unreachable { reason })
    }
}

impl From<UnusableValue> for ServerError {
    fn from(unusable: UnusableValue) -> Self {
        Self::UnusableValue(unusable.to_string())
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusableValue(text) | Self::Internal(text) => f.write_str(text),
            Self::Explained(explained) => write!(f, "{}{}", explained.error, explained.evidence),
            Self::Start(error) => error.fmt(f),
            Self::Lost(Supervisor::Guard) => f.write_str("lost its `mcpd-guard` process, which ended or was killed; mcpd restarts the server"),
            Self::Lost(Supervisor::Reaper) => f.write_str("lost the `mcpd-reaper` process of all servers, which ended or was killed; mcpd restarts the server"),
            Self::GuardSilent => f.write_str("got no answer from its `mcpd-guard` process; mcpd restarts the server"),
            Self::Exited(exit) => exit.fmt(f),
            Self::StreamClosed(stream) => write!(f, "closed its {stream}"),
            Self::Disconnected(disconnect) => disconnect.fmt(f),
            Self::AddressInUse { origin, listener } => {
                write!(f, "was not started: {listener} already listens at {origin}")
            }
            Self::NotListening { origin, took } => {
                write!(f, "does not listen at {origin} after {} (`handshake_timeout`)", duration::format(*took))
            }
            Self::StartTimedOut(timeout) => timeout.fmt(f),
            Self::InvalidResponse { method } => write!(f, "sent an invalid response to `{method}`"),
            Self::MalformedInitialize { result } => write!(f, "sent a malformed result of `initialize`: {result}"),
            Self::InitializeError { error, is_modern_only: false } => write!(f, "answered `initialize` with an error: {error}"),
            Self::InitializeError { error, is_modern_only: true } => {
                write!(f, "does not support `initialize`, because it speaks only MCP 2026-07-28: remove `era = \"legacy\"` if it is set: {error}")
            }
            Self::NotAServer => f.write_str("is not an MCP server: it repeats the messages that it receives"),
            Self::UnsupportedVersion { versions } => {
                write!(f, "speaks only protocol versions that mcpd does not support: {versions}")
            }
            Self::NoModernEra => f.write_str("does not speak MCP 2026-07-28, which `era = \"modern\"` requires"),
            Self::HasBothEras => f.write_str("supports both eras: mcpd restarts it once, with one instance for each era"),
            Self::Unanswered(silence) => write!(f, "did not answer {silence} in a row"),
            Self::MarkedDown => f.write_str("was marked down"),
            Self::Disabled => f.write_str("is disabled"),
            Self::Stopped => f.write_str("was stopped by mcpd"),
            Self::Starting => f.write_str("is still starting"),
            Self::NotListed => f.write_str("has not sent its lists yet"),
            Self::List { kind, problem, used } => {
                write!(f, "its answer to `{}` {problem}", kind.method())?;
                used.map_or(Ok(()), |used| write!(f, "; mcpd uses the items of the earlier pages ({used})"))
            }
            Self::RetryLater => f.write_str("takes no calls yet, as its last error requires"),
            Self::ListenEnded => f.write_str("ended the stream of `subscriptions/listen`"),
            Self::HeaderMismatch(message) => {
                write!(
                    f,
                    "requires other headers for its tools than its last tool list states; mcpd requests the list again: {message}"
                )
            }
            Self::TooManyDirectories => f.write_str("needs one instance for each directory, and agents of this user work in too many: close agents, or change `sharing`"),
            Self::Hidden => f.write_str("no longer offers what was requested, because policy hides it by now"),
        }
    }
}

impl fmt::Display for ListProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(f, "is an error: {error}"),
            Self::Malformed => f.write_str("is malformed"),
            Self::Unusable => f.write_str("is unusable"),
            Self::TooLarge => f.write_str("is larger than `max_message`"),
            Self::UnknownCoding(coding) => write!(f, "has {}", unknown_coding(coding)),
            Self::TimedOut => f.write_str("did not come in time"),
            Self::Failed(reason) => write!(f, "did not come: it {reason}"),
        }
    }
}

impl StartTimeout {
    fn code(&self) -> &'static str {
        match (self.activity, self.method) {
            (StartActivity::UntilEnd, _) => "start_timeout",
            (_, "initialize") => "initialize_timeout",
            _ => "discover_timeout",
        }
    }
}

impl fmt::Display for StartTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, took, activity } = self;
        let took = duration::format(*took);
        match activity {
            StartActivity::Never => write!(f, "did not answer `{method}` within {took} (`handshake_timeout`)"),
            StartActivity::UntilEnd => write!(f, "was still starting after {took}, the maximum"),
            StartActivity::Stopped => {
                write!(
                    f,
                    "did not answer `{method}` within {took}, and its start makes no more progress (`handshake_timeout`)"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_ends_the_wait_of_a_server_that_needs_one() {
        for (error, expected) in [
            (ServerError::Exited(Exit::default()), false),
            (ServerError::Disconnected(Disconnect::LoginNeeded { why: "asks for a login".to_owned() }), true),
            (ServerError::Disconnected(Disconnect::Unauthorized), false),
        ] {
            assert_eq!(error.needs_login(), expected, "{error}");
        }
    }

    #[test]
    fn words_of_the_server_are_masked() {
        let words = || "secret".to_owned();
        for error in [
            ServerError::MalformedInitialize { result: words() },
            ServerError::InitializeError { error: words(), is_modern_only: false },
            ServerError::UnsupportedVersion { versions: words() },
            ServerError::List { kind: ListKind::Tools, problem: ListProblem::Error(words()), used: None },
        ] {
            let masked = error.masked(|text| text.replace("secret", "…"));
            assert!(masked.to_string().contains('…') && !format!("{masked:?}").contains("secret"), "{masked}");
        }
    }
}
