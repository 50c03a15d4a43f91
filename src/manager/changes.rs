//! A new set of servers, and what became of it.

use std::fmt;
use std::sync::Arc;

use crate::config::{Profile, ServerConfig};
use crate::naming::Naming;
use crate::server::{ServerError, ServerHandle, login_needed};

/// Lines of stderr told of a server that has failed.
const MAX_LINES: usize = 20;
/// Bytes told of each of them, and of all together.
const MAX_LINE_LEN: usize = 4 << 10;
const MAX_STDERR_LEN: usize = 32 << 10;

/// All that is wanted of a manager.
#[derive(Debug)]
pub(crate) struct DesiredState {
    pub(crate) servers: Vec<ServerConfig>,
    /// `None`: as before.
    pub(crate) exposed: Option<ViewConfig>,
}

/// What of servers is exposed to whom, under which names.
#[derive(Debug)]
pub(crate) struct ViewConfig {
    /// Where no profile says anything else.
    pub(crate) naming: Naming,
    pub(crate) profiles: Vec<Arc<Profile>>,
}

/// What a new set of servers made of the old one. Each name is in one of the lists, and perhaps in `updated`, in the order of the
/// sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// To be run as they were, and not failed: none of their processes was disturbed.
    pub unchanged: Vec<Arc<str>>,
    /// Of those to be run as they were, the ones with another policy, other limits of calls or other records of them.
    pub updated: Vec<Arc<str>>,
    /// New, and ready or asleep.
    pub added: Vec<Arc<str>>,
    /// Run as they are now to be. What is disabled will be, once it is enabled.
    pub changed: Vec<Arc<str>>,
    /// Being ended.
    pub removed: Vec<Arc<str>>,
    /// New or to be run differently, and not ready.
    pub failed: Vec<ServerFailure>,
    /// To be run as they were, and not ready, as their last start failed.
    pub still_down: Vec<Arc<str>>,
}

/// A server that is not ready as it was to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// Its configured name.
    pub name: Arc<str>,
    /// A stable word for the reason.
    pub code: &'static str,
    /// Why, on one line.
    pub reason: String,
    /// The instance that ran before goes on as it was. Otherwise there is none that could, and the new one is tried again.
    pub runs_on: bool,
    /// What the new instance wrote to stderr last.
    pub stderr: Vec<String>,
}

/// Why a server is not ready as it was to be.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FailureReason {
    /// Its start failed, or its lists cannot be used.
    Server(ServerError),
    /// It needs a login.
    LoginNeeded {
        /// Its configured name.
        server: Arc<str>,
    },
    /// A later configuration has replaced this one.
    Superseded,
    /// It was not ready in time.
    Timeout,
}

impl FailureReason {
    fn code(&self) -> &'static str {
        match self {
            Self::Server(error) => error.code(),
            Self::LoginNeeded { .. } => "login_needed",
            Self::Superseded => "superseded",
            Self::Timeout => "timeout",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::LoginNeeded { server } => f.write_str(&login_needed(server)),
            Self::Superseded => f.write_str("a later configuration has replaced it"),
            Self::Timeout => f.write_str("was not ready in time"),
        }
    }
}

impl ServerFailure {
    pub(super) fn of(name: &Arc<str>, reason: &FailureReason) -> Self {
        let (code, reason) = (reason.code(), reason.to_string());
        Self { name: Arc::clone(name), code, reason, runs_on: false, stderr: Vec::new() }
    }

    /// It did not come up, and nothing goes on in its place.
    pub(super) fn alone(server: &ServerHandle, reason: &FailureReason) -> Self {
        Self {
            stderr: server.stderr().last(MAX_LINES, MAX_LINE_LEN, MAX_STDERR_LEN),
            ..Self::of(server.name(), reason)
        }
    }

    /// A new instance did not come up, so that the one before goes on.
    pub(super) fn beside(old: &ServerHandle, new: &ServerHandle, first_line: u64, reason: &FailureReason) -> Self {
        let instances = old.instances().unwrap_or_default();
        let pids: Vec<u32> = instances.iter().chain([old]).filter_map(|one| one.published().pid).collect();
        let stderr = new.stderr().last_where(
            |number, line| number >= first_line && !pids.contains(&line.pid),
            (MAX_LINES, MAX_LINE_LEN, MAX_STDERR_LEN),
        );
        Self { runs_on: true, stderr, ..Self::of(new.name(), reason) }
    }
}
