//! The error of `mcpd status` if no daemon runs: the state of the systemd units, errors in the configuration, and the next command.

use std::path::Path;
use std::process::ExitCode;

use crate::admin::AskError;
use crate::autostart::{UnitState, Units};
use crate::cli::{NOT_RUNNING, fail};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError};
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

/// Prints why nothing listens at `path`.
pub(super) async fn explain(directory: &RuntimeDir, path: &Path) -> ExitCode {
    let config_error = config::load(&[], &Process).err();
    if directory.session().is_none() {
        return match config_error {
            Some(error) => fail(NOT_RUNNING, format!("{}\n{}", not_running(path), invalid_config(&error))),
            None => fail(NOT_RUNNING, AskError::NotRunning(path.to_owned())),
        };
    }
    let state = Units::find(directory).await.map(|units| units.state());
    fail(NOT_RUNNING, format!("{}\n{}", not_running(path), unit_state(state.as_ref(), config_error.as_ref())))
}

fn not_running(path: &Path) -> String {
    format!("not running: no daemon at {}", path.display())
}

fn invalid_config(error: &ConfigError) -> String {
    let error = error.first();
    format!(
        "  the configuration does not load: {error}\n  help: `mcpd check` shows every error; fix them, then run `mcpd start`"
    )
}

fn unit_state(state: Option<&UnitState>, config_error: Option<&ConfigError>) -> String {
    let (summary, help) = match state {
        None => (
            "is not installed".to_owned(),
            "`mcpd start` starts a daemon; `mcpd service install` starts it at each login",
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
            format!("  {SERVICE} {summary}\n{}", invalid_config(error))
        }
        _ => format!("  {SERVICE} {summary}\n  help: {help}"),
    }
}
