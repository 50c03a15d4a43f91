//! `mcpd status`: problems first, then servers, notes about them, agents and profiles. `--watch` shows them in a full-screen view on a terminal;
//! in a pipe, it prints a report after each change.

pub(super) mod advice;
mod notes;
mod problems;
mod tables;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::daemon_report::{self, LatestReport, Reports, with_changed_files, with_installed_version};
use super::outcome::{not_running_with, print_report, print_report_line};
use super::scroll::Scroll;
use super::style::{OutputStyle, Tone};
use super::terminal::{Screen, ScreenEvent, dimensions, with_spinner};
use super::text::{count, one_line, short_duration};
use super::{CommandResult, FAILED, USAGE, admin_failure, completions, fail, print, try_print};
use crate::admin::report::{InstanceReport, Report, ServerReport, StateName};
use crate::admin::{self, AdminError};
use crate::autostart::{UnitState, Units};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::hint;
use crate::systemctl::SERVICE;

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

pub(super) async fn run(directory: &RuntimeDir, status: &Status) -> CommandResult {
    let &Status { check, watch, json: as_json, ref servers } = status;
    if watch {
        return watch_status(directory, as_json).await;
    }
    let socket = directory.socket(ADMIN_SOCKET);
    let request = async { if check { admin::check(&socket).await } else { admin::status(&socket).await } };
    let mut report = match with_spinner(|| "checking every server".to_owned(), request).await {
        Ok(report) => with_other_daemons(with_installed_version(with_changed_files(report)).await, directory),
        Err(AdminError::NotRunning(path)) => return Err(explain_unreachable(directory, &path).await),
        Err(error) => return Err(admin_failure(&error)),
    };
    let known = || report.servers.iter().map(|server| &*server.name);
    if let Some(name) = servers.iter().find(|name| !known().any(|known| known == **name)) {
        return Err(fail(USAGE, format!("there is no server `{}`{}", one_line(name), hint(name, known()))));
    }
    report.servers.retain(|server| servers.is_empty() || servers.contains(&server.name));
    if !servers.is_empty() && !as_json {
        report.profiles.clear();
    }
    let printed = if as_json { print_report(&report) } else { print(render(&report, OutputStyle::of_stdout())) };
    Ok(if report.servers.iter().any(has_failed) { ExitCode::from(FAILED) } else { printed })
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
pub(super) fn has_failed(server: &ServerReport) -> bool {
    is_down(server) || !server.disabled && server.instances.iter().any(InstanceReport::is_down)
}

/// Whether an enabled server is being started again after a failure.
fn is_retrying(server: &ServerReport) -> bool {
    !server.disabled && server.state == StateName::Starting && server.last_error.is_some()
}

pub(super) fn render(report: &Report, style: OutputStyle) -> String {
    join_parts([
        head(report, style),
        problems::of_program(report, style),
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

/// What is wrong with one server, with the remedy; empty if nothing is.
pub(super) fn problem(server: &ServerReport, style: OutputStyle) -> String {
    problems::of_one(server, style)
}

/// What there is to say about one server.
pub(super) fn server_notes(server: &ServerReport, style: OutputStyle) -> Vec<String> {
    notes::of_server(server, style)
}

/// The versions of MCP in use with one server.
pub(super) use tables::versions;

/// A shorter report for small terminals: a few lines for each server with a problem, and a table of the others.
fn render_brief(report: &Report, style: OutputStyle) -> String {
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
    let idle = report.idle_exit_ms.map(|ms| format!(" · ends after {} without agents", short_duration(ms)));
    let idle = idle.unwrap_or_default();
    let daemon = format!(" · pid {} · up {}{idle}", report.pid, short_duration(report.uptime_ms));
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

/// Prints why nothing listens at `path`.
async fn explain_unreachable(directory: &RuntimeDir, path: &Path) -> ExitCode {
    let details = match Units::find(directory).await {
        Some(units) => format!("  {SERVICE} is installed and {}\n", unit_summary(&units.settle().await.state())),
        None => String::new(),
    };
    not_running_with(path, &details)
}

fn unit_summary(state: &UnitState) -> String {
    match state {
        UnitState::Failed(why) => format!("has failed: {why}\n  `journalctl --user --unit mcpd` has its log"),
        UnitState::SocketActivated => "socket-activated: the first agent that connects starts it".to_owned(),
        UnitState::Stopped => "stopped".to_owned(),
        UnitState::Running(word) => {
            format!("{word}, but does not listen here: `mcpd service status` shows how it is started")
        }
    }
}

async fn watch_status(directory: &RuntimeDir, as_json: bool) -> CommandResult {
    let mut reports = daemon_report::poll(directory.socket(ADMIN_SOCKET));
    let latest = LatestReport::first(&mut reports).await?;
    if io::stdout().is_terminal() && !as_json {
        return show_on_screen(reports, latest).await.map_err(|error| fail(FAILED, error));
    }
    print_changes(reports, latest.report, as_json).await.map(|()| ExitCode::SUCCESS)
}

async fn show_on_screen(mut reports: Reports, mut latest: LatestReport) -> io::Result<ExitCode> {
    let (mut screen, mut scroll) = (Screen::open()?, Scroll::default());
    latest.report = with_changed_files(latest.report);
    loop {
        draw(&screen, &latest, &mut scroll)?;
        tokio::select! {
            result = reports.recv() => match result {
                Some(result) => {
                    latest.update(result);
                    latest.report = with_changed_files(latest.report);
                }
                None => return Ok(ExitCode::from(FAILED)),
            },
            event = screen.next_event() => match event.command() {
                ScreenEvent::Move(motion) => scroll.press(motion),
                ScreenEvent::Escape => return Ok(ExitCode::SUCCESS),
                ScreenEvent::Leave(signal) => {
                    screen.leave(signal);
                    return Ok(ExitCode::SUCCESS);
                }
                _ => {}
            },
        }
    }
}

fn draw(screen: &Screen, latest: &LatestReport, scroll: &mut Scroll) -> io::Result<()> {
    let style = OutputStyle::of_stdout().scrolled();
    let notice = latest.outage_notice(style);
    let room = dimensions().1.saturating_sub(1 + notice.lines().count());
    let whole = render(&latest.report, style);
    let fits = whole.lines().count() <= room;
    let (shown, position) = scroll.lines(&if fits { whole } else { render_brief(&latest.report, style) }, room);
    let position = position.map_or_else(|| "updated every second".to_owned(), |all| all + " · ↑ ↓ PgUp PgDn scroll");
    screen.draw(&(notice + &shown), &format!("{position} · q quits"))
}

async fn print_changes(mut reports: Reports, first: Report, as_json: bool) -> Result<(), ExitCode> {
    let mut next = Some(Ok(first));
    let (mut last, mut is_unreachable) = (Value::Null, false);
    while let Some(result) = next {
        match result {
            Ok(report) => {
                let report = with_changed_files(report);
                let current = without_timers(serde_json::to_value(&report).map_err(|error| fail(FAILED, error))?);
                if current != last && as_json {
                    print_report_line(&report)?;
                } else if current != last {
                    let separator = if last.is_null() { "" } else { "────\n" };
                    try_print(separator.to_owned() + &render(&report, OutputStyle::of_stdout()))?;
                }
                (last, is_unreachable) = (current, false);
            }
            Err(error) => {
                if !is_unreachable {
                    print_note!("mcpd: {error}; retrying");
                }
                is_unreachable = true;
            }
        }
        next = reports.recv().await;
    }
    Ok(())
}

/// The report without the fields that change with time alone.
fn without_timers(mut report: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Object(members) => {
                for timer in ["uptime_ms", "connected_ms", "checked_ms", "retry_in_ms", "running_ms"] {
                    members.remove(timer);
                }
                members.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    strip(&mut report);
    report
}
