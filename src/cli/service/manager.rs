//! The user's service manager: whether it answers, where it searches units, what it knows of mcpd's units, and whether the user lingers
//! (systemd-logind then runs the user's services while the user is not logged in).

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::{RESTART, prompt};
use crate::config::interpolate::{Process, Sources};
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, Systemctl, SystemctlError};

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than a unit may take to start or stop.
const JOB_TIMEOUT: Duration = Duration::from_secs(120);

const INSTEAD: &str =
    "without systemd: `mcpd start` starts the daemon; so does the next client that runs `mcpd connect`";

/// Why a command of `mcpd service` failed, and what to do instead.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    #[error(
        "XDG_RUNTIME_DIR is not set, so the user's service manager cannot be reached\n{}\n{INSTEAD}",
        how_to_reach()
    )]
    NoSession,
    #[error("systemd is not installed: {INSTEAD}")]
    NoSystemd,
    #[error("the user's service manager does not answer: {0}\n{advice}\n{INSTEAD}", advice = how_to_reach())]
    NoAnswer(SystemctlError),
    #[error("systemctl --user {command}: {error}")]
    Refused { command: String, error: SystemctlError },
    /// The error names the file.
    #[error(transparent)]
    File(#[from] io::Error),
    /// What the unit needs, and cannot have.
    #[error("{0}")]
    Lacking(&'static str),
    /// With the log of the unit, or with what was restored.
    #[error("{0}")]
    NotStarted(String),
    #[error("a daemon that systemd has not started runs already, pid {0}: {RESTART}")]
    RunsByHand(u32),
}

/// A service manager that answers.
pub(super) struct Manager<'a> {
    systemctl: Systemctl<'a>,
    /// Directories of units, highest priority first.
    unit_path: Vec<PathBuf>,
}

impl<'a> Manager<'a> {
    /// The manager of the login session of `directory`.
    ///
    /// # Errors
    /// Why there is none, and what to do instead.
    pub(super) async fn find(directory: &'a RuntimeDir) -> Result<Self, ServiceError> {
        let session = directory.session().ok_or(ServiceError::NoSession)?;
        let systemctl = Systemctl::new(session);
        match systemctl.run(&["show", "--property", "UnitPath", "--value"], QUERY_TIMEOUT).await {
            Ok(output) => Ok(Self { systemctl, unit_path: output.split_whitespace().map(PathBuf::from).collect() }),
            Err(SystemctlError::Absent) => Err(ServiceError::NoSystemd),
            Err(error) => Err(ServiceError::NoAnswer(error)),
        }
    }

    /// The directory of the user's units.
    pub(super) fn directory(&self) -> PathBuf {
        let usual = Process.config_home().unwrap_or_default().join("systemd/user");
        // systemd may run with another XDG_CONFIG_HOME than this process.
        let home = Process.home();
        let is_theirs = |path: &&PathBuf| {
            path.ends_with("systemd/user") && home.as_ref().is_some_and(|home| path.starts_with(home.join(".config")))
        };
        if self.unit_path.contains(&usual) {
            return usual;
        }
        self.unit_path.iter().find(is_theirs).cloned().unwrap_or(usual)
    }

    /// The unit from a package, if there is one.
    pub(super) fn packaged(&self, unit: &str) -> Option<PathBuf> {
        let vendor = self.unit_path.iter().filter(|path| path.starts_with("/usr") || path.starts_with("/lib"));
        vendor.map(|path| path.join(unit)).find(|path| path.exists())
    }

    pub(super) async fn show(&self, unit: &str, properties: &str) -> Properties {
        self.systemctl.show(unit, properties, QUERY_TIMEOUT).await.unwrap_or_default()
    }

    /// Runs `systemctl --user` with these arguments.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<(), ServiceError> {
        let result = self.systemctl.run(arguments, JOB_TIMEOUT).await;
        result.map(drop).map_err(|error| ServiceError::Refused { command: arguments.join(" "), error })
    }
}

fn how_to_reach() -> String {
    let user = rustix::process::geteuid().as_raw();
    format!(
        "after `su` or `sudo`, or without a login: `loginctl enable-linger {user}` as root, then `export XDG_RUNTIME_DIR=/run/user/{user}`"
    )
}

/// The path with `~` for the home directory.
pub(in crate::cli) fn shown(path: &Path) -> String {
    let below = Process.home().and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned()));
    below.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

/// Long enough for the user to enter a password.
const LOGINCTL_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether this user lingers; `None` if logind does not answer.
pub(super) async fn user_lingers() -> Option<bool> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let value = loginctl(&["show-user", &user, "--property=Linger", "--value"]).await.ok()?;
    Some(value.trim() == "yes")
}

/// Enables lingering for this user.
///
/// # Errors
/// logind's reason.
pub(super) async fn enable_linger() -> Result<(), String> {
    loginctl(&["enable-linger"]).await.map(drop)
}

/// Asks the user on the terminal; without a terminal the answer is no.
pub(super) fn confirm_linger() -> bool {
    let question = "Run mcpd also while you are not logged in (loginctl enable-linger)?";
    prompt::is_possible() && prompt::confirm(question).unwrap_or(false)
}

async fn loginctl(arguments: &[&str]) -> Result<String, String> {
    let ended = Command::new("loginctl").args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(LOGINCTL_TIMEOUT, ended).await.map_err(|_| "loginctl does not answer".to_owned())?;
    let output = output.map_err(|error| format!("loginctl: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(stderr.lines().next().unwrap_or("loginctl failed").to_owned())
}
