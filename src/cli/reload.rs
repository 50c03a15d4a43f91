//! `mcpd reload`: applies the changed configuration, updates the environment file of the systemd unit from the login environment before that,
//! or changes the log filter of the running daemon.
//!
//! After mcpd has edited the configuration, [`reload_after_edit`] also prints the tools that agents see now.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::doctor::probe::DaemonProbe;
use super::outcome::{print_report, try_print_report};
use super::service::shown;
use super::service_env::{self, LoginEnvironment};
use super::start::failed_start;
use super::terminal::with_spinner;
use super::text::{count, join_limited, one_line, searched_paths, split_searched_path};
use super::{CommandResult, FAILED, RESTART, USAGE, admin_failure, fail, print, tool_names, try_print};
use crate::admin::report::{ReloadFailure, ReloadReport, StateName, ToolReport, ToolServer, ToolsSummary};
use crate::admin::{self, AdminError, EnvironmentChanges, ToolsRequest};
use crate::config::interpolate::Process;
use crate::logging::Filter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::{SERVICE, Systemctl};
use crate::{autostart, config};

const NO_SERVER: &str =
    "no server is configured: `mcpd import` adds those of your other clients, `mcpd add` adds one\n";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Change the log filter of the running daemon instead, until it ends: a level, or directives such as
    /// `info,mcpd::session=debug`; without FILTER, print the filter
    #[arg(long, alias = "log", value_name = "FILTER", conflicts_with = "environment")]
    log_level: Option<Option<String>>,
    #[command(flatten)]
    reload: Reload,
}

// A doc comment here would replace the help text of the command.
#[derive(Debug, Args)]
pub(super) struct Reload {
    /// First update the environment file of the systemd unit from the login environment; servers whose variables changed are
    /// restarted
    #[arg(long)]
    pub(super) environment: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run_command(directory: &RuntimeDir, Arguments { log_level, reload }: Arguments) -> CommandResult {
    match log_level {
        Some(filter) => run_log_filter(directory, filter.as_deref(), reload.json).await,
        None => run(directory, reload).await,
    }
}

/// The servers whose failures determine the exit code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    All,
    /// Servers with these names. Failures of other servers are only mentioned.
    Servers(&'a [&'a str]),
}

pub(super) async fn run(directory: &RuntimeDir, Reload { environment, json }: Reload) -> CommandResult {
    let refresh = match environment {
        false => None,
        true => Some(Refresh::begin(directory).await?),
    };
    let activity = || "applying the configuration".to_owned();
    let socket = directory.socket(ADMIN_SOCKET);
    let reload = async {
        match &refresh {
            Some(refresh) => admin::reload_environment(&socket, refresh.changes()).await,
            None => admin::reload(&socket).await,
        }
    };
    let report = match with_spinner(activity, reload).await {
        Ok(report) => report,
        Err(error @ AdminError::Refused(_)) => {
            if let Some(refresh) = refresh {
                refresh.undo();
            }
            return Err(fail(USAGE, error));
        }
        Err(error @ AdminError::NotRunning(_)) => {
            return match autostart::start_failed(directory).await {
                None => Err(admin_failure(&error)),
                Some(Ok(_)) => Ok(print(format!("{SERVICE} had failed and is running again\n"))),
                Some(Err(error)) => Err(failed_start(error)),
            };
        }
        Err(error) => return Err(admin_failure(&error)),
    };
    report.warnings.iter().for_each(|warning| print_note!("{warning}"));
    if let Some(refresh) = refresh.filter(|_| !json) {
        let _ = print(refresh.summary());
    }
    let printed = if json { print_report(&report) } else { print(summary(&report, Scope::All)) };
    Ok(if report.failed.is_empty() { printed } else { ExitCode::from(FAILED) })
}

impl Scope<'_> {
    fn includes(self, server: &str) -> bool {
        match self {
            Self::All => true,
            Self::Servers(names) => names.contains(&server),
        }
    }
}

