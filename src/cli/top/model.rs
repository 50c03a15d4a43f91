//! The data of `mcpd top`: recently ended calls with their statistics, the shape of `--json`, and the input of the view.
//!
//! Pure: times are milliseconds on a clock of the caller.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::rc::Rc;

use clap::ValueEnum;
use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::admin::CpuMeter;
use crate::admin::report::{Report, StateName};
use crate::calls::report::{CallReport, RunningCallReport};
use crate::cli::status::has_failed;

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
    /// Most memory first
    Memory,
    /// Most processor time first
    Cpu,
    /// By name
    Name,
    /// Servers that are down first
    Down,
}

/// What a snapshot is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'s> {
    pub(super) window: &'s CallWindow,
    pub(super) report: &'s Report,
    pub(super) cpu: &'s CpuMeter,
}

/// What a snapshot shows. Times are on the clock of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection<'s> {
    pub(super) from: i64,
    pub(super) now: i64,
    pub(super) sort: Sort,
    pub(super) rows: Rows<'s>,
}

/// The servers of a snapshot. All its figures are theirs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows<'s> {
    All,
    One(&'s RowKey),
    /// Those with this text in lower case in their names, in any case.
    Containing(&'s str),
}

impl Rows<'_> {
    fn selects(self, name: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::One(key) => key.as_deref() == name,
            Self::Containing(text) => name.is_some_and(|name| name.to_ascii_lowercase().contains(text)),
        }
    }
}

/// The name of a server; `None` for calls of tools that do not exist.
pub(super) type RowKey = Option<String>;

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
    /// At most 100 calls without an answer, the oldest first.
    pub(super) running: Vec<RunningCallReport>,
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
    /// As in `usage` of `mcpd status`. Absent if no process of it runs.
    pub(super) memory_bytes: Option<u64>,
    /// Processor time of its processes between the last two measurements, in percent of one core.
    pub(super) cpu_percent: Option<f64>,
    /// It is down, or one of its instances is.
    #[serde(skip)]
    pub(super) is_down: bool,
    #[serde(flatten)]
    pub(super) stats: CallStats,
}

