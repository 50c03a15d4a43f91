//! `mcpd stop`: stops the daemon.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::spinner::with_spinner;
use super::{FAILED, NOT_RUNNING, fail, print};
use crate::autostart::{self, StopError, StopReport};
use crate::duration;
use crate::known_clients::shell_word;
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

#[derive(Debug, Args)]
pub(super) struct Stop {
    /// Kill the daemon without waiting for calls and servers to end
    #[arg(long)]
    force: bool,
    /// How long to wait, such as 30s; after that, exit with 1 and leave the processes running
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    timeout: Duration,
}

/// The command that stops the daemon in `directory`.
pub(super) fn command(directory: &str) -> String {
    format!("mcpd stop --runtime-dir {}", shell_word(directory))
}

pub(super) async fn run(directory: &RuntimeDir, stop: &Stop) -> ExitCode {
    let what = || "until the daemon and its servers have ended".to_owned();
    match with_spinner(what, autostart::stop(directory, stop.force, stop.timeout)).await {
        Ok(stopped) => print(report(&stopped, directory)),
        Err(error @ StopError::NotRunning(_)) => fail(NOT_RUNNING, error),
        Err(error) => fail(FAILED, error),
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
