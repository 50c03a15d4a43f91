//! The user's service manager: whether it answers, where it searches units, and what it knows of mcpd's units.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::interpolate::{Process, Sources};
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, Systemctl, SystemctlError};

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than a unit may take to start or stop.
const JOB_TIMEOUT: Duration = Duration::from_secs(120);

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
    pub(super) async fn find(directory: &'a RuntimeDir) -> Result<Self, String> {
        let Some(session) = directory.session() else { return Err(without_session()) };
        let systemctl = Systemctl::new(session);
        match systemctl.run(&["show", "--property", "UnitPath", "--value"], QUERY_TIMEOUT).await {
            Ok(output) => Ok(Self { systemctl, unit_path: output.split_whitespace().map(PathBuf::from).collect() }),
            Err(SystemctlError::Absent) => Err(format!("systemd is not installed: {INSTEAD}")),
            Err(error) => {
                Err(format!("the user's service manager does not answer: {error}\n{}\n{INSTEAD}", how_to_reach()))
            }
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
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let result = self.systemctl.run(arguments, JOB_TIMEOUT).await;
        result.map(drop).map_err(|error| format!("systemctl --user {}: {error}", arguments.join(" ")))
    }
}

const INSTEAD: &str =
    "without systemd: `mcpd start` starts the daemon; so does the next client that runs `mcpd connect`";

fn without_session() -> String {
    format!(
        "XDG_RUNTIME_DIR is not set, so the user's service manager cannot be reached\n{}\n{INSTEAD}",
        how_to_reach()
    )
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
