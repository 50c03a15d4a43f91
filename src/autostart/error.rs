//! Why there is no daemon.

use std::io;
use std::path::{Path, PathBuf};

use crate::admin::AskError;
use crate::sockets::SocketError;
use crate::systemctl::SERVICE;

/// Why no daemon was started, or none that serves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The directory was chosen by somebody, who runs a daemon in it or not.
    #[error("{}", AskError::NotRunning(.0.clone()))]
    Given(PathBuf),
    /// The runtime directory cannot be used.
    #[error(transparent)]
    Directory(#[from] SocketError),
    /// The service manager knows the unit, and did not start it.
    #[error("systemd did not start {SERVICE}: {why}\n  {}", unit_help(*is_configuration))]
    Unit {
        /// What systemd or the daemon said.
        why: String,
        /// The daemon refuses its configuration.
        is_configuration: bool,
    },
    /// The service manager has started it, and nobody listens where agents look.
    #[error(
        "systemd has started mcpd.service, which does not listen where agents look for it: see `systemctl --user cat mcpd`"
    )]
    Elsewhere,
    /// It could not be started at all.
    #[error("cannot start a daemon: {0}")]
    Io(#[from] io::Error),
    /// It ended before it listened.
    #[error("the daemon that was started {how}{}{}", indented(said), kept(log.as_deref()))]
    Ended {
        /// Such as `exited with code 2`.
        how: String,
        /// What it wrote.
        said: String,
        /// Where that is kept.
        log: Option<PathBuf>,
        /// The daemon refuses its configuration.
        is_configuration: bool,
    },
    /// It does not listen in time.
    #[error("the daemon that was started does not listen yet{}", kept(log.as_deref()))]
    Late {
        /// What it writes.
        log: Option<PathBuf>,
    },
}

impl LaunchError {
    /// The reason alone, on one line, for an agent.
    pub(crate) fn reason(&self) -> String {
        let text = match self {
            Self::Unit { why, .. } => why.clone(),
            Self::Ended { said, .. } => said.clone(),
            other => other.to_string(),
        };
        // The message of a diagnostic, and its place.
        text.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// Whether only an edit of the configuration helps.
    pub(crate) fn is_configuration(&self) -> bool {
        matches!(self, Self::Unit { is_configuration: true, .. } | Self::Ended { is_configuration: true, .. })
    }
}

fn unit_help(is_configuration: bool) -> &'static str {
    match is_configuration {
        true => "fix it until `mcpd check` reports no error; then run `mcpd start`",
        false => "see `journalctl --user --unit mcpd`",
    }
}

fn indented(said: &str) -> String {
    said.lines().fold(":".to_owned(), |text, line| text + "\n  " + line)
}

fn kept(log: Option<&Path>) -> String {
    log.map(|path| format!("\n  its log is {}", path.display())).unwrap_or_default()
}
