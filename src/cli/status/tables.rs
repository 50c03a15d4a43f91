//! Servers, agents and sockets in columns. Of very many the first are shown; `--json` has them all.

use std::collections::BTreeSet;
use std::iter;

use super::is_down;
use crate::admin::report::{AgentReport, InstanceReport, ProfileReport, RemoteReport, Report, ServerReport};
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::{short_duration, with_override};
use crate::era::{Era, MODERN};

/// Servers that are shown.
const SERVERS: usize = 40;
/// Instances of one server that are shown.
pub(super) const INSTANCES: usize = 8;
/// Servers with a URL that are shown, agents and sockets.
const OTHERS: usize = 20;

pub(super) fn servers(servers: &[ServerReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 10] = [
        Column::text("SERVER").least(12),
        Column::text("STATE"),
        Column::number("PID").rank(8),
        Column::number("UP").rank(4),
        Column::text("VERSION").rank(9),
        Column::number("TOOLS").rank(3),
        Column::number("DENIED").rank(7),
        Column::number("CALLS").rank(1),
        Column::number("ERRORS").rank(2),
        Column::number("RESTARTS").rank(5),
    ];
    if servers.is_empty() {
        return "no servers are configured: `mcpd import` takes over those of other clients, \
                `mcpd add NAME COMMAND` or `mcpd add NAME URL` adds one\n"
            .to_owned();
    }
    let shown = servers.iter().take(SERVERS);
    let rows = shown.flat_map(|server| iter::once(row(server)).chain(instances(&server.instances)));
    style.fitted(&COLUMNS, rows.chain(more("", servers.len(), SERVERS)).collect())
}

/// A row for those that have none.
fn more<const N: usize>(indent: &str, all: usize, shown: usize) -> Option<[Cell; N]> {
    let left = all.checked_sub(shown).filter(|left| *left > 0)?;
    let mut row = [const { String::new() }; N].map(Cell::from);
    row[0] = Cell::new(Tone::Faint, format!("{indent}… {left} more"));
    Some(row)
}

fn row(server: &ServerReport) -> [Cell; 10] {
    [
        server.name.as_str().into(),
        Cell::new(tone(server), shown_state(server)),
        server.pid.map_or_else(dash, |pid| pid.to_string().into()),
        server.uptime_ms.map_or_else(dash, |ms| short_duration(ms).into()),
        versions(server),
        format!("{}{}", server.tools_exposed, if server.tools_truncated { "+" } else { "" }).into(),
        server.tools_denied.to_string().into(),
        server.calls.to_string().into(),
        server.errors.to_string().into(),
        server.restarts.to_string().into(),
    ]
}

/// One for each era that it is spoken to in.
fn versions(server: &ServerReport) -> Cell {
    let is_modern = server.eras.iter().any(|era| era == Era::Modern.word());
    let of_instances = server.instances.iter().filter_map(|one| one.protocol.as_deref());
    let all: BTreeSet<_> =
        server.protocol.as_deref().into_iter().chain(of_instances).chain(is_modern.then_some(MODERN)).collect();
    if all.is_empty() { dash() } else { all.into_iter().collect::<Vec<_>>().join(", ").into() }
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
    with_override(state, server.vouched.as_deref())
}

/// A row for each of the first, below that of their server; what is told of the server only is left out.
fn instances(all: &[InstanceReport]) -> impl Iterator<Item = [Cell; 10]> {
    let row = |one: &InstanceReport| {
        let [tools, denied] = [const { String::new() }; 2].map(Cell::from);
        [
            format!("  {}", one.purpose).into(),
            one.state.as_str().into(),
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
    all.iter().take(INSTANCES).map(row).chain(more("  ", all.len(), INSTANCES))
}

/// Where servers are reached that have a URL; nothing, if none has.
pub(super) fn remotes(servers: &[ServerReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 3] =
        [Column::text("REMOTE").least(12), Column::text("ORIGIN").least(24), Column::text("TRANSPORT").rank(1)];
    let all: Vec<_> = servers.iter().filter_map(|server| Some((server, server.remote.as_ref()?))).collect();
    if all.is_empty() {
        return String::new();
    }
    let row = |(server, remote): &(&ServerReport, &RemoteReport)| {
        let transport = remote.transport.as_deref().map_or_else(dash, Cell::from);
        [server.name.as_str().into(), remote.origin.as_str().into(), transport]
    };
    style.fitted(&COLUMNS, all.iter().take(OTHERS).map(row).chain(more("", all.len(), OTHERS)).collect())
}

pub(super) fn agents(agents: &[AgentReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 7] = [
        Column::text("AGENT"),
        Column::text("CLIENT").least(12),
        Column::number("PID").rank(3),
        Column::text("PROFILE").least(8).rank(1),
        Column::text("VERSION").rank(4),
        Column::number("CONNECTED").rank(2),
        Column::number("CALLS"),
    ];
    if agents.is_empty() {
        return "no agents are connected: `mcpd connect --print CLIENT` points one here\n".to_owned();
    }
    let row = |agent: &AgentReport| {
        [
            agent.session.to_string().into(),
            agent.client.as_deref().map_or_else(dash, Cell::from),
            agent.pid.map_or_else(dash, |pid| pid.to_string().into()),
            agent.profile.as_str().into(),
            agent.protocol.clone().map_or_else(dash, Cell::from),
            short_duration(agent.connected_ms).into(),
            agent.calls.to_string().into(),
        ]
    };
    style.fitted(&COLUMNS, agents.iter().take(OTHERS).map(row).chain(more("", agents.len(), OTHERS)).collect())
}

pub(super) fn profiles(report: &Report, style: OutputStyle) -> String {
    const COLUMNS: [Column; 5] = [
        Column::text("PROFILE").least(8),
        Column::text("SERVERS").least(12),
        Column::number("TOOLS"),
        Column::number("AGENTS").rank(1),
        Column::text("SOCKET").least(24).rank(2),
    ];
    let row = |profile: &ProfileReport| {
        let servers: Cell = match profile.servers.len() {
            0 => "none".into(),
            all if all == report.servers.len() => "all".into(),
            _ => profile.servers.join(", ").into(),
        };
        let (tools, agents) = (profile.tools.to_string().into(), profile.agents.to_string().into());
        [profile.name.as_str().into(), servers, tools, agents, profile.socket.as_str().into()]
    };
    let all = &report.profiles;
    style.fitted(&COLUMNS, all.iter().take(OTHERS).map(row).chain(more("", all.len(), OTHERS)).collect())
}

fn dash() -> Cell {
    Cell::new(Tone::Faint, "–")
}
