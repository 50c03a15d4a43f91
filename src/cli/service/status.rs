//! `mcpd service status`: whether mcpd runs as a unit, and what is out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::ExitCode;

use serde::Serialize;
use serde_with::skip_serializing_none;

use super::manager::{Manager, ServiceError, shown, user_lingers};
use super::units::{Change, author, hardened_drop_in, own_files, units};
use crate::cli::client_entries::this_program;
use crate::cli::outcome::print_report;
use crate::cli::terminal::with_spinner;
use crate::cli::{FAILED, NOT_RUNNING, RESTART, print, service_env};
use crate::config::interpolate::Process;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::{SERVICE, SOCKET};
use crate::{admin, config};

/// The unit that runs mcpd.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// Path of the unit, if systemd knows one.
    unit: Option<String>,
    /// systemd's word for whether the unit is enabled (`UnitFileState`).
    enabled: String,
    /// systemd's word for whether the socket unit is enabled.
    socket_enabled: String,
    /// systemd's word for the state of the unit (`ActiveState`).
    active: String,
    /// When that state began.
    since: Option<String>,
    /// Process id of the daemon.
    pid: Option<u32>,
    /// The daemon's status text.
    status: String,
    /// Number of restarts by systemd.
    restarts: u64,
    /// Whether the unit runs while the user is not logged in.
    lingers: Option<bool>,
    /// Version of the running daemon.
    version: Option<String>,
    /// The `PATH` in the unit's file of variables.
    path: Option<String>,
    /// What to do, as text.
    hints: Vec<String>,
}

pub(super) async fn run(directory: &RuntimeDir, as_json: bool) -> Result<ExitCode, ServiceError> {
    let manager = Manager::find(directory).await?;
    let report = JsonReport::of(directory, &manager).await;
    let printed = if as_json { print_report(&report) } else { print(report.text()) };
    Ok(match report.pid {
        _ if printed != ExitCode::SUCCESS => printed,
        None => ExitCode::from(NOT_RUNNING),
        Some(_) if report.hints.is_empty() => printed,
        Some(_) => ExitCode::from(FAILED),
    })
}

impl JsonReport {
    async fn of(directory: &RuntimeDir, manager: &Manager<'_>) -> Self {
        let properties =
            "FragmentPath,UnitFileState,ActiveState,ActiveEnterTimestamp,MainPID,StatusText,NRestarts,NeedDaemonReload";
        let service = manager.show(SERVICE, properties).await;
        let socket = manager.show(SOCKET, "UnitFileState").await;
        let get = |name: &str| service.get(name).cloned().unwrap_or_default();
        let daemon = admin::status(&directory.socket(ADMIN_SOCKET)).await.ok();
        let variables = service_env::file().map(|file| service_env::read(&file)).unwrap_or_default();
        let mut report = Self {
            unit: Some(get("FragmentPath")).filter(|path| !path.is_empty()),
            enabled: get("UnitFileState"),
            socket_enabled: socket.get("UnitFileState").cloned().unwrap_or_default(),
            active: get("ActiveState"),
            since: Some(get("ActiveEnterTimestamp")).filter(|since| !since.is_empty()),
            pid: get("MainPID").parse().ok().filter(|pid| *pid > 0),
            status: get("StatusText"),
            restarts: get("NRestarts").parse().unwrap_or(0),
            lingers: user_lingers().await,
            version: daemon.as_ref().map(|daemon| daemon.version.clone()),
            path: variables.get("PATH").cloned(),
            hints: Vec::new(),
        };
        report.hints = hints(&report, manager, daemon.map(|daemon| daemon.pid), &get("NeedDaemonReload")).await;
        if report.unit.is_some() {
            report.hints.splice(0..0, outdated(&variables).await);
        }
        report
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| {
            if !value.is_empty() {
                text += &format!("{name:8} {value}\n");
            }
        };
        row("unit", self.unit.as_deref().unwrap_or("none"));
        let socket = if self.socket_enabled.is_empty() { "not there" } else { &self.socket_enabled };
        if self.unit.is_some() {
            row("enabled", &format!("{}, its socket {socket}", self.enabled));
        }
        let since = self.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let pid = self.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        row("active", &format!("{}{since}{pid}, {} restarts", self.active, self.restarts));
        row("says", &self.status);
        row("version", self.version.as_deref().unwrap_or_default());
        row(
            "lingers",
            match self.lingers {
                Some(true) => "yes: it runs while you are not logged in, too",
                Some(false) => "no: it runs while you are logged in",
                None => "",
            },
        );
        row("PATH", self.path.as_deref().unwrap_or_default());
        self.hints.iter().for_each(|hint| row("to do", hint));
        text
    }
}

/// Hints about differences between the unit's variables and the login environment.
async fn outdated(variables: &BTreeMap<String, String>) -> Vec<String> {
    let loaded = config::load(&[], &Process).ok();
    let login = with_spinner(|| "the login shell".to_owned(), service_env::of_login(loaded.as_ref())).await;
    let reload = "run `mcpd reload --environment`";
    let mut hints = Vec::new();
    // Without an installation of this version there is no file, and another hint says so.
    if login.trouble.is_some() || variables.is_empty() {
        return hints;
    }
    let [old, new] = [variables, &login.variables].map(|all| all.get("PATH").map_or("", String::as_str));
    if old != new {
        let added: Vec<_> = new.split(':').filter(|entry| !old.split(':').any(|known| known == *entry)).collect();
        let what = if added.is_empty() { new.to_owned() } else { format!("it has now {}", added.join(", ")) };
        hints.push(format!("the PATH of the login shell has changed: {what}: {reload}"));
    }
    let names: BTreeSet<_> = variables.keys().chain(login.variables.keys()).collect();
    let is_other = |name: &&&String| variables.get(**name) != login.variables.get(**name) && **name != "PATH";
    let others: Vec<_> = names.iter().filter(is_other).map(|name| name.as_str()).collect();
    if !others.is_empty() {
        hints.push(format!("the login environment has other values for {}: {reload}", others.join(", ")));
    }
    hints
}

async fn hints(report: &JsonReport, manager: &Manager<'_>, daemon: Option<u32>, reload: &str) -> Vec<String> {
    let install = "run `mcpd service install`";
    if report.unit.is_none() {
        return vec![format!("mcpd is not installed as a unit for this user: {install}")];
    }
    let mut hints = Vec::new();
    let place = manager.directory();
    let current = this_program().map(|program| units(&program)).into_iter().flatten().chain([hardened_drop_in()]);
    let written: Vec<_> = own_files(&place).into_iter().map(|(path, _)| path).collect();
    for change in
        current.filter_map(|unit| Change::plan(&place, unit).ok()).filter(|change| written.contains(&change.path))
    {
        let is_ours = fs::read_to_string(&change.path).is_ok_and(|text| author(&text) == super::units::Author::Ours);
        if change.is_due() && is_ours {
            hints.push(format!("{} is outdated: {install}", shown(&change.path)));
        }
    }
    if reload == "yes" {
        hints.push("units have changed on disk: run `systemctl --user daemon-reload`".to_owned());
    }
    if report.version.as_deref().is_some_and(|version| version != env!("CARGO_PKG_VERSION")) {
        hints.push(format!("this is mcpd {}: run `mcpd restart`", env!("CARGO_PKG_VERSION")));
    }
    match (report.pid, daemon) {
        (None, Some(daemon)) => {
            hints.push(format!("a daemon that systemd has not started runs, pid {daemon}: {RESTART}"))
        }
        (None, None) => hints.push("run `mcpd start`, which prints the reason if it fails".to_owned()),
        (Some(_), _) => {}
    }
    hints
}
