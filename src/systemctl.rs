//! Asking the service manager of the user: systemd's, by `systemctl --user`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// The unit of the daemon.
pub(crate) const SERVICE: &str = "mcpd.service";
/// The unit of its default socket.
pub(crate) const SOCKET: &str = "mcpd.socket";

/// The service manager of the user whose login session has this directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Systemctl<'a> {
    session: &'a Path,
}

/// Why it did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SystemctlError {
    /// There is no such program.
    #[error("systemd is not installed")]
    Absent,
    /// It said no, or nobody answers: what was printed.
    #[error("{0}")]
    Refused(String),
    /// It has not ended in this time.
    #[error("it took longer than {}", crate::duration::format(*.0))]
    Late(Duration),
}

/// What is to be known of a unit, by the names of systemd's properties.
pub(crate) type Properties = BTreeMap<String, String>;

impl<'a> Systemctl<'a> {
    /// For the session directory (`$XDG_RUNTIME_DIR`), where it listens.
    pub(crate) fn new(session: &'a Path) -> Self {
        Self { session }
    }

    /// Runs `systemctl --user` with these arguments; tells what it printed.
    ///
    /// # Errors
    /// See [`SystemctlError`].
    pub(crate) async fn run(self, arguments: &[&str], patience: Duration) -> Result<String, SystemctlError> {
        let mut command = Command::new("systemctl");
        command.args(["--user", "--no-ask-password", "--no-pager"]).args(arguments);
        // What colours its output, or has it print otherwise.
        command.env("XDG_RUNTIME_DIR", self.session).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C");
        let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = match timeout(patience, ended).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Err(SystemctlError::Absent),
            Ok(Err(error)) => return Err(SystemctlError::Refused(format!("systemctl: {error}"))),
            Err(_) => return Err(SystemctlError::Late(patience)),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = [output.stderr, output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        Err(SystemctlError::Refused(said.lines().next().unwrap_or("systemctl failed").to_owned()))
    }

    /// These properties of a unit, whether or not there is one.
    ///
    /// # Errors
    /// As [`Systemctl::run`].
    pub(crate) async fn show(
        self,
        unit: &str,
        properties: &str,
        patience: Duration,
    ) -> Result<Properties, SystemctlError> {
        let said = self.run(&["show", "--property", properties, unit], patience).await?;
        let pairs = said.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
