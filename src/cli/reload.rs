//! `mcpd reload`: applies the changed configuration, or changes the log filter of the running daemon.

mod after_edit;
pub(super) mod log_filter;
mod refresh;

use std::process::ExitCode;

use clap::Args;

pub(super) use self::after_edit::{apply, others_failed};
use self::refresh::Refresh;
use super::spinner::with_spinner;
use super::text::{one_line, searched_paths, split_searched_path};
use super::{FAILED, USAGE, admin_failure, fail, json, print};
use crate::admin::report::{ReloadFailure, ReloadReport};
use crate::admin::{self, AdminError};
use crate::autostart;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

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

pub(super) async fn run_command(directory: &RuntimeDir, Arguments { log_level, reload }: Arguments) -> ExitCode {
    match log_level {
        Some(filter) => log_filter::run(directory, filter.as_deref(), reload.json).await,
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

pub(super) async fn run(directory: &RuntimeDir, Reload { environment, json }: Reload) -> ExitCode {
    let refresh = match environment {
        false => None,
        true => match Refresh::begin(directory).await {
            Ok(refresh) => Some(refresh),
            Err((code, reason)) => return fail(code, reason),
        },
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
            return fail(USAGE, error);
        }
        Err(error @ AdminError::NotRunning(_)) => {
            return match autostart::start_failed(directory).await {
                None => admin_failure(&error),
                Some(Ok(_)) => print(format!("{SERVICE} had failed and is running again\n")),
                Some(Err(error)) => fail(if error.is_configuration() { USAGE } else { FAILED }, error),
            };
        }
        Err(error) => return admin_failure(&error),
    };
    report.warnings.iter().for_each(|warning| print_note!("{warning}"));
    if let Some(refresh) = refresh.filter(|_| !json) {
        let _ = print(refresh.summary());
    }
    let printed = if json { json::print(&report) } else { print(summary(&report, Scope::All)) };
    if report.failed.is_empty() { printed } else { ExitCode::from(FAILED) }
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
