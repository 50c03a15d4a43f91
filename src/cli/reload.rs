//! `mcpd reload`.

mod refresh;

use std::process::ExitCode;

use self::refresh::Refresh;
use super::spinner::with_spinner;
use super::text::{one_line, searched_paths, split_searched_path};
use super::{FAILED, USAGE, admin_failure, fail, json, print};
use crate::admin::report::{ReloadFailed, ReloadReport};
use crate::admin::{self, AskError};
use crate::autostart;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// Whose failures the exit code of a reload is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// Those of all servers.
    All,
    /// Those of the servers with these names; others are only named.
    Servers(&'a [&'a str]),
}

pub(super) async fn run(directory: &RuntimeDir, with_environment: bool, as_json: bool, scope: Scope<'_>) -> ExitCode {
    let refresh = match with_environment {
        false => None,
        true => match Refresh::begin(directory).await {
            Ok(refresh) => Some(refresh),
            Err((code, why)) => return fail(code, why),
        },
    };
    let what = || "reading the configuration again, and starting what it changes".to_owned();
    let socket = directory.socket(ADMIN_SOCKET);
    let reload = async {
        match &refresh {
            Some(refresh) => admin::reload_environment(&socket, refresh.changes()).await,
            None => admin::reload(&socket).await,
        }
    };
    let report = match with_spinner(what, reload).await {
        Ok(report) => report,
        Err(error @ AskError::Refused(_)) => {
            if let Some(refresh) = refresh {
                refresh.undo();
            }
            return fail(USAGE, error);
        }
        Err(error @ AskError::NotRunning(_)) => {
            return match autostart::start_failed(directory).await {
                None => admin_failure(&error),
                Some(Ok(_)) => print(format!("{SERVICE} had failed, and was started\n")),
                Some(Err(error)) => fail(if error.is_configuration() { USAGE } else { FAILED }, error),
            };
        }
        Err(error) => return admin_failure(&error),
    };
    report.warnings.iter().for_each(|warning| print_note!("{warning}"));
    if let Some(refresh) = refresh.filter(|_| !as_json) {
        let _ = print(refresh.summary());
    }
    let said = if as_json { json::page(&report).map_or_else(|code| code, print) } else { print(shown(&report, scope)) };
    let others: Vec<_> = report.failed.iter().filter(|failed| !scope.has(failed)).map(|failed| &*failed.name).collect();
    if !others.is_empty() {
        print_note!("mcpd: other servers failed: {}; `mcpd status` shows why", others.join(", "));
    }
    if others.len() == report.failed.len() { said } else { ExitCode::from(FAILED) }
}

impl Scope<'_> {
    fn has(self, failed: &ReloadFailed) -> bool {
        match self {
            Self::All => true,
            Self::Servers(names) => names.contains(&&*failed.name),
        }
    }
}

fn shown(report: &ReloadReport, scope: Scope<'_>) -> String {
    let ReloadReport { kept, updated, added, changed, removed, failed, still_down, .. } = report;
    let kept: Vec<_> = kept.iter().filter(|name| !updated.contains(name)).cloned().collect();
    let lines = [
        ("kept", &kept, ""),
        ("updated", updated, " (not restarted)"),
        ("added", added, ""),
        ("changed", changed, ""),
        ("removed", removed, ""),
    ];
    let mut said: String = (lines.iter().filter(|(_, names, _)| !names.is_empty()))
        .map(|(what, names, note)| format!("{what:9}{}{note}\n", names.join(", ")))
        .collect();
    let failed: Vec<_> = failed.iter().filter(|failed| scope.has(failed)).collect();
    for ReloadFailed { name, reason, runs_on, stderr, .. } in &failed {
        let then = if *runs_on { "; it goes on as it was" } else { "" };
        said += &format!("{:9}{name}: {}{then}\n", "failed", one_line(split_searched_path(reason).0));
        stderr.iter().for_each(|line| said += &format!("    {}\n", one_line(line)));
    }
    let paths = searched_paths(failed.iter().map(|failed| &*failed.reason));
    paths.iter().for_each(|path| said += &format!("{path}\n"));
    if !still_down.is_empty() {
        said += &format!("{:9}{}; `mcpd status` shows why\n", "down", still_down.join(", "));
    }
    if said.is_empty() { "no server is configured\n".to_owned() } else { said }
}
