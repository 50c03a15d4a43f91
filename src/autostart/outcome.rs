//! What a person requires of a start, and how it ends.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::admin::AdminError;
use crate::sockets::SocketError;
use crate::systemctl::SERVICE;

/// How the daemon was started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartOutcome {
    AlreadyRunning,
    ByUnit,
    /// Detached, with this log.
    Detached(Option<PathBuf>),
}

/// What is required of the daemon.
#[derive(Debug, Default)]
pub(crate) struct StartOptions {
    /// Configuration files instead of the default ones.
    pub(crate) config: Vec<PathBuf>,
    /// `PATH` of the terminal. A detached daemon searches it for servers before the `PATH` of a login shell.
    pub(crate) path: Option<OsString>,
    /// The daemon ends after `idle_exit` without agents. That of the unit does not.
    pub(crate) while_used: bool,
}

/// Why no daemon serves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AutostartError {
    /// No daemon runs in a directory given by `--runtime-dir`, where mcpd starts none by itself.
    #[error("{}", AdminError::NotRunning(.0.clone()))]
    Given(PathBuf),
    #[error(transparent)]
    Directory(#[from] SocketError),
    /// The unit has its own configuration.
    #[error(
        "{SERVICE} is installed and uses the default configuration: leave out `--config`, or add `--runtime-dir DIR` to start \
         another daemon"
    )]
    UnitConfiguration,
    /// systemd has the unit, but did not start it.
    #[error("systemd did not start {SERVICE}: {why}\n  {}", unit_help(*is_configuration))]
    Unit {
        /// The reason from systemd or the daemon.
        why: String,
        /// The daemon refuses its configuration.
        is_configuration: bool,
    },
    /// systemd has started the daemon, but nothing listens on the agents' socket.
    #[error(
        "systemd has started mcpd.service, but it does not listen on the socket that agents use: check `systemctl --user cat mcpd`"
    )]
    Elsewhere,
    #[error("cannot start a daemon: {0}")]
    Io(#[from] io::Error),
    /// The daemon ended before it listened.
    #[error("the new daemon {how}{}{}", indented(output), log_line(log.as_deref()))]
    Exit {
        /// Such as `ended at once with code 2`.
        how: String,
        output: String,
        log: Option<PathBuf>,
        /// The daemon refuses its configuration.
        is_configuration: bool,
    },
    #[error("the new daemon does not listen yet{}", log_line(log.as_deref()))]
    Timeout { log: Option<PathBuf> },
}

impl AutostartError {
    /// The reason on one line, for an agent.
    pub(crate) fn reason(&self) -> String {
        let text = match self {
            Self::Unit { why, .. } => why.clone(),
            Self::Exit { output, .. } => output.clone(),
            other => other.to_string(),
        };
        // The first two lines of a diagnostic are its message and its place.
        text.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Whether the configuration, or the choice of it, has to be corrected.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::UnitConfiguration
                | Self::Unit { is_configuration: true, .. }
                | Self::Exit { is_configuration: true, .. }
        )
    }
}

fn unit_help(is_configuration: bool) -> &'static str {
    match is_configuration {
        true => "fix it until `mcpd check` reports no error; then run `mcpd start`",
        false => "run `journalctl --user --unit mcpd` to see its log",
    }
}

fn indented(output: &str) -> String {
    output.lines().fold(":".to_owned(), |text, line| text + "\n  " + line)
}

fn log_line(log: Option<&Path>) -> String {
    log.map(|path| format!("\n  its log is {}", path.display())).unwrap_or_default()
}
