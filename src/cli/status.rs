//! `mcpd status`.

mod notes;

use std::iter;
use std::process::ExitCode;
use std::time::Duration;

use super::look::{Cell, Look, Tone};
use super::text::{marked, one_line};
use super::waiting::waiting;
use super::{FAILED, NOT_RUNNING, fail, say};
use crate::admin::report::{AgentReport, InstanceReport, ProfileReport, ReloadRefused, Report, ServerReport};
use crate::admin::{self, AskError};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Instances of one server that the table shows; `--json` has them all.
const INSTANCES: usize = 8;
/// Characters of what an instance is for.
const LONGEST_PURPOSE: usize = 40;

pub(super) async fn run(directory: &RuntimeDir, check: bool, json: bool) -> ExitCode {
    let socket = directory.socket(ADMIN_SOCKET);
    let asked = async { if check { admin::check(&socket).await } else { admin::status(&socket).await } };
    let what = || "asking every server how it is".to_owned();
    let report = match waiting(what, asked).await {
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
    if report.servers.iter().any(is_down) { ExitCode::from(FAILED) } else { printed }
}

/// Whether it is not as it is wanted.
fn is_down(server: &ServerReport) -> bool {
    let is_bad = matches!(&*server.state, "failed" | "backoff" | "unresponsive");
    let is_well = match server.vouched.as_deref() {
        Some("up") => true,
        Some("down") => false,
        _ => server.answers != Some(false),
    };
    !server.disabled && (is_bad || !is_well)
}

/// The report as a person reads it.
pub(super) fn render(report: &Report) -> String {
    let up = duration(report.uptime_ms);
    let head = format!("mcpd {} · pid {} · up {up}", report.version, report.pid);
    let mut text = format!("{}\n\n", Look::of_stdout().paint(Tone::Head, &head));
    if let Some(ReloadRefused { time, reason }) = &report.reload_refused {
        text += &format!("the configuration was read again at {time} and does not hold, so nothing has changed:\n");
        reason.lines().for_each(|line| text += &format!("    {line}\n"));
        text += "\n";
    }
    if report.servers.is_empty() {
        text += "no servers are configured: see `mcpd serve --help`\n";
    } else {
        text += &servers(&report.servers);
        report
            .servers
            .iter()
            .for_each(|server| text += &(trouble(server) + &unlimited(server) + &notes::notes(server)));
    }
    text += "\n";
    if report.agents.is_empty() {
        text += "no agents are connected\n";
    } else {
        text += &agents(&report.agents);
    }
    text += "\n";
    report.profiles.iter().for_each(|one| text += &profile(one, report.servers.len()));
    text
}

fn profile(ProfileReport { name, socket, servers, tools, agents }: &ProfileReport, of: usize) -> String {
    let servers = match servers.len() {
        0 => "no servers".to_owned(),
        all if all == of => "all servers".to_owned(),
        _ => servers.join(", "),
    };
    let plural = |count: usize, noun| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let (tools, agents) = (plural(*tools, "tool"), plural(*agents, "agent"));
    format!("profile {name} · {servers} · {tools} · {agents} · {socket}\n")
}

fn servers(servers: &[ServerReport]) -> String {
    let header = ["SERVER", "STATE", "PID", "UP", "VERSION", "TOOLS", "DENIED", "CALLS", "ERRORS", "RESTARTS"];
    Look::of_stdout()
        .table(header, servers.iter().flat_map(|server| iter::once(row(server)).chain(instances(&server.instances))))
}

fn row(server: &ServerReport) -> [Cell; 10] {
    [
        server.name.as_str().into(),
        Cell::new(tone(server), shown_state(server)),
        server.pid.map_or_else(dash, |pid| pid.to_string()).into(),
        server.uptime_ms.map_or_else(dash, duration).into(),
        server.protocol.clone().unwrap_or_else(dash).into(),
        format!("{}{}", server.tools_exposed, if server.tools_truncated { "+" } else { "" }).into(),
        server.tools_denied.to_string().into(),
        server.calls.to_string().into(),
        server.errors.to_string().into(),
        server.restarts.to_string().into(),
    ]
}

fn tone(server: &ServerReport) -> Tone {
    match &*server.state {
        _ if is_down(server) => Tone::Bad,
        _ if server.disabled => Tone::Faint,
        "ready" => Tone::Good,
        "starting" | "stopping" => Tone::Doubtful,
        _ => Tone::Plain,
    }
}

fn shown_state(server: &ServerReport) -> String {
    let state = if server.disabled && server.state != "stopping" { "disabled" } else { &server.state };
    marked(state, server.vouched.as_deref())
}

/// A row for each of the first, below that of their server; what is told of the server only is left out.
fn instances(all: &[InstanceReport]) -> Vec<[Cell; 10]> {
    let row = |one: &InstanceReport| {
        let [version, tools, denied] = [const { String::new() }; 3].map(Cell::from);
        [
            format!("  {}", shortened(&one.purpose)).into(),
            one.state.as_str().into(),
            one.pid.map_or_else(dash, |pid| pid.to_string()).into(),
            one.uptime_ms.map_or_else(dash, duration).into(),
            version,
            tools,
            denied,
            one.calls.to_string().into(),
            one.errors.to_string().into(),
            one.restarts.to_string().into(),
        ]
    };
    let mut rows: Vec<_> = all.iter().take(INSTANCES).map(row).collect();
    if all.len() > INSTANCES {
        let mut more = [const { String::new() }; 10].map(Cell::from);
        more[0] = format!("  … {} more", all.len() - INSTANCES).into();
        rows.push(more);
    }
    rows
}

/// The end of what is too long for a table: directories differ there.
fn shortened(purpose: &str) -> String {
    let purpose = one_line(purpose);
    let surplus = purpose.chars().count().saturating_sub(LONGEST_PURPOSE);
    if surplus == 0 { purpose } else { ['…'].into_iter().chain(purpose.chars().skip(surplus + 1)).collect() }
}

/// What has gone wrong with a server, below the table: sentences do not fit into columns.
fn trouble(server: &ServerReport) -> String {
    if server.disabled {
        return String::new();
    }
    let mut text = String::new();
    if let Some(error) = server.reason.as_ref().or(server.last_error.as_ref()) {
        let retry = server.retry_in_ms.map(|ms| format!(" (next try in {})", duration(ms))).unwrap_or_default();
        let last = if server.reason.is_some() { "" } else { "last error: " };
        text += &format!("\n{}: {last}{error}{retry}\n", server.name);
    }
    let of_instances = server.instances.iter().filter_map(|one| Some((one, one.reason.as_ref()?)));
    for (one, reason) in of_instances.filter(|(_, reason)| Some(*reason) != server.reason.as_ref()).take(INSTANCES) {
        text += &format!("\n{} ({}): {reason}\n", server.name, shortened(&one.purpose));
    }
    if !text.is_empty() {
        server.stderr.iter().for_each(|line| text += &format!("    {line}\n"));
    }
    text + &silence(server)
}

/// What was asked how it is and did not answer, unless it is known to be unresponsive.
fn silence(server: &ServerReport) -> String {
    let is_silent = |answers: Option<bool>, reason: &Option<String>| answers == Some(false) && reason.is_none();
    let silent = server.instances.iter().filter(|one| is_silent(one.answers, &one.reason)).take(INSTANCES);
    let mut text: String =
        silent.map(|one| format!("\n{} ({}): does not answer\n", server.name, shortened(&one.purpose))).collect();
    if server.instances.is_empty() && is_silent(server.answers, &server.reason) {
        text += &format!("\n{}: does not answer\n", server.name);
    }
    text
}

/// Says so of limits that do not hold.
fn unlimited(server: &ServerReport) -> String {
    let limits = server.limits.as_ref();
    let said = limits.and_then(|limits| limits.state.as_ref().zip(limits.reason.as_ref()));
    said.map_or_else(String::new, |(state, reason)| format!("\n{}: limits {state}: {reason}\n", server.name))
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
    Look::of_stdout()
        .table(["AGENT", "CLIENT", "PID", "PROFILE", "VERSION", "CONNECTED", "CALLS"], agents.iter().map(row))
}

fn dash() -> String {
    "–".to_owned()
}

/// To the second, or to the millisecond below one.
fn duration(ms: u64) -> String {
    let shown = if ms < 1000 { ms } else { ms / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(shown)).to_string()
}
