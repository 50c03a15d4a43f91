//! Whether a user's services run while nobody is logged in: systemd-logind's word for it is that the user lingers.

use std::io::{self, IsTerminal};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::import::prompt::confirm;

/// For logind to answer, a question for a password included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this user lingers; `None` if logind does not say.
pub(super) async fn is_on() -> Option<bool> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let said = loginctl(&["show-user", &user, "--property=Linger", "--value"]).await.ok()?;
    Some(said.trim() == "yes")
}

/// Has this user linger from now on.
///
/// # Errors
/// What logind says against it.
pub(super) async fn turn_on() -> Result<(), String> {
    loginctl(&["enable-linger"]).await.map(drop)
}

/// Asks the person at the terminal; nobody else can agree.
pub(super) fn is_wanted() -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    confirm("Run mcpd also while you are not logged in (loginctl enable-linger)?").unwrap_or(false)
}

async fn loginctl(arguments: &[&str]) -> Result<String, String> {
    let ended = Command::new("loginctl").args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(PATIENCE, ended).await.map_err(|_| "loginctl does not answer".to_owned())?;
    let output = output.map_err(|error| format!("loginctl: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(said.lines().next().unwrap_or("loginctl failed").to_owned())
}