impl ServerRow {
    /// A server that is not configured any more, or calls of tools that do not exist.
    fn unconfigured(name: Option<String>, calls_per_s: f64, stats: CallStats) -> Self {
        Self {
            name,
            state: None,
            in_flight: 0,
            calls_per_s,
            memory_bytes: None,
            cpu_percent: None,
            is_down: false,
            stats,
        }
    }
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
    pub(super) fn new(Source { window, report, cpu }: Source<'_>, selection: Selection<'_>) -> Self {
        let Selection { from, now, sort, rows } = selection;
        let covered = u64::try_from(now - window.covered(from).min(now)).unwrap_or_default();
        // Less than a second is too short for a rate.
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |calls: usize| (calls as f64 / (covered.max(1000) as f64 / 1000.0) * 100.0).round() / 100.0;
        let calls = || window.calls(from).filter(|call| rows.selects(call.server.as_deref()));
        let total = group_stats(calls(), |_| ()).remove(&()).unwrap_or_default();
        let mut by_server = group_stats(calls(), |call| call.server.as_deref());
        let reports = || report.servers.iter().filter(|server| rows.selects(Some(&server.name)));
        let mut servers: Vec<_> = reports()
            .map(|server| {
                let stats = by_server.remove(&Some(&*server.name)).unwrap_or_default();
                ServerRow {
                    name: Some(server.name.clone()),
                    state: Some(server.state),
                    in_flight: server.in_flight,
                    calls_per_s: rate(stats.calls),
                    memory_bytes: server.usage.map(|usage| usage.memory_bytes),
                    cpu_percent: cpu.of_server(server),
                    is_down: has_failed(server),
                    stats,
                }
            })
            .collect();
        servers.extend(by_server.into_iter().map(|(name, stats)| {
            let (name, calls_per_s) = (name.map(str::to_owned), rate(stats.calls));
            ServerRow::unconfigured(name, calls_per_s, stats)
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
        let call_rows = |calls: Vec<&Call>| calls.into_iter().map(|call| CallRow::new(call, now)).collect();
        Self {
            version: report.version.clone(),
            uptime_ms: report.uptime_ms,
            window_ms: covered,
            calls_per_s: rate(total.calls),
            in_flight: reports().map(|server| server.in_flight).sum(),
            missed: window.missed,
            stats: total,
            servers,
            tools,
            slowest: call_rows(slowest(calls(), MAX_ROWS)),
            // The order of reports is finer than the recorded times.
            last: call_rows(calls().rev().take(MAX_ROWS).collect()),
            running: report.running_calls.iter().filter(|call| rows.selects(call.server.as_deref())).cloned().collect(),
        }
    }
}

impl TopModel {
    /// Sorts servers as they were before. New ones are last.
    pub(super) fn keep_order(&mut self, before: &[RowKey]) {
        let place = |server: &ServerRow| before.iter().position(|key| *key == server.name).unwrap_or(usize::MAX);
        self.servers.sort_by_cached_key(place);
    }
}

/// Equal servers stay in the order of the configuration.
fn sort_servers(servers: &mut [ServerRow], sort: Sort) {
    match sort {
        Sort::Calls => servers.sort_by_key(|server| Reverse((server.stats.calls, server.in_flight))),
        Sort::Errors => servers.sort_by_key(|server| Reverse((server.stats.errors, server.stats.calls))),
        Sort::Name => servers.sort_by(|a, b| a.name.cmp(&b.name)),
        Sort::Down => servers.sort_by_key(|server| !server.is_down),
        Sort::Memory => servers.sort_by_key(|server| Reverse(server.memory_bytes)),
        Sort::Cpu => {
            let cpu = |server: &ServerRow| server.cpu_percent.unwrap_or(-1.0);
            servers.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)));
        }
        Sort::Latency => {
            let p95 = |server: &ServerRow| server.stats.p95_ms.unwrap_or(-1.0);
            servers.sort_by(|a, b| p95(b).total_cmp(&p95(a)));
        }
    }
    // Calls of tools that do not exist are no server's.
    servers.sort_by_key(|server| server.name.is_none());
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

/// Above this number the oldest call is dropped, and statistics cover a shorter time.
const MAX_CALLS: usize = 100_000;

#[derive(Debug, Clone)]
pub(super) struct Call {
    /// When it ended.
    pub(super) at: i64,
    pub(super) took_us: u64,
    /// Absent if no such tool exists.
    pub(super) server: Option<Rc<str>>,
    pub(super) tool: Rc<str>,
    pub(super) client: Option<Rc<str>>,
    pub(super) outcome: Rc<str>,
    /// Request and response together.
    pub(super) bytes: u64,
}

impl Call {
    /// A cancelled call is no error.
    fn is_error(&self) -> bool {
        !matches!(&*self.outcome, "ok" | "cancelled")
    }
}

/// Calls in the order in which the daemon reported them.
#[derive(Debug, Default)]
pub(super) struct CallWindow {
    calls: VecDeque<Call>,
    /// Each distinct name is stored once.
    names: HashSet<Rc<str>>,
    /// The window has every call that ended after this, except missed ones.
    since: i64,
    /// Calls that ended too fast to be reported.
    pub(super) missed: u64,
}

/// Statistics of a group of calls.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CallStats {
    /// Calls that ended.
    pub(super) calls: usize,
    /// Calls that ended neither `ok` nor `cancelled`.
    pub(super) errors: usize,
    /// Size of requests and answers.
    pub(super) bytes: u64,
    /// 50th percentile of the duration.
    pub(super) p50_ms: Option<f64>,
    /// 95th percentile of the duration.
    pub(super) p95_ms: Option<f64>,
    /// 99th percentile of the duration.
    pub(super) p99_ms: Option<f64>,
}

impl CallWindow {
    /// An empty window that covers the time from `since`.
    pub(super) fn new(since: i64) -> Self {
        Self { since, ..Self::default() }
    }

    /// Limits the covered time to that of the stored calls, because the daemon did not send older ones.
    pub(super) fn truncate_history(&mut self) {
        self.since = self.calls.iter().map(|call| call.at).min().unwrap_or(self.since);
    }

    pub(super) fn add(&mut self, at: i64, report: &CallReport) {
        let call = Call {
            at,
            took_us: std::time::Duration::try_from_secs_f64(report.duration_ms / 1e3)
                .map_or(u64::MAX, |took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            server: report.server.as_deref().map(|name| self.intern(name)),
            tool: self.intern(&report.tool),
            client: report.client.as_deref().map(|name| self.intern(name)),
            outcome: self.intern(&report.outcome),
            bytes: (report.request_bytes + report.reply_bytes) as u64,
        };
        self.calls.push_back(call);
        if self.calls.len() > MAX_CALLS {
            self.since = self.calls.pop_front().map_or(self.since, |oldest| self.since.max(oldest.at));
        }
    }

    /// Names that no call uses are dropped once there are many names.
    fn intern(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.get(name) {
            return Rc::clone(known);
        }
        if self.names.len() > 2 * MAX_CALLS {
            self.names.retain(|name| Rc::strong_count(name) > 1);
        }
        let name: Rc<str> = name.into();
        self.names.insert(Rc::clone(&name));
        name
    }

    /// The later of `from` and the beginning of the covered time.
    pub(super) fn covered(&self, from: i64) -> i64 {
        self.since.max(from)
    }

    /// Calls that ended at `from` or later.
    pub(super) fn calls(&self, from: i64) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.at >= from)
    }
}

