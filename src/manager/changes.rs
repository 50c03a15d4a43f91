//! The desired set of servers, and the outcome of applying it.

use std::fmt;
use std::sync::Arc;

use crate::config::{Profile, ServerConfig};
use crate::naming::Naming;
use crate::server::{ServerError, ServerHandle};

/// Maximum number of stderr lines reported for a failed server.
const MAX_LINES: usize = 20;
/// Maximum bytes of each of these lines, and of all together.
const MAX_LINE_LEN: usize = 4 << 10;
const MAX_STDERR_LEN: usize = 32 << 10;

/// The servers, names and profiles that a manager should have.
#[derive(Debug)]
pub(crate) struct DesiredState {
    pub(crate) servers: Vec<ServerConfig>,
    /// `None` keeps the current names and profiles.
    pub(crate) exposed: Option<ViewConfig>,
}

/// Names and profiles for the views.
#[derive(Debug)]
pub(crate) struct ViewConfig {
    /// The naming where a profile has none of its own.
    pub(crate) naming: Naming,
    pub(crate) profiles: Vec<Arc<Profile>>,
}

/// How a new set of servers changed the old one. Each name is in one list, and possibly in `updated` as well, in the order of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Servers that need no new process and whose last start did not fail. Their processes kept running.
    pub unchanged: Vec<Arc<str>>,
    /// Servers that need no new process, but whose policy, call limits or call records have changed.
    pub updated: Vec<Arc<str>>,
    /// New servers that are ready or idle.
    pub added: Vec<Arc<str>>,
    /// Servers that run with a changed configuration. A disabled one uses it once it is enabled.
    pub changed: Vec<Arc<str>>,
    /// Servers that are being stopped.
    pub removed: Vec<Arc<str>>,
    /// New or changed servers that are not ready.
    pub failed: Vec<ServerFailure>,
    /// Servers that need no new process, but are not ready because their last start failed.
    pub still_down: Vec<Arc<str>>,
}

/// A server whose new configuration is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// Its configured name.
    pub name: Arc<str>,
    /// A stable code for the reason.
    pub code: &'static str,
    /// The reason, on one line.
    pub reason: String,
    /// Whether the former instance continues. Otherwise there is none, and the new instance is started again.
    pub runs_on: bool,
    /// The last stderr lines of the new instance.
    pub stderr: Vec<String>,
}

/// Why the new configuration of a server is not in force.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FailureReason {
    /// The start failed, or the lists are unusable.
    Server(ServerError),
    /// The server needs a login.
    LoginNeeded,
    /// A later configuration has replaced this one.
    Superseded,
    /// The server was not ready in time.
    Timeout,
}

impl FailureReason {
    fn code(&self) -> &'static str {
        match self {
            Self::Server(error) => error.code(),
            Self::LoginNeeded => "login_needed",
            Self::Superseded => "superseded",
            Self::Timeout => "timeout",
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::LoginNeeded => f.write_str("needs a login"),
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

    /// A failed start without a former instance.
    pub(super) fn alone(server: &ServerHandle, reason: &FailureReason) -> Self {
        Self {
            stderr: server.stderr().last(MAX_LINES, MAX_LINE_LEN, MAX_STDERR_LEN),
            ..Self::of(server.name(), reason)
        }
    }

    /// A failed start of `new`, while `old` continues. Reports only stderr lines of the new instance.
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
