//! The data of `mcpd top`: the shape of `--json` and the input of the view. Pure.

use std::cmp::Reverse;

use clap::ValueEnum;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::window::{Call, CallStats, CallWindow, group_stats, milliseconds};
use crate::admin::report::{Report, StateName};

/// Maximum number of tools, slowest calls and last calls.
const MAX_ROWS: usize = 50;

/// The order of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Sort {
    /// Most calls first
    #[default]
    Calls,
    /// Slowest first, by the 95th percentile
    Latency,
    /// Most errors first
    Errors,
    /// By name
    Name,
}

/// A time range on the clock of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeRange {
    pub(super) from: i64,
    pub(super) now: i64,
}

/// One snapshot.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct TopModel {
    /// Version of the daemon.
    pub(super) version: String,
    /// Time since the daemon started.
    pub(super) uptime_ms: u64,
    /// The period of the counted calls: a minute, or less if older calls are unknown.
    pub(super) window_ms: u64,
    /// Calls per second.
    pub(super) calls_per_s: f64,
    /// Calls that are not answered yet.
    pub(super) in_flight: u64,
    /// Calls that ended too fast to be reported. They are not counted.
    pub(super) missed: u64,
    #[serde(flatten)]
    pub(super) stats: CallStats,
    /// Servers in the order of `--sort`.
    pub(super) servers: Vec<ServerRow>,
    /// At most 50 tools, the one with the most calls first.
    pub(super) tools: Vec<ToolRow>,
    /// At most 50 calls, the slowest first.
    pub(super) slowest: Vec<CallRow>,
    /// At most 50 calls, the latest first.
    pub(super) last: Vec<CallRow>,
}

/// Calls of one server.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ServerRow {
    /// Absent for calls of tools that do not exist.
    pub(super) name: Option<String>,
    /// As in `mcpd status`; absent for a server that is no longer configured.
    pub(super) state: Option<StateName>,
    /// Calls that are not answered yet.
    pub(super) in_flight: u64,
    /// Calls per second.
    pub(super) calls_per_s: f64,
    #[serde(flatten)]
    pub(super) stats: CallStats,
}

/// Calls of one tool.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ToolRow {
    /// Absent for a tool that does not exist.
    pub(super) server: Option<String>,
    /// The server's own name for the tool. Without a server, the name that the agent sent.
    pub(super) tool: String,
    #[serde(flatten)]
    pub(super) stats: CallStats,
}

/// One call that has ended.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CallRow {
    /// Time since it ended.
    pub(super) ended_ms: u64,
    /// `name version` of the agent.
    pub(super) client: Option<String>,
    /// Absent for a tool that does not exist.
    pub(super) server: Option<String>,
    /// The server's own name for the tool. Without a server, the name that the agent sent.
    pub(super) tool: String,
    /// As in `mcpd calls`.
    pub(super) outcome: String,
    /// From the request to the answer, waiting included.
    pub(super) duration_ms: f64,
}

impl TopModel {
    pub(super) fn new(window: &CallWindow, report: &Report, range: TimeRange, sort: Sort) -> Self {
        let TimeRange { from, now } = range;
        let covered = u64::try_from(now - window.covered(from).min(now)).unwrap_or_default();
        // Less than a second is too short for a rate.
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |calls: usize| (calls as f64 / (covered.max(1000) as f64 / 1000.0) * 100.0).round() / 100.0;
        let calls = || window.calls(from);
        let total = group_stats(calls(), |_| ()).remove(&()).unwrap_or_default();
        let mut by_server = group_stats(calls(), |call| call.server.as_deref());
        let mut servers: Vec<_> = (report.servers.iter())
            .map(|server| {
                let stats = by_server.remove(&Some(&*server.name)).unwrap_or_default();
                let (name, in_flight) = (Some(server.name.clone()), server.in_flight);
                ServerRow { name, state: Some(server.state), in_flight, calls_per_s: rate(stats.calls), stats }
            })
            .collect();
        servers.extend(by_server.into_iter().map(|(name, stats)| {
            let name = name.map(str::to_owned);
            ServerRow { name, state: None, in_flight: 0, calls_per_s: rate(stats.calls), stats }
        }));
        sort_servers(&mut servers, sort);
        let tool_row = |((server, tool), stats): ((Option<&str>, &str), CallStats)| ToolRow {
            server: server.map(str::to_owned),
            tool: tool.to_owned(),
            stats,
        };
        let by_tool = group_stats(calls(), |call| (call.server.as_deref(), &*call.tool));
        let mut tools: Vec<_> = by_tool.into_iter().map(tool_row).collect();
        tools.sort_by(|a, b| (b.stats.calls, &a.server, &a.tool).cmp(&(a.stats.calls, &b.server, &b.tool)));
        tools.truncate(MAX_ROWS);
        let rows = |calls: Vec<&Call>| calls.into_iter().map(|call| CallRow::new(call, now)).collect();
        Self {
            version: report.version.clone(),
            uptime_ms: report.uptime_ms,
            window_ms: covered,
            calls_per_s: rate(total.calls),
            in_flight: report.servers.iter().map(|server| server.in_flight).sum(),
            missed: window.missed,
            stats: total,
            servers,
            tools,
            slowest: rows(window.slowest(from, MAX_ROWS)),
            last: rows(window.last(from, MAX_ROWS)),
        }
    }
}

/// Equal servers stay in the order of the configuration.
fn sort_servers(servers: &mut [ServerRow], sort: Sort) {
    match sort {
        Sort::Calls => servers.sort_by_key(|server| Reverse((server.stats.calls, server.in_flight))),
        Sort::Errors => servers.sort_by_key(|server| Reverse((server.stats.errors, server.stats.calls))),
        Sort::Name => servers.sort_by(|a, b| a.name.cmp(&b.name)),
        Sort::Latency => {
            let p95 = |server: &ServerRow| server.stats.p95_ms.unwrap_or(-1.0);
            servers.sort_by(|a, b| p95(b).total_cmp(&p95(a)));
        }
    }
}

impl CallRow {
    fn new(call: &Call, now: i64) -> Self {
        Self {
            ended_ms: u64::try_from(now - call.at).unwrap_or_default(),
            client: call.client.as_deref().map(str::to_owned),
            server: call.server.as_deref().map(str::to_owned),
            tool: call.tool.to_string(),
            outcome: call.outcome.to_string(),
            duration_ms: milliseconds(call.took_us),
        }
    }
}
