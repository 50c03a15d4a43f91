//! The reload after mcpd has edited the configuration: what changed, and the tools that agents see now.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;

use super::{Scope, summary};
use crate::admin::report::{ReloadReport, StateName, ToolReport, ToolServer, ToolsSummary};
use crate::admin::{self, AdminError, ToolsRequest};
use crate::cli::spinner::with_spinner;
use crate::cli::text::{count, join_limited, one_line};
use crate::cli::{FAILED, USAGE, admin_failure, fail, json, tool_names, try_print};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

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
pub(in crate::cli) async fn apply(directory: &RuntimeDir, scope: Scope<'_>, as_json: bool) -> ExitCode {
    let activity = || "applying the configuration".to_owned();
    let report = match with_spinner(activity, admin::reload(&directory.socket(ADMIN_SOCKET))).await {
        Ok(report) => report,
        Err(error @ AdminError::Refused(_)) => return fail(USAGE, error),
        Err(error) => return admin_failure(&error),
    };
    let (listed, ToolsSummary { servers, .. }) =
        tool_names::request(directory, ToolsRequest::default()).await.unwrap_or_default();
    let servers: Vec<_> = servers.iter().filter(|server| is_described(&server.name, &report, scope)).collect();
    report.warnings.iter().for_each(|warning| print_note!("{warning}"));
    let printed = if as_json {
        let tools = servers.iter().map(|server| (&*server.name, exposed(&server.name, &listed))).collect();
        json::try_print_page(&JsonReport { reload: &report, tools })
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
    match printed {
        Err(code) => code,
        Ok(()) if has_failed => ExitCode::from(FAILED),
        Ok(()) => ExitCode::SUCCESS,
    }
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
