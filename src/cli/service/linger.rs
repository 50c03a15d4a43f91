//! Lingering: systemd-logind's setting that a user's services run while the user is not logged in.

use std::io::{self, IsTerminal};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::import::prompt::confirm;

/// Long enough for the user to enter a password.
const LOGINCTL_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether this user lingers; `None` if logind does not answer.
pub(super) async fn is_on() -> Option<bool> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let value = loginctl(&["show-user", &user, "--property=Linger", "--value"]).await.ok()?;
    Some(value.trim() == "yes")
}

/// Enables lingering for this user.
///
/// # Errors
/// logind's reason.
pub(super) async fn turn_on() -> Result<(), String> {
    loginctl(&["enable-linger"]).await.map(drop)
}

/// Asks the user on the terminal; without a terminal the answer is no.
pub(super) fn confirm_linger() -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    confirm("Run mcpd also while you are not logged in (loginctl enable-linger)?").unwrap_or(false)
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
