//! The error of `mcpd status` if no daemon runs: that of every command, with the state of the systemd units.

use std::path::Path;
use std::process::ExitCode;

use crate::autostart::{UnitState, Units};
use crate::cli::outcome::not_running_with;
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

/// Prints why nothing listens at `path`.
pub(super) async fn explain(directory: &RuntimeDir, path: &Path) -> ExitCode {
    let details = match Units::find(directory).await {
        Some(units) => format!("  {SERVICE} is installed and {}\n", summary(&units.settle().await.state())),
        None => String::new(),
    };
    not_running_with(path, &details)
}

fn summary(state: &UnitState) -> String {
    match state {
        UnitState::Failed(why) => format!("has failed: {why}\n  `journalctl --user --unit mcpd` has its log"),
        UnitState::SocketActivated => "socket-activated: the first agent that connects starts it".to_owned(),
        UnitState::Stopped => "stopped".to_owned(),
        UnitState::Running(word) => {
            format!("{word}, but does not listen here: `mcpd service status` shows how it is started")
        }
    }
}
