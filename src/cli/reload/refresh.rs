//! `mcpd reload --environment`: rewrites the environment file of the systemd unit from the login environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::admin::{self, EnvironmentChanges};
use crate::cli::doctor::probe::DaemonProbe;
use crate::cli::service::shown;
use crate::cli::service_env::{self, LoginEnvironment};
use crate::cli::spinner::with_spinner;
use crate::cli::{FAILED, RESTART, USAGE};
use crate::config;
use crate::config::interpolate::Process;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::{SERVICE, Systemctl};

/// Time limit for the service manager.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The rewritten file.
pub(super) struct Refresh {
    file: PathBuf,
    former: BTreeMap<String, String>,
    login: LoginEnvironment,
}

impl Refresh {
    /// Writes the file.
    ///
    /// # Errors
    /// The exit code and the reason. The file is unchanged then.
    pub(super) async fn begin(directory: &RuntimeDir) -> Result<Self, (u8, String)> {
        let file = find(directory).await.map_err(|reason| (FAILED, reason))?;
        let probe = DaemonProbe::run(Some(directory.clone()), Vec::new(), &[]).await;
        let loaded = config::load(&probe.files, &Process).map_err(|error| (USAGE, error.render(false)))?;
        let login = with_spinner(|| "the login shell".to_owned(), service_env::of_login(Some(&loaded))).await;
        if let Some(trouble) = &login.trouble {
            return Err((FAILED, format!("{trouble}\n  {} is unchanged", shown(&file))));
        }
        let former = service_env::read(&file);
        let written = service_env::write_private(&file, &service_env::text(&login.variables));
        written.map_err(|error| (FAILED, format!("{}: {error}", file.display())))?;
        Ok(Self { file, former, login })
    }

    pub(super) fn changes(&self) -> EnvironmentChanges {
        EnvironmentChanges(service_env::changes(&self.former, &self.login.variables))
    }

    /// Restores the former variables, because the daemon rejected the new ones.
    pub(super) fn undo(self) {
        if let Err(error) = service_env::write_private(&self.file, &service_env::text(&self.former)) {
            print_note!("mcpd: {}: {error}", self.file.display());
        }
    }

    /// The names of the written variables.
    pub(super) fn summary(&self) -> String {
        let lines = self.login.summary().into_iter().map(|(change, names)| format!("{change:9}{names}\n"));
        format!("{:9}{}\n{}", "wrote", shown(&self.file), lines.collect::<String>())
    }
}

/// The environment file.
///
/// # Errors
/// If the unit does not read it, or the running daemon was not started by the unit.
async fn find(directory: &RuntimeDir) -> Result<PathBuf, String> {
    let file = service_env::file().ok_or("HOME is not set, so there is no environment file")?;
    let running = admin::status(&directory.socket(ADMIN_SOCKET)).await.ok().map(|report| report.pid);
    let unit = match directory.session() {
        Some(session) => {
            Systemctl::new(session).show(SERVICE, "EnvironmentFiles,MainPID", QUERY_TIMEOUT).await.unwrap_or_default()
        }
        None => BTreeMap::new(),
    };
    let get = |name: &str| unit.get(name).map_or("", String::as_str);
    let by_unit = get("MainPID").parse().ok().filter(|pid| *pid > 0);
    if let Some(pid) = running.filter(|pid| by_unit != Some(*pid)) {
        return Err(format!(
            "the daemon (pid {pid}) was not started by {SERVICE}, so its environment is fixed: run {RESTART}"
        ));
    }
    if !get("EnvironmentFiles").contains(&*file.to_string_lossy()) {
        return Err(format!("{SERVICE} does not read {}: run `mcpd service install`", shown(&file)));
    }
    Ok(file)
}