fn summary(report: &ReloadReport, scope: Scope<'_>) -> String {
    let ReloadReport { unchanged, updated, added, changed, removed, failed, still_down, profiles, .. } = report;
    let unchanged: Vec<_> = unchanged.iter().filter(|name| !updated.contains(name)).cloned().collect();
    let unchanged = if matches!(scope, Scope::All) { unchanged } else { Vec::new() };
    // `mcpd remove` has printed the names of its servers.
    let is_news = |name: &&String| matches!(scope, Scope::All) || !scope.includes(name);
    let removed: Vec<_> = removed.iter().filter(is_news).cloned().collect();
    let lines = [
        ("kept", &unchanged, ""),
        ("updated", updated, " (not restarted)"),
        ("added", added, ""),
        ("changed", changed, ""),
        ("removed", &removed, ""),
    ];
    let mut text: String = (lines.iter().filter(|(_, names, _)| !names.is_empty()))
        .map(|(change, names, note)| format!("{change:13}{}{note}\n", names.join(", ")))
        .collect();
    let profiles = profiles.iter().flat_map(|profiles| {
        [("added", &profiles.added), ("changed", &profiles.changed), ("removed", &profiles.removed)]
    });
    for (change, names) in profiles.filter(|(_, names)| !names.is_empty()) {
        let noun = if names.len() == 1 { "profile" } else { "profiles" };
        text += &format!("{change:13}{noun} {}\n", names.join(", "));
    }
    let failed: Vec<_> = failed.iter().filter(|failed| scope.includes(&failed.name)).collect();
    for ReloadFailure { name, code, reason, runs_on, stderr } in &failed {
        let note = if *runs_on { " (its previous definition keeps running)" } else { "" };
        text += &format!("{:13}{name}: {}{note}\n", "not started", one_line(split_searched_path(reason).0));
        stderr.iter().for_each(|line| text += &format!("    {}\n", one_line(line)));
        let remedy = match &**code {
            "login_needed" => "login",
            _ if stderr.is_empty() => "doctor",
            _ => "logs",
        };
        text += &format!("    → mcpd {remedy} {name}\n");
    }
    let paths = searched_paths(failed.iter().map(|failed| &*failed.reason), "the daemon");
    paths.iter().for_each(|path| text += &format!("{path}\n"));
    let still_down: Vec<_> = still_down.iter().filter(|name| scope.includes(name)).map(String::as_str).collect();
    if !still_down.is_empty() {
        text += &format!("{:13}{}: `mcpd status` shows why\n", "still down", still_down.join(", "));
    }
    if text.is_empty() && matches!(scope, Scope::All) { NO_SERVER.to_owned() } else { text }
}

/// The log filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonLogFilter {
    /// The log filter in effect.
    filter: String,
}

/// Sets the filter, if one is given, and prints the filter in effect.
async fn run_log_filter(directory: &RuntimeDir, filter: Option<&str>, as_json: bool) -> CommandResult {
    filter.map(Filter::parse).transpose().map_err(|error| fail(USAGE, error))?;
    let filter = admin::log_level(&directory.socket(ADMIN_SOCKET), filter).await.map_err(refusal)?;
    Ok(if as_json { print_report(&JsonLogFilter { filter }) } else { print(filter + "\n") })
}

/// Prints why the daemon did not do it. What it refuses is not valid.
fn refusal(error: AdminError) -> ExitCode {
    if let AdminError::Refused(_) = error { fail(USAGE, error) } else { admin_failure(&error) }
}

/// Time limit for the service manager.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The rewritten file.
struct Refresh {
    file: PathBuf,
    former: BTreeMap<String, String>,
    login: LoginEnvironment,
}

impl Refresh {
    /// Writes the file.
    ///
    /// # Errors
    /// The exit code. The file is unchanged then.
    async fn begin(directory: &RuntimeDir) -> Result<Self, ExitCode> {
        let file = find(directory).await.map_err(|reason| fail(FAILED, reason))?;
        let probe = DaemonProbe::run(Some(directory.clone()), Vec::new(), &[]).await;
        let loaded = config::load(&probe.files, &Process).map_err(|error| fail(USAGE, error.render(false)))?;
        let login = with_spinner(|| "the login shell".to_owned(), service_env::of_login(Some(&loaded))).await;
        if let Some(trouble) = &login.trouble {
            return Err(fail(FAILED, format!("{trouble}\n  {} is unchanged", shown(&file))));
        }
        let former = service_env::read(&file);
        let written = service_env::write_private(&file, &service_env::text(&login.variables));
        written.map_err(|error| fail(FAILED, format!("{}: {error}", file.display())))?;
        Ok(Self { file, former, login })
    }

    fn changes(&self) -> EnvironmentChanges {
        EnvironmentChanges(service_env::changes(&self.former, &self.login.variables))
    }

