//! `mcpd status`: problems first, then servers, notes about them, agents and profiles.

mod notes;
mod problems;
mod tables;
mod unreachable;
mod watch;

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use unicode_width::UnicodeWidthStr;

use super::spinner::with_spinner;
use super::style::{OutputStyle, Tone};
use super::text::{count, one_line, short_duration};
use super::{FAILED, USAGE, admin_failure, changed_files, completions, fail, json, print};
use crate::admin::report::{InstanceReport, Report, ServerReport, StateName};
use crate::admin::{self, AdminError};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::hint;

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Show only these servers
    #[arg(value_name = "SERVER", conflicts_with = "watch", add = ArgValueCandidates::new(completions::servers))]
    servers: Vec<String>,
    /// Check the health of every running server first; exit 1 if one does not answer within its `health_timeout`
    #[arg(long)]
    check: bool,
    /// Update the view until `q` or Ctrl-C; in a pipe, print the report after each change
    #[arg(short, long, conflicts_with = "check")]
    watch: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(directory: &RuntimeDir, status: &Status) -> ExitCode {
    let &Status { check, watch, json: as_json, ref servers } = status;
    if watch {
        return watch::run(directory, as_json).await;
    }
    let socket = directory.socket(ADMIN_SOCKET);
    let request = async { if check { admin::check(&socket).await } else { admin::status(&socket).await } };
    let mut report = match with_spinner(|| "checking every server".to_owned(), request).await {
        Ok(report) => with_other_daemons(changed_files::compared(report), directory),
        Err(AdminError::NotRunning(path)) => return unreachable::explain(directory, &path).await,
        Err(error) => return admin_failure(&error),
    };
    let known = || report.servers.iter().map(|server| &*server.name);
    if let Some(name) = servers.iter().find(|name| !known().any(|known| known == **name)) {
        return fail(USAGE, format!("there is no server `{}`{}", one_line(name), hint(name, known())));
    }
    report.servers.retain(|server| servers.is_empty() || servers.contains(&server.name));
    let printed = if as_json { json::print(&report) } else { print(render(&report, OutputStyle::of_stdout())) };
    if report.servers.iter().any(has_failed) { ExitCode::from(FAILED) } else { printed }
}

fn with_other_daemons(mut report: Report, directory: &RuntimeDir) -> Report {
    let others = directory.others_served(|name| std::env::var_os(name));
    report.other_daemons = others.iter().map(|other| other.path().display().to_string()).collect();
    report
}

/// Whether an enabled server fails, is started again after a failure, or is unhealthy.
pub(super) fn is_down(server: &ServerReport) -> bool {
    !server.disabled && (server.state.is_down() || is_retrying(server) || server.answers == Some(false))
}

/// Whether an enabled server is down, or one of its instances.
fn has_failed(server: &ServerReport) -> bool {
    is_down(server) || !server.disabled && server.instances.iter().any(InstanceReport::is_down)
}

/// Whether an enabled server is being started again after a failure.
fn is_retrying(server: &ServerReport) -> bool {
    !server.disabled && server.state == StateName::Starting && server.last_error.is_some()
}

pub(super) fn render(report: &Report, style: OutputStyle) -> String {
    join_parts([
        head(report, style),
        problems::of_configuration(report, style),
        problems::other_daemons(report, style),
        problems::of_servers(&report.servers, style),
        tables::servers(&report.servers, style),
        tables::remotes(&report.servers, style),
        notes::notes(report, style),
        tables::agents(&report.agents, style),
        tables::profiles(report, style),
        tables::quotas(report, style),
    ])
}

/// A shorter report for small terminals: one line for each server with a problem, and a table of the others.
pub(super) fn render_brief(report: &Report, style: OutputStyle) -> String {
    let others: Vec<_> = report.servers.iter().filter(|server| !is_down(server)).cloned().collect();
    join_parts([
        head(report, style),
        problems::of_configuration(report, style),
        problems::brief(&report.servers, style),
        if others.is_empty() { String::new() } else { tables::servers(&others, style) },
        notes::notes(report, style),
        tables::agents(&report.agents, style),
        tables::profiles(report, style),
        tables::quotas(report, style),
    ])
}

fn join_parts(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn head(report: &Report, style: OutputStyle) -> String {
    let name = format!("mcpd {}", report.version);
    let daemon = format!(" · pid {} · up {}", report.pid, short_duration(report.uptime_ms));
    let servers = count(report.servers.len(), "server");
    let down = match report.servers.iter().filter(|server| is_down(server)).count() {
        0 => String::new(),
        down => format!(", {down} down"),
    };
    let agents = format!(" · {}", count(report.agents.len(), "agent"));
    let total: usize = [&*name, &daemon, &servers, &down, &agents].map(UnicodeWidthStr::width).iter().sum();
    let separator = if style.width().is_some_and(|width| total + 3 > width) { "\n" } else { " · " };
    let (name, down) = (style.paint(Tone::Head, &name), style.paint(Tone::Bad, &down));
    format!("{name}{daemon}{separator}{servers}{down}{agents}\n")
}

#[cfg(test)]
mod tests;
