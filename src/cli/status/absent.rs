//! What `mcpd status` says where no daemon runs: the state of its units, and what to do.

use std::path::Path;
use std::process::ExitCode;

use crate::admin::AskError;
use crate::cli::{NOT_RUNNING, fail};
use crate::launch::{UnitState, Units};
use crate::sockets::RuntimeDir;
use crate::systemctl::SERVICE;

/// Says that nobody listens at `path`.
pub(super) async fn report(directory: &RuntimeDir, path: &Path) -> ExitCode {
    if directory.session().is_none() {
        return fail(NOT_RUNNING, AskError::NotRunning(path.to_owned()));
    }
    let state = Units::find(directory).await.map(|units| units.state());
    fail(NOT_RUNNING, format!("not running: no daemon at {}\n  {}", path.display(), sentence(state.as_ref())))
}

fn sentence(state: Option<&UnitState>) -> String {
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
    format!("{SERVICE} {is}\n  help: {help}")
}
