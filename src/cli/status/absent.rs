//! What `mcpd status` says where no daemon runs: the state of its units, whether the configuration loads, and what to do.

use std::path::Path;
use std::process::ExitCode;

use crate::admin::AskError;
use crate::autostart::{UnitState, Units};
use crate::cli::{NOT_RUNNING, fail};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError};
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

/// Says that nobody listens at `path`.
pub(super) async fn report(directory: &RuntimeDir, path: &Path) -> ExitCode {
    let broken = config::load(&[], &Process).err();
    if directory.session().is_none() {
        return match broken {
            Some(error) => fail(NOT_RUNNING, format!("{}\n{}", absent(path), does_not_load(&error))),
            None => fail(NOT_RUNNING, AskError::NotRunning(path.to_owned())),
        };
    }
    let state = Units::find(directory).await.map(|units| units.state());
    fail(NOT_RUNNING, format!("{}\n{}", absent(path), sentence(state.as_ref(), broken.as_ref())))
}

fn absent(path: &Path) -> String {
    format!("not running: no daemon at {}", path.display())
}

/// That a daemon would refuse the default configuration, and what to do.
fn does_not_load(error: &ConfigError) -> String {
    let error = error.first();
    format!(
        "  the configuration does not load: {error}\n  help: `mcpd check` shows every error; fix them, then run `mcpd start`"
    )
}

fn sentence(state: Option<&UnitState>, broken: Option<&ConfigError>) -> String {
    let (is, help) = match state {
        None => (
            "is not installed".to_owned(),
            "`mcpd start` starts a daemon; `mcpd service install` has systemd start it at each login",
        ),
        Some(UnitState::Failed(why)) => (
            format!("is installed and has failed: {why}"),
            "mend that, then `mcpd start`; `mcpd check` checks the configuration, `journalctl --user --unit mcpd` has the log",
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
    match (state, broken) {
        (None | Some(UnitState::Stopped | UnitState::SocketActivated), Some(error)) => {
            format!("  {SERVICE} {is}\n{}", does_not_load(error))
        }
        _ => format!("  {SERVICE} {is}\n  help: {help}"),
    }
}