    /// Restores the former variables, because the daemon rejected the new ones.
    fn undo(self) {
        if let Err(error) = service_env::write_private(&self.file, &service_env::text(&self.former)) {
            print_note!("mcpd: {}: {error}", self.file.display());
        }
    }

    /// The names of the written variables.
    fn summary(&self) -> String {
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

/// Maximum number of tools of a server that are named.
const MAX_TOOLS: usize = 3;

/// The `--json` report: that of `mcpd reload`, and the exposed names of the tools of each server in the scope.
#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    reload: &'a ReloadReport,
    tools: BTreeMap<&'a str, Vec<&'a str>>,
}

/// Makes the daemon reload, and prints the result for the servers in `scope`. Fails if one of them does not run.
pub(in crate::cli) async fn reload_after_edit(
    directory: &RuntimeDir,
    scope: Scope<'_>,
    as_json: bool,
) -> CommandResult {
    let activity = || "applying the configuration".to_owned();
    let reloaded = with_spinner(activity, admin::reload(&directory.socket(ADMIN_SOCKET))).await;
    let report = reloaded.map_err(refusal)?;
    let (listed, ToolsSummary { servers, .. }) =
        tool_names::request(directory, ToolsRequest::default()).await.unwrap_or_default();
    let servers: Vec<_> = servers.iter().filter(|server| is_described(&server.name, &report, scope)).collect();
    report.warnings.iter().for_each(|warning| print_note!("{warning}"));
    let printed = if as_json {
        let tools = servers.iter().map(|server| (&*server.name, exposed(&server.name, &listed))).collect();
        try_print_report(&JsonReport { reload: &report, tools })
    } else {
        let lines = servers.iter().map(|server| describe(server, &listed));
        try_print(summary(&report, scope) + &lines.collect::<String>())
    };
    others_failed(&report, scope);
    let failed = report.failed.iter().map(|failed| &failed.name).chain(&report.still_down);
    let has_failed = match scope {
        Scope::All => !report.failed.is_empty(),
        Scope::Servers(_) => failed.into_iter().any(|name| scope.includes(name)),
    };
    printed.map(|()| if has_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Names the failed servers outside of `scope`.
pub(in crate::cli) fn others_failed(report: &ReloadReport, scope: Scope<'_>) {
    let failed = report.failed.iter().map(|failed| &*failed.name);
    let others: Vec<_> = failed.filter(|name| !scope.includes(name)).collect();
    if !others.is_empty() {
        print_note!("mcpd: also new or changed, and not started: {}; `mcpd status` shows why", others.join(", "));
    }
}

/// Whether the tools of a server are printed: it runs, and the edit may have changed them.
fn is_described(name: &str, report: &ReloadReport, scope: Scope<'_>) -> bool {
    let is_in = |names: &[String]| names.iter().any(|one| one == name);
    let is_down = is_in(&report.still_down) || report.failed.iter().any(|failed| failed.name == name);
    let is_changed = match scope {
        Scope::All => [&report.added, &report.changed, &report.updated].into_iter().any(|names| is_in(names)),
        Scope::Servers(_) => scope.includes(name),
    };
    is_changed && !is_down
}

/// The exposed names of a server's tools.
fn exposed<'t>(server: &str, tools: &'t [ToolReport]) -> Vec<&'t str> {
    tools.iter().filter(|tool| tool.server == server).filter_map(|tool| tool.name.as_deref()).collect()
}

/// A line about the tools that agents see of a server.
fn describe(ToolServer { name, state, missing, .. }: &ToolServer, tools: &[ToolReport]) -> String {
    let (exposed, all) = (exposed(name, tools), tools.iter().filter(|tool| tool.server == *name).count());
    let shown: Vec<_> = exposed.iter().map(|tool| one_line(tool)).collect();
    let tools = match (exposed.len(), all) {
        _ if *state == StateName::Disabled => format!("disabled; `mcpd enable {name}` starts it"),
        (0, 0) if *missing => format!("{state}; it has not listed its tools yet"),
        (0, 0) => "has no tools".to_owned(),
        (0, all) => {
            format!("agents see none of its {}: `mcpd tools {name} --all` shows why", count(all, "tool"))
        }
        (exposed, _) => format!("agents see {}: {}", count(exposed, "tool"), join_limited(&shown, MAX_TOOLS)),
    };
    format!("{name}: {tools}\n")
}
