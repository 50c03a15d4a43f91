//! `mcpd status`: what went wrong first, then the servers, what is to know of them, the agents and the sockets.

mod absent;
mod notes;
mod tables;
mod trouble;
mod watch;

use std::process::ExitCode;

use unicode_width::UnicodeWidthStr;

use super::spinner::with_spinner;
use super::style::{OutputStyle, Tone};
use super::text::{count, short_duration};
use super::{FAILED, admin_failure, changed_files, json, print};
use crate::admin::report::{NEEDS_LOGIN, Report, ServerReport};
use crate::admin::{self, AskError};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) use self::watch::run as watch;

pub(super) async fn run(directory: &RuntimeDir, check: bool, as_json: bool) -> ExitCode {
    let socket = directory.socket(ADMIN_SOCKET);
    let asked = async { if check { admin::check(&socket).await } else { admin::status(&socket).await } };
    let what = || "asking every server how it is".to_owned();
    let report = match with_spinner(what, asked).await {
        Ok(report) => with_other_daemons(changed_files::compared(report), directory),
        Err(AskError::NotRunning(path)) => return absent::report(directory, &path).await,
        Err(error) => return admin_failure(&error),
    };
    let printed = if as_json {
        json::page(&report).map_or_else(|code| code, print)
    } else {
        print(render(&report, OutputStyle::of_stdout()))
    };
    if report.servers.iter().any(is_down) { ExitCode::from(FAILED) } else { printed }
}

fn with_other_daemons(mut report: Report, directory: &RuntimeDir) -> Report {
    let others = directory.others_served(|name| std::env::var_os(name));
    report.other_daemons = others.iter().map(|other| other.path().display().to_string()).collect();
    report
}

/// Whether it is not as it is wanted.
fn is_down(server: &ServerReport) -> bool {
    let is_bad = matches!(&*server.state, "failed" | "backoff" | "unresponsive" | NEEDS_LOGIN);
    let is_well = match server.vouched.as_deref() {
        Some("up") => true,
        Some("down") => false,
        _ => server.answers != Some(false),
    };
    !server.disabled && (is_bad || !is_well)
}

/// The report as a person reads it.
pub(super) fn render(report: &Report, style: OutputStyle) -> String {
    let parts = [
        head(report, style),
        trouble::of_the_configuration(report, style),
        trouble::other_daemons(report, style),
        trouble::of_servers(&report.servers, style),
        tables::servers(&report.servers, style),
        tables::remotes(&report.servers, style),
        notes::notes(&report.servers, style),
        tables::agents(&report.agents, style),
        tables::profiles(report, style),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The same for a view that has no room for it: one line for each server that is down, and the table of the others.
pub(super) fn render_brief(report: &Report, style: OutputStyle) -> String {
    let others: Vec<_> = report.servers.iter().filter(|server| !trouble::is_in_trouble(server)).cloned().collect();
    let parts = [
        head(report, style),
        trouble::of_the_configuration(report, style),
        trouble::brief(&report.servers, style),
        if others.is_empty() { String::new() } else { tables::servers(&others, style) },
        notes::notes(&report.servers, style),
        tables::agents(&report.agents, style),
        tables::profiles(report, style),
    ];
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
    let whole: usize = [&*name, &daemon, &servers, &down, &agents].map(UnicodeWidthStr::width).iter().sum();
    let between = if style.width().is_some_and(|width| whole + 3 > width) { "\n" } else { " · " };
    let (name, down) = (style.paint(Tone::Head, &name), style.paint(Tone::Bad, &down));
    format!("{name}{daemon}{between}{servers}{down}{agents}\n")
}

#[cfg(test)]
mod tests;
