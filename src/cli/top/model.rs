//! What `mcpd top` shows, as data: the shape of its `--json`, and what the view is drawn of. Pure.

use std::cmp::Reverse;

use clap::ValueEnum;
use serde::Serialize;

use super::window::{Call, Sums, Window, sums};
use crate::admin::report::Report;

/// Tools, slowest calls and last calls that are told at most.
const ROWS: usize = 50;

/// By what servers are sorted.
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

/// All that is shown at one moment. Times are in milliseconds, sizes in bytes.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// Version of the daemon.
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    /// How far back the calls below go; less than a minute if the daemon has not told of so many.
    pub(super) window_ms: u64,
    pub(super) calls_per_s: f64,
    /// Calls unanswered now.
    pub(super) in_flight: u64,
    /// Calls that ended too fast to be told one by one.
    pub(super) missed: u64,
    #[serde(flatten)]
    pub(super) sums: Told,
    pub(super) servers: Vec<ServerLine>,
    pub(super) tools: Vec<ToolLine>,
    pub(super) slowest: Vec<CallLine>,
    pub(super) last: Vec<CallLine>,
}

/// Sums of calls.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Told {
    pub(super) calls: usize,
    pub(super) errors: usize,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p95_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct ServerLine {
    /// Absent for calls of tools that there are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// As `mcpd status` tells it; absent for a server that is configured no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    pub(super) in_flight: u64,
    pub(super) calls_per_s: f64,
    #[serde(flatten)]
    pub(super) sums: Told,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) tool: String,
    #[serde(flatten)]
    pub(super) sums: Told,
}

#[derive(Debug, Serialize)]
pub(super) struct CallLine {
    /// Since it ended.
    pub(super) ended_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) tool: String,
    pub(super) outcome: String,
    pub(super) duration_ms: f64,
}

impl Picture {
    /// Of the calls since `from`, on the clock of `window`, on which it is `now`.
    pub(super) fn of(window: &Window, report: &Report, (from, now): (i64, i64), sort: Sort) -> Self {
        let covered = u64::try_from(now - window.covered(from).min(now)).unwrap_or_default();
        // The rate of what has lasted less is nothing to go by.
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |calls: usize| (calls as f64 / (covered.max(1000) as f64 / 1000.0) * 100.0).round() / 100.0;
        let calls = || window.calls(from);
        let of_all = Told::from(sums(calls(), |_| ()).remove(&()).unwrap_or_default());
        let mut of_servers = sums(calls(), |call| call.server.as_deref());
        let mut servers: Vec<_> = (report.servers.iter())
            .map(|server| {
                let sums = Told::from(of_servers.remove(&Some(&*server.name)).unwrap_or_default());
                let (name, in_flight) = (Some(server.name.clone()), server.in_flight);
                let state = if server.disabled { "disabled" } else { &server.state };
                ServerLine { name, state: Some(state.to_owned()), in_flight, calls_per_s: rate(sums.calls), sums }
            })
            .collect();
        servers.extend(of_servers.into_iter().map(|(name, sums)| {
            let (name, sums) = (name.map(str::to_owned), Told::from(sums));
            ServerLine { name, state: None, in_flight: 0, calls_per_s: rate(sums.calls), sums }
        }));
        order(&mut servers, sort);
        let mut tools: Vec<_> = (sums(calls(), |call| (call.server.as_deref(), &*call.tool)).into_iter())
            .map(|((server, tool), sums)| ToolLine {
                server: server.map(str::to_owned),
                tool: tool.to_owned(),
                sums: sums.into(),
            })
            .collect();
        tools.sort_by(|a, b| (b.sums.calls, &a.server, &a.tool).cmp(&(a.sums.calls, &b.server, &b.tool)));
        tools.truncate(ROWS);
        let lines = |calls: Vec<&Call>| calls.into_iter().map(|call| line(call, now)).collect();
        Self {
            version: report.version.clone(),
            uptime_ms: report.uptime_ms,
            window_ms: covered,
            calls_per_s: rate(of_all.calls),
            in_flight: report.servers.iter().map(|server| server.in_flight).sum(),
            missed: window.missed,
            sums: of_all,
            servers,
            tools,
            slowest: lines(window.slowest(from, ROWS)),
            last: lines(window.last(from, ROWS)),
        }
    }
}

/// Those that are alike stay in the order of the configuration.
fn order(servers: &mut [ServerLine], sort: Sort) {
    match sort {
        Sort::Calls => servers.sort_by_key(|server| Reverse((server.sums.calls, server.in_flight))),
        Sort::Errors => servers.sort_by_key(|server| Reverse((server.sums.errors, server.sums.calls))),
        Sort::Name => servers.sort_by(|a, b| a.name.cmp(&b.name)),
        Sort::Latency => {
            let slow = |server: &ServerLine| server.sums.p95_ms.unwrap_or(-1.0);
            servers.sort_by(|a, b| slow(b).total_cmp(&slow(a)));
        }
    }
}

fn line(call: &Call, now: i64) -> CallLine {
    CallLine {
        ended_ms: u64::try_from(now - call.at).unwrap_or_default(),
        client: call.client.as_deref().map(str::to_owned),
        server: call.server.as_deref().map(str::to_owned),
        tool: call.tool.to_string(),
        outcome: call.outcome.to_string(),
        duration_ms: milliseconds(call.took_us),
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of three centuries are exact")]
fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

impl From<Sums> for Told {
    fn from(Sums { calls, errors, bytes, p50, p95, p99 }: Sums) -> Self {
        let [p50_ms, p95_ms, p99_ms] = [p50, p95, p99].map(|us| us.map(milliseconds));
        Self { calls, errors, bytes, p50_ms, p95_ms, p99_ms }
    }
}
