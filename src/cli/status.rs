//! `mcpd status`.

use std::process::ExitCode;
use std::time::Duration;

use super::text::table;
use super::{FAILED, NOT_RUNNING, fail, say};
use crate::admin::report::{AgentReport, Report, ServerReport};
use crate::admin::{self, AskError};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, json: bool) -> ExitCode {
    let report = match admin::status(&directory.socket(ADMIN_SOCKET)).await {
        Ok(report) => report,
        Err(error @ AskError::NotRunning(_)) => return fail(NOT_RUNNING, error),
        Err(error) => return fail(FAILED, error),
    };
    let printed = if json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => say(json + "\n"),
            Err(error) => fail(FAILED, error),
        }
    } else {
        say(render(&report))
    };
    let failed = report.servers.iter().any(|server| matches!(&*server.state, "failed" | "backoff" | "unresponsive"));
    if failed { ExitCode::from(FAILED) } else { printed }
}

/// The report as a person reads it.
pub(super) fn render(report: &Report) -> String {
    let up = duration(report.uptime_ms);
    let mut text = format!("mcpd {} · pid {} · up {up}\n\n", report.version, report.pid);
    if report.servers.is_empty() {
        text += "no servers are configured: see `mcpd serve --help`\n";
    } else {
        text += &servers(&report.servers);
        report.servers.iter().for_each(|server| text += &trouble(server));
    }
    text += "\n";
    if report.agents.is_empty() {
        text += "no agents are connected\n";
    } else {
        text += &agents(&report.agents);
    }
    for profile in &report.profiles {
        text += &format!("\nprofile {} · {} tools · {}\n", profile.name, profile.tools, profile.socket);
    }
    text
}

fn servers(servers: &[ServerReport]) -> String {
    let header = ["SERVER", "STATE", "PID", "UP", "VERSION", "TOOLS", "DENIED", "CALLS", "ERRORS", "RESTARTS"];
    let row = |server: &ServerReport| {
        [
            server.name.clone(),
            server.state.clone(),
            server.pid.map_or_else(dash, |pid| pid.to_string()),
            server.uptime_ms.map_or_else(dash, duration),
            server.protocol.clone().unwrap_or_else(dash),
            format!("{}{}", server.tools_exposed, if server.tools_truncated { "+" } else { "" }),
            server.tools_denied.to_string(),
            server.calls.to_string(),
            server.errors.to_string(),
            server.restarts.to_string(),
        ]
    };
    table(header, servers.iter().map(row))
}

/// What has gone wrong with a server, below the table: sentences do not fit into columns.
fn trouble(server: &ServerReport) -> String {
    let Some(error) = server.reason.as_ref().or(server.last_error.as_ref()) else { return String::new() };
    let retry = server.retry_in_ms.map(|ms| format!(" (next try in {})", duration(ms))).unwrap_or_default();
    let last = if server.reason.is_some() { "" } else { "last error: " };
    let mut text = format!("\n{}: {last}{error}{retry}\n", server.name);
    for line in &server.stderr {
        text += &format!("    {line}\n");
    }
    text
}

fn agents(agents: &[AgentReport]) -> String {
    let row = |agent: &AgentReport| {
        [
            agent.session.to_string(),
            agent.client.clone().unwrap_or_else(dash),
            agent.pid.map_or_else(dash, |pid| pid.to_string()),
            agent.profile.clone(),
            agent.protocol.clone().unwrap_or_else(dash),
            duration(agent.connected_ms),
            agent.calls.to_string(),
        ]
    };
    table(["AGENT", "CLIENT", "PID", "PROFILE", "VERSION", "CONNECTED", "CALLS"], agents.iter().map(row))
}

fn dash() -> String {
    "–".to_owned()
}

/// To the second, or to the millisecond below one.
fn duration(ms: u64) -> String {
    let shown = if ms < 1000 { ms } else { ms / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(shown)).to_string()
}
