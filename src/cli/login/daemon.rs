//! Makes the running daemon use a changed login.

use std::process::ExitCode;

use crate::admin::report::{ControlReport, ServerReport};
use crate::admin::{self, AdminError, ServerAction};
use crate::cli::doctor::probe::DaemonProbe;
use crate::cli::spinner::with_spinner;
use crate::cli::text::one_line;
use crate::cli::{FAILED, fail, print};
use crate::sockets::ADMIN_SOCKET;

/// The effect on the daemon.
enum Effect {
    /// No daemon runs, or it does not need the new login.
    None,
    /// The daemon does not have the server.
    UnknownServer,
    /// The daemon runs the server with its former configuration, because the changed one failed.
    FormerConfiguration,
    Restarted(ControlReport),
}

/// Restarts the server if it waits for a login or `had_one`, and prints its state.
pub(in crate::cli) async fn after_login(probe: &DaemonProbe, name: &str, had_one: bool) -> ExitCode {
    let waits = |server: &ServerReport| had_one || server.state.is_down();
    match restarted(probe, name, waits).await {
        Ok(Effect::None) => ExitCode::SUCCESS,
        Ok(Effect::UnknownServer) => {
            print(format!("{name}: the daemon does not know it yet: {}\n", probe.mcpd("reload")))
        }
        Ok(Effect::FormerConfiguration) => {
            print(format!("{name}: goes on as it was before it was changed, until {}\n", probe.mcpd("reload")))
        }
        Ok(Effect::Restarted(report)) if report.done => print(format!("{name}: {}\n", report.state)),
        Ok(Effect::Restarted(report)) => fail(FAILED, format!("{name}: {}", shown(&report))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

/// Restarts the server without its login, and prints its state.
pub(in crate::cli) async fn after_logout(probe: &DaemonProbe, name: &str) -> ExitCode {
    match restarted(probe, name, |_| true).await {
        Ok(Effect::None | Effect::UnknownServer | Effect::FormerConfiguration) => ExitCode::SUCCESS,
        Ok(Effect::Restarted(report)) => print(format!("{name}: {}\n", shown(&report))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

async fn restarted(
    probe: &DaemonProbe,
    name: &str,
    is_due: impl Fn(&ServerReport) -> bool,
) -> Result<Effect, AdminError> {
    let Some(directory) = &probe.directory else { return Ok(Effect::None) };
    let socket = directory.socket(ADMIN_SOCKET);
    let report = match admin::status(&socket).await {
        Err(AdminError::NotRunning(_)) => return Ok(Effect::None),
        report => report?,
    };
    let Some(server) = report.servers.iter().find(|server| server.name == name) else {
        return Ok(Effect::UnknownServer);
    };
    if server.update_error.is_some() {
        return Ok(Effect::FormerConfiguration);
    }
    if server.disabled || !is_due(server) {
        return Ok(Effect::None);
    }
    let report =
        with_spinner(|| format!("restarting {name}"), admin::control(&socket, ServerAction::Restart, name)).await?;
    Ok(Effect::Restarted(report))
}

fn shown(report: &ControlReport) -> String {
    let reason = report.reason.as_deref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
    format!("{}{reason}", report.state)
}
