//! What is to be tried, and within which limits.

use std::time::Duration;

use serde_json::Value;

use crate::config::ServerConfig;
use crate::test_variable::test_variable;

/// What is to be tried.
#[derive(Debug)]
pub(crate) struct TrialRequest {
    /// The command or the URL, with the variables that the person passes. The trial sets its sandbox.
    pub(crate) server: ServerConfig,
    /// A tool to call, by the server's own name, with its arguments.
    pub(crate) call: Option<(String, Value)>,
    /// Whether a system without namespaces is good enough. The paths that the command line names are only readable then.
    pub(crate) weak: bool,
    /// Whether the measured run has the system's network.
    pub(crate) network: bool,
    /// The system calls to trace, as `strace -e trace=` takes them.
    pub(crate) system_calls: &'static str,
    pub(crate) limits: TrialLimits,
}

/// The limits of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialLimits {
    /// For the run that installs the server, until it is ready.
    pub(crate) install: Duration,
    /// For the measured run until the server is ready, and then until the tool has answered. Its tracer slows it down.
    pub(crate) run: Duration,
    /// Bytes on disk.
    pub(crate) disk: u64,
}

impl Default for TrialLimits {
    fn default() -> Self {
        let disk = test_variable("MCPD_TEST_TRIAL_DISK").unwrap_or(4 << 30);
        Self { install: Duration::from_secs(5 * 60), run: Duration::from_secs(60), disk }
    }
}
