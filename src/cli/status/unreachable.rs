//! The error of `mcpd status` if no daemon runs: the state of the systemd units, errors in the configuration, and the next command.

use std::path::Path;
use std::process::ExitCode;

use crate::autostart::{UnitState, Units};
use crate::cli::outcome::{NOT_RUNNING, fail, invalid_configuration, not_running};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError};
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

/// Prints why nothing listens at `path`.
pub(super) async fn explain(directory: &RuntimeDir, path: &Path) -> ExitCode {
    if directory.session().is_none() {
        return not_running(path);
    }
    let config_error = config::load(&[], &Process).err();
    let state = Units::find(directory).await.map(|units| units.state());
    let state = unit_state(state.as_ref(), config_error.as_ref());
    fail(NOT_RUNNING, format!("not running: no daemon at {}\n{state}", path.display()))
}

fn unit_state(state: Option<&UnitState>, config_error: Option<&ConfigError>) -> String {
    let (summary, help) = match state {
        None => (
            "is not installed".to_owned(),
            "`mcpd start` starts a daemon; where systemd runs, `mcpd service install` starts it at each login",
        ),
        Some(UnitState::Failed(why)) => (
            format!("is installed and has failed: {why}"),
            "fix the error, then run `mcpd start`; `mcpd check` checks the configuration, `journalctl --user --unit mcpd` has the log",
        ),
        Some(UnitState::SocketActivated) => (
            "is installed and socket-activated: the first agent that connects starts it".to_owned(),
            "`mcpd start` starts it now",
        ),
        Some(UnitState::Stopped) => ("is installed and stopped".to_owned(), "`mcpd start` starts it"),
        Some(UnitState::Running(word)) => (
            format!("is installed and {word}, but does not listen here"),
            "`mcpd service status` and `systemctl --user cat mcpd` show how it is started",
        ),
    };
    match (state, config_error) {
        (None | Some(UnitState::Stopped | UnitState::SocketActivated), Some(error)) => {
            format!("  {SERVICE} {summary}\n{}", invalid_configuration(error))
        }
        _ => format!("  {SERVICE} {summary}\n  help: {help}"),
    }
}
