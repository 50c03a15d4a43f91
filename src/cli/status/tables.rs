//! Tables of servers, agents and profiles. A terminal shows the first rows of long ones.

use std::collections::BTreeSet;
use std::iter;

use super::is_down;
use crate::admin::report::{
    AgentReport, InstanceReport, ProfileReport, QuotaReport, RemoteReport, Report, ServerReport, StateName,
};
use crate::cli::style::{Cell, Column, OutputStyle, Tone, more_row};
use crate::cli::text::short_duration;
use crate::era::{Era, MODERN};

const MAX_SERVERS: usize = 40;
/// For one server.
pub(super) const MAX_INSTANCES: usize = 8;
/// Rows of every other table.
const MAX_ROWS: usize = 20;

pub(super) fn servers(servers: &[ServerReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 10] = [
        Column::text("SERVER").min_width(32),
        Column::text("STATE"),
        Column::number("PID").drop_rank(8),
        Column::number("UP").drop_rank(4),
        Column::text("MCP").drop_rank(9),
        Column::number("TOOLS").drop_rank(3),
        Column::number("HIDDEN").drop_rank(7),
        Column::number("CALLS").drop_rank(1),
        Column::number("ERRORS").drop_rank(2),
        Column::number("RESTARTS").drop_rank(5),
    ];
    if servers.is_empty() {
        return "no servers are configured: `mcpd import` adds the servers of other clients, \
                `mcpd add NAME COMMAND` or `mcpd add NAME URL` adds one\n"
            .to_owned();
    }
    let with_instances = |server| iter::once(row(server)).chain(instances(server, style));
    let most = style.limit(MAX_SERVERS);
    let rows = servers.iter().take(most).flat_map(with_instances);
    style.fit_table(&COLUMNS, rows.chain(more_row("", servers.len(), most)).collect())
}

fn row(server: &ServerReport) -> [Cell; 10] {
    [
        server.name.as_str().into(),
        Cell::new(tone(server), shown_state(server)),
        server.pid.map_or_else(dash, |pid| pid.to_string().into()),
        server.uptime_ms.map_or_else(dash, |ms| short_duration(ms).into()),
        versions(server).map_or_else(dash, Cell::from),
        format!("{}{}", server.tools_exposed, if server.tools_truncated { "+" } else { "" }).into(),
        server.tools_denied.to_string().into(),
        server.calls.to_string().into(),
        server.errors.to_string().into(),
        server.restarts.to_string().into(),
    ]
}

