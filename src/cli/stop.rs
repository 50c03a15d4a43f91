//! `mcpd stop`: stops the daemon.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::outcome::print_report;
use super::terminal::with_spinner;
use super::{CommandResult, FAILED, fail, not_running, print};
use crate::autostart::{self, StopError, StopReport};
use crate::duration;
use crate::known_clients::shell_word;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

#[derive(Debug, Args)]
pub(super) struct Stop {
    /// Kill the daemon without waiting for calls and servers to end
    #[arg(long)]
    force: bool,
    /// How long to wait, such as 30s; after that, exit with 1 and leave the processes running
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The shape of `--json`.
#[derive(Serialize)]
struct Shape<'a> {
    /// The daemon, if one ran.
    pid: Option<u32>,
    /// The systemd units that were stopped.
    units: &'a [String],
}

/// The command that stops the daemon in `directory`.
pub(super) fn command(directory: &str) -> String {
    format!("mcpd stop --runtime-dir {}", shell_word(directory))
}

pub(super) async fn run(directory: &RuntimeDir, stop: &Stop) -> CommandResult {
    let what = || "until the daemon and its servers have ended".to_owned();
    match with_spinner(what, autostart::stop(directory, stop.force, stop.timeout)).await {
        Ok(StopReport { pid, units }) if stop.json => Ok(print_report(&Shape { pid, units: &units })),
        Ok(stopped) => Ok(print(report(&stopped, directory))),
        Err(StopError::NotRunning) => Err(not_running(&directory.socket(ADMIN_SOCKET))),
        Err(error) => Err(fail(FAILED, error)),
    }
}

fn report(StopReport { pid, units }: &StopReport, directory: &RuntimeDir) -> String {
    let daemon = pid.map(|pid| format!("pid {pid}"));
    let what: Vec<_> = daemon.into_iter().chain(units.iter().cloned()).collect();
    let mut text = format!("stopped: {}\n", what.join(", "));
    if !directory.is_given() {
        text += "`mcpd start` starts the daemon again, and so does the next agent that runs `mcpd connect`\n";
    }
    if units.iter().any(|unit| unit != SERVICE) {
        text += "systemd listens on its sockets again after that, or after the next login\n";
    }
    text
}
