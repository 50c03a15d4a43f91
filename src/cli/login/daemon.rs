//! Having the running daemon see that a login is another.

use std::process::ExitCode;

use crate::admin::report::{NEEDS_LOGIN, ServerReport, ServerTold};
use crate::admin::{self, AskError, Order};
use crate::cli::doctor::probe::DaemonProbe;
use crate::cli::spinner::with_spinner;
use crate::cli::text::one_line;
use crate::cli::{FAILED, fail, print};
use crate::sockets::ADMIN_SOCKET;

/// States in which a server waits for a login, or may.
const WAITING: [&str; 4] = [NEEDS_LOGIN, "failed", "backoff", "unresponsive"];

/// What has come of a server.
enum Seen {
    /// There is no daemon, or it has no use for what is new.
    Nothing,
    /// It does not know the server.
    Unknown,
    /// It has the server as that was before, since what is configured now could not be had.
    Behind,
    Restarted(ServerTold),
}

/// Has the daemon start the server again if that waits for a login, or `had_one`, with which it goes on. Says what is so now.
pub(in crate::cli) async fn after_login(probe: &DaemonProbe, name: &str, had_one: bool) -> ExitCode {
    let waits = |server: &ServerReport| had_one || WAITING.contains(&&*server.state);
    match restarted(probe, name, waits).await {
        Ok(Seen::Nothing) => ExitCode::SUCCESS,
        Ok(Seen::Unknown) => print(format!("{name}: the daemon does not know it yet: {}\n", probe.mcpd("reload"))),
        Ok(Seen::Behind) => {
            print(format!("{name}: goes on as it was before it was changed, until {}\n", probe.mcpd("reload")))
        }
        Ok(Seen::Restarted(told)) if told.done => print(format!("{name}: {}\n", one_line(&told.state))),
        Ok(Seen::Restarted(told)) => fail(FAILED, format!("{name}: {}", shown(&told))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

/// Has the daemon start the server again without what it had. Says what is so now, whatever that is.
pub(in crate::cli) async fn after_logout(probe: &DaemonProbe, name: &str) -> ExitCode {
    match restarted(probe, name, |_| true).await {
        Ok(Seen::Nothing | Seen::Unknown | Seen::Behind) => ExitCode::SUCCESS,
        Ok(Seen::Restarted(told)) => print(format!("{name}: {}\n", shown(&told))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

async fn restarted(probe: &DaemonProbe, name: &str, is_due: impl Fn(&ServerReport) -> bool) -> Result<Seen, AskError> {
    let Some(directory) = &probe.directory else { return Ok(Seen::Nothing) };
    let socket = directory.socket(ADMIN_SOCKET);
    let report = match admin::status(&socket).await {
        Err(AskError::NotRunning(_)) => return Ok(Seen::Nothing),
        report => report?,
    };
    let Some(server) = report.servers.iter().find(|server| server.name == name) else { return Ok(Seen::Unknown) };
    if server.change_failed.is_some() {
        return Ok(Seen::Behind);
    }
    if server.disabled || !is_due(server) {
        return Ok(Seen::Nothing);
    }
    let told = with_spinner(|| format!("restarting {name}"), admin::order(&socket, Order::Restart, name)).await?;
    Ok(Seen::Restarted(told))
}

fn shown(told: &ServerTold) -> String {
    let reason = told.reason.as_deref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
    format!("{}{reason}", one_line(&told.state))
}
