//! The daemon of a setup: a systemd user service, or a detached process where there is no user systemd.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use serde::Serialize;
use tokio::process::Command;

use crate::autostart::{self, StartOptions, StopError};
use crate::cli::client_changes::WriteOptions;
use crate::cli::start::failed_start;
use crate::cli::terminal::with_spinner;
use crate::cli::{FAILED, USAGE, block_on, fail, prompt, service};
use crate::sockets::RuntimeDir;

/// How long a daemon may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// What became of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum DaemonOutcome {
    /// The units were installed, and serve.
    Installed,
    /// It was started without systemd.
    Started,
    /// It runs already.
    Running,
    /// With `--dry-run`: the units would be installed, or it would be started.
    Planned,
    /// The user declined.
    Declined,
    /// With `--undo`: the units were removed.
    Removed,
    /// With `--undo`: it was stopped.
    Stopped,
    /// With `--undo`: it was left alone, because setup did not start or install it.
    Kept,
}

/// Has a daemon run. `begin` is called before anything changes.
pub(super) fn run(
    write: WriteOptions,
    directory: &RuntimeDir,
    given: Option<&Path>,
    begin: impl FnOnce(DaemonOutcome) -> Result<(), ExitCode>,
) -> Result<DaemonOutcome, ExitCode> {
    if directory.is_served() {
        print_note!("mcpd: the daemon runs already");
        return Ok(DaemonOutcome::Running);
    }
    let by_unit = given.is_none() && block_on(async { Ok(service::is_available(directory).await) })?;
    let (what, question) = match by_unit {
        true => ("installs mcpd as a systemd user service", "Run mcpd as a systemd user service, from each login on?"),
        false => ("starts the daemon", "Start the daemon?"),
    };
    if write.dry_run {
        print_note!("mcpd: setup {what}");
        return Ok(DaemonOutcome::Planned);
    }
    if !write.yes {
        if !prompt::is_possible() {
            return Err(fail(USAGE, "nothing more is done: add `--yes`, or run the command on a terminal to confirm"));
        }
        if !prompt::confirm_default(question).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: no daemon is started now; the first client that needs it starts it");
            return Ok(DaemonOutcome::Declined);
        }
    }
    let outcome = if by_unit { DaemonOutcome::Installed } else { DaemonOutcome::Started };
    begin(outcome)?;
    block_on(async {
        if by_unit {
            return own_command(&["service", "install", "--no-linger"]).await;
        }
        let options = StartOptions { path: std::env::var_os("PATH"), ..StartOptions::default() };
        let activity = || "until the daemon serves".to_owned();
        with_spinner(activity, autostart::start(directory, &options)).await.map_err(failed_start)?;
        print_note!("mcpd: the daemon is started");
        Ok(())
    })?;
    Ok(outcome)
}

/// Undoes what setup has done to the daemon.
pub(super) fn undo(outcome: Option<DaemonOutcome>, directory: &RuntimeDir) -> Result<DaemonOutcome, ExitCode> {
    match outcome {
        Some(DaemonOutcome::Installed) => {
            block_on(own_command(&["service", "uninstall"]))?;
            stop(directory)?;
            Ok(DaemonOutcome::Removed)
        }
        Some(DaemonOutcome::Started) => stop(directory),
        _ => Ok(DaemonOutcome::Kept),
    }
}

/// Stops the daemon that runs, if one does: a client may have started it since.
fn stop(directory: &RuntimeDir) -> Result<DaemonOutcome, ExitCode> {
    let stopped = async {
        let what = || "until the daemon and its servers have ended".to_owned();
        match with_spinner(what, autostart::stop(directory, false, STOP_TIMEOUT)).await {
            Ok(_) => {
                print_note!("mcpd: the daemon is stopped");
                Ok(DaemonOutcome::Stopped)
            }
            Err(StopError::NotRunning) => Ok(DaemonOutcome::Stopped),
            Err(error) => Err(fail(FAILED, error)),
        }
    };
    block_on(stopped)
}

/// Runs a command of this program, whose output goes to stderr: only differences and JSON go to stdout.
async fn own_command(arguments: &[&str]) -> Result<(), ExitCode> {
    let program = std::env::current_exe().map_err(|error| fail(FAILED, error))?;
    let mut command = Command::new(program);
    let ended = command.args(arguments).stdin(Stdio::null()).stdout(std::io::stderr()).status().await;
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(fail(FAILED, format!("`mcpd {}` failed", arguments.join(" ")))),
        Err(error) => Err(fail(FAILED, error)),
    }
}
