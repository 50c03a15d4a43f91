//! Runs `systemctl --user`, which controls the user's service manager.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

pub(crate) const SERVICE: &str = "mcpd.service";
/// The unit of its default socket.
pub(crate) const SOCKET: &str = "mcpd.socket";

/// The service manager of a login session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Systemctl<'a> {
    session: &'a Path,
}

/// Why `systemctl` failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SystemctlError {
    /// There is no `systemctl`.
    #[error("systemd is not installed")]
    Absent,
    /// The first line that `systemctl` printed when it failed.
    #[error("{0}")]
    Refused(String),
    #[error("it took longer than {}", crate::duration::format(*.0))]
    Timeout(Duration),
}

/// Properties of a unit, by systemd's names.
pub(crate) type Properties = BTreeMap<String, String>;

impl<'a> Systemctl<'a> {
    /// `session` is the session directory (`$XDG_RUNTIME_DIR`), where the manager listens.
    pub(crate) fn new(session: &'a Path) -> Self {
        Self { session }
    }

    /// Runs `systemctl --user` with these arguments, and returns its output.
    ///
    /// # Errors
    /// See [`SystemctlError`].
    pub(crate) async fn run(self, arguments: &[&str], limit: Duration) -> Result<String, SystemctlError> {
        let mut command = Command::new("systemctl");
        command.args(["--user", "--no-ask-password", "--no-pager"]).args(arguments);
        // Without colours and translations.
        command.env("XDG_RUNTIME_DIR", self.session).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C");
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = match timeout(limit, ended).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Err(SystemctlError::Absent),
            Ok(Err(error)) => return Err(SystemctlError::Refused(format!("systemctl: {error}"))),
            Err(_) => return Err(SystemctlError::Timeout(limit)),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let output = [output.stderr, output.stdout].concat();
        let output = String::from_utf8_lossy(&output);
        Err(SystemctlError::Refused(output.lines().next().unwrap_or("systemctl failed").to_owned()))
    }

    /// Reads properties of a unit. Succeeds even if the unit does not exist.
    ///
    /// # Errors
    /// As [`Systemctl::run`].
    pub(crate) async fn show(
        self,
        unit: &str,
        properties: &str,
        limit: Duration,
    ) -> Result<Properties, SystemctlError> {
        let output = self.run(&["show", "--property", properties, unit], limit).await?;
        let pairs = output.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