/// The `count` slowest calls, slowest first.
fn slowest<'c>(calls: impl Iterator<Item = &'c Call>, count: usize) -> Vec<&'c Call> {
    let mut calls: Vec<_> = calls.collect();
    let slower = |call: &&Call| (Reverse(call.took_us), Reverse(call.at));
    if calls.len() > count {
        // Selects before sorting, so that only `count` calls are sorted.
        calls.select_nth_unstable_by_key(count, slower);
        calls.truncate(count);
    }
    calls.sort_by_key(slower);
    calls
}

/// The statistics of `calls` by `key`, sorted by key so that rows keep their places.
fn group_stats<'c, K: Ord>(
    calls: impl Iterator<Item = &'c Call>,
    key: impl Fn(&'c Call) -> K,
) -> BTreeMap<K, CallStats> {
    let mut groups: BTreeMap<K, (CallStats, Vec<u64>)> = BTreeMap::new();
    for call in calls {
        let (stats, times) = groups.entry(key(call)).or_default();
        stats.calls += 1;
        stats.errors += usize::from(call.is_error());
        stats.bytes += call.bytes;
        times.push(call.took_us);
    }
    let with_percentiles = |(key, (stats, mut times)): (K, (CallStats, Vec<u64>))| {
        times.sort_unstable();
        let [p50_ms, p95_ms, p99_ms] = [50, 95, 99].map(|percent| percentile(&times, percent).map(milliseconds));
        (key, CallStats { p50_ms, p95_ms, p99_ms, ..stats })
    };
    groups.into_iter().map(with_percentiles).collect()
}

/// The smallest value in `sorted` that is at least as large as `percent` % of the values.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of three centuries are exact")]
pub(super) fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: &str, tool: &str, took_ms: f64, outcome: &str) -> CallReport {
        let report = serde_json::json!({
            "time": "", "session": 1, "uid": 0, "profile": "default", "server": server, "tool": tool, "outcome": outcome,
            "duration_ms": took_ms, "request_bytes": 10, "reply_bytes": 90,
        });
        serde_json::from_value(report).expect("a call")
    }

    #[test]
    fn percentiles_are_exact() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (sorted, percent, expected) in [
            (&hundred[..], 50, Some(50)),
            (&hundred, 95, Some(95)),
            (&hundred, 99, Some(99)),
            (&hundred[..1], 99, Some(1)),
            (&hundred[..2], 50, Some(1)),
            (&hundred[..3], 50, Some(2)),
            (&hundred[..20], 95, Some(19)),
            (&[], 50, None),
        ] {
            assert_eq!(percentile(sorted, percent), expected, "{percent} of {}", sorted.len());
        }
    }

    #[test]
    fn stats_cover_the_calls_since_a_time() {
        let mut window = CallWindow::new(-5000);
        for (at, server, took, outcome) in [
            (-4000, "a", 1.0, "ok"),
            (-3000, "a", 2.5, "ok"),
            (-2000, "b", 7.0, "error"),
            (-1000, "a", 9.0, "cancelled"),
            (0, "a", 4.0, "tool_error"),
        ] {
            window.add(at, &call(server, "t", took, outcome));
        }
        let of = |from| group_stats(window.calls(from), |call| call.server.clone().unwrap_or_default());
        let all = of(i64::MIN);
        let expected =
            CallStats { calls: 4, errors: 1, bytes: 400, p50_ms: Some(2.5), p95_ms: Some(9.0), p99_ms: Some(9.0) };
        assert_eq!((all.len(), all["a"]), (2, expected));
        assert_eq!((of(-1000)["a"].calls, of(-1000).contains_key("b")), (2, false));
        let times = |calls: Vec<&Call>| calls.iter().map(|call| call.took_us / 1000).collect::<Vec<_>>();
        assert_eq!(times(slowest(window.calls(i64::MIN), 3)), [9, 7, 4]);
        assert_eq!((window.covered(-9000), window.covered(-1)), (-5000, -1));
    }

    #[test]
    fn stored_calls_and_names_are_capped() {
        let mut window = CallWindow::new(i64::MIN);
        for at in 0..=i64::try_from(MAX_CALLS).expect("it fits") + 4 {
            window.add(at, &call("a", &format!("tool{at}"), 1.0, "ok"));
        }
        assert_eq!((window.calls.len(), window.covered(i64::MIN)), (MAX_CALLS, 4));
        for at in 0..MAX_CALLS + 9 {
            window.intern(&format!("other{at}"));
        }
        assert!(window.names.len() <= 2 * MAX_CALLS + 1, "{}", window.names.len());
    }
}
