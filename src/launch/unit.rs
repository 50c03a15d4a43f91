//! By the service manager, if it is there and knows mcpd: then it is what keeps the daemon.

use std::time::Duration;

use super::{LaunchError, START};
use crate::sockets::RuntimeDir;
use crate::systemctl::{SERVICE, SOCKET, Systemctl, SystemctlError};

/// For a service manager to say what it knows.
const ANSWER: Duration = Duration::from_secs(2);

/// What came of it.
pub(super) enum Outcome {
    /// It says that mcpd serves.
    Started,
    /// There is none, or it has no such unit.
    Unknown,
}

/// Starts the socket's unit if that is enabled, else the daemon's.
pub(super) async fn start(directory: &RuntimeDir) -> Result<Outcome, LaunchError> {
    let Some(manager) = directory.session().map(Systemctl::new) else { return Ok(Outcome::Unknown) };
    let Ok(service) = manager.show(SERVICE, "LoadState", ANSWER).await else { return Ok(Outcome::Unknown) };
    let state = |name: &str| service.get(name).map(String::as_str);
    if matches!(state("LoadState"), None | Some("not-found")) {
        return Ok(Outcome::Unknown);
    }
    let socket = manager.show(SOCKET, "UnitFileState", ANSWER).await.unwrap_or_default();
    let is_enabled = socket.get("UnitFileState").is_some_and(|state| state.starts_with("enabled"));
    let unit = if is_enabled { SOCKET } else { SERVICE };
    match manager.run(&["start", unit], START).await {
        Ok(_) => Ok(Outcome::Started),
        Err(error) => Err(LaunchError::Unit { unit, why: why(manager, error).await }),
    }
}

/// What the daemon has said itself tells more than that it failed.
async fn why(manager: Systemctl<'_>, error: SystemctlError) -> String {
    let service = manager.show(SERVICE, "StatusText", ANSWER).await.unwrap_or_default();
    let status = service.get("StatusText").filter(|text| !text.is_empty());
    status.map_or_else(|| error.to_string(), Clone::clone)
}