/// The protocol versions in use: of each instance, and the modern one if it is used.
pub(in crate::cli) fn versions(server: &ServerReport) -> Option<String> {
    let is_modern = server.eras.iter().any(|era| era == Era::Modern.word());
    let of_instances = server.instances.iter().filter_map(|one| one.protocol.as_deref());
    let all: BTreeSet<_> =
        server.protocol.as_deref().into_iter().chain(of_instances).chain(is_modern.then_some(MODERN)).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

fn tone(server: &ServerReport) -> Tone {
    match server.state {
        _ if is_down(server) => Tone::Bad,
        _ if server.disabled => Tone::Faint,
        StateName::Ready => Tone::Good,
        StateName::Starting | StateName::Stopping => Tone::Doubtful,
        _ => Tone::Plain,
    }
}

fn shown_state(server: &ServerReport) -> String {
    let state = server.state.to_string();
    if server.answers == Some(false) { format!("{state}, does not answer") } else { state }
}

/// A row for each instance, below the row of its server.
fn instances(server: &ServerReport, style: OutputStyle) -> impl Iterator<Item = [Cell; 10]> {
    let (all, most) = (&server.instances, style.limit(MAX_INSTANCES));
    let row = |one: &InstanceReport| {
        let [tools, denied] = [const { String::new() }; 2].map(Cell::from);
        [
            format!("  {}", one.purpose).into(),
            one.state.word().into(),
            one.pid.map_or_else(dash, |pid| pid.to_string().into()),
            one.uptime_ms.map_or_else(dash, |ms| short_duration(ms).into()),
            one.protocol.clone().map_or_else(dash, Cell::from),
            tools,
            denied,
            one.calls.to_string().into(),
            one.errors.to_string().into(),
            one.restarts.to_string().into(),
        ]
    };
    all.iter().take(most).map(row).chain(more_row("  ", all.len(), most))
}

/// Servers with a URL; empty if there are none.
pub(super) fn remotes(servers: &[ServerReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 3] = [
        Column::text("REMOTE").min_width(32),
        Column::text("ORIGIN").min_width(24),
        Column::text("TRANSPORT").drop_rank(1),
    ];
    let all: Vec<_> = servers.iter().filter_map(|server| Some((server, server.remote.as_ref()?))).collect();
    if all.is_empty() {
        return String::new();
    }
    let row = |(server, remote): &(&ServerReport, &RemoteReport)| {
        let transport = remote.transport.as_deref().map_or_else(dash, Cell::from);
        [server.name.as_str().into(), remote.origin.as_str().into(), transport]
    };
    first_rows(&COLUMNS, &all, row, style)
}

pub(super) fn agents(agents: &[AgentReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 7] = [
        Column::text("AGENT"),
        Column::text("CLIENT").min_width(20),
        Column::number("PID").drop_rank(3),
        Column::text("PROFILE").min_width(8).drop_rank(1),
        Column::text("MCP").drop_rank(4),
        Column::number("CONNECTED").drop_rank(2),
        Column::number("CALLS"),
    ];
    if agents.is_empty() {
        return "no agents are connected (to connect one: `mcpd link CLIENT`)\n".to_owned();
    }
    let row = |agent: &AgentReport| {
        [
            agent.session.to_string().into(),
            agent.client.as_deref().map_or_else(dash, Cell::from),
            agent.pid.map_or_else(dash, |pid| pid.to_string().into()),
            profile(agent).into(),
            mcp(agent),
            short_duration(agent.connected_ms).into(),
            agent.calls.to_string().into(),
        ]
    };
    first_rows(&COLUMNS, agents, row, style)
}

/// An agent at a face: `PROFILE/SERVER`. One whose directory has chosen its profile: `PROFILE by DIRECTORY`.
fn profile(AgentReport { profile, server, profile_directory, .. }: &AgentReport) -> String {
    let face = server.as_ref().map(|server| format!("/{server}")).unwrap_or_default();
    let directory = profile_directory.as_ref().map(|directory| format!(" by {directory}")).unwrap_or_default();
    format!("{profile}{face}{directory}")
}

/// The version of MCP, and the listener, unless the agent sends lines.
fn mcp(AgentReport { protocol, listener, .. }: &AgentReport) -> Cell {
    let listener = Some(&**listener).filter(|listener| !["", "lines"].contains(listener));
    let parts: Vec<_> = protocol.as_deref().into_iter().chain(listener).collect();
    if parts.is_empty() { dash() } else { parts.join(" ").into() }
}

pub(super) fn profiles(report: &Report, style: OutputStyle) -> String {
    const COLUMNS: [Column; 5] = [
        Column::text("PROFILE").min_width(8),
        Column::text("SERVERS").min_width(12),
        Column::number("TOOLS"),
        Column::number("AGENTS").drop_rank(1),
        Column::text("SOCKET").min_width(24).drop_rank(2),
    ];
    if report.profiles.is_empty() {
        return String::new();
    }
    let row = |profile: &ProfileReport| {
        let servers: Cell = match profile.servers.len() {
            0 => "none".into(),
            all if all == report.servers.len() => "all".into(),
            _ => profile.servers.join(", ").into(),
        };
        let (tools, agents) = (profile.tools.to_string().into(), profile.agents.to_string().into());
        let socket = match &profile.http {
            Some(address) => format!("{}, http://{address}/mcp", profile.socket),
            None => profile.socket.clone(),
        };
        [profile.name.as_str().into(), servers, tools, agents, socket.into()]
    };
    first_rows(&COLUMNS, &report.profiles, row, style)
}

/// The quotas that were reached; empty if there are none.
pub(super) fn quotas(report: &Report, style: OutputStyle) -> String {
    const COLUMNS: [Column; 6] = [
        Column::text("QUOTA REACHED"),
        Column::text("PROFILE").min_width(8),
        Column::number("USER").drop_rank(2),
        Column::number("LIMIT"),
        Column::number("IN USE").drop_rank(1),
        Column::number("REFUSED"),
    ];
    let of_profile = |profile: &ProfileReport| {
        let quotas = profile.quotas.iter().filter(|quota| quota.refused > 0).cloned();
        quotas.map(|quota| (profile.name.clone(), quota)).collect::<Vec<_>>()
    };
    let all: Vec<_> = report.profiles.iter().flat_map(of_profile).collect();
    if all.is_empty() {
        return String::new();
    }
    let row = |(profile, quota): &(String, QuotaReport)| {
        [
            quota.key.as_str().into(),
            profile.as_str().into(),
            quota.uid.map_or_else(dash, |uid| uid.to_string().into()),
            quota.limit.to_string().into(),
            quota.used.map_or_else(dash, |used| used.to_string().into()),
            quota.refused.to_string().into(),
        ]
    };
    first_rows(&COLUMNS, &all, row, style)
}

/// A table of the first items.
fn first_rows<const N: usize, T>(
    columns: &[Column; N],
    all: &[T],
    row: impl Fn(&T) -> [Cell; N],
    style: OutputStyle,
) -> String {
    let most = style.limit(MAX_ROWS);
    style.fit_table(columns, all.iter().take(most).map(row).chain(more_row("", all.len(), most)).collect())
}

fn dash() -> Cell {
    Cell::new(Tone::Faint, "–")
}
