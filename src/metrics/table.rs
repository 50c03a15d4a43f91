//! The table of all metrics: one row has the name, the type, the labels and the values of a metric.
//!
//! Names and labels of MCP are those of the conventions of OpenTelemetry. `docs/metrics.md` compares them, and a test compares that page
//! with this table.

use std::borrow::Cow;

use super::{DaemonProcess, Scrape};
use crate::durations::Measured;
use crate::manager::report::ServerReport;
use crate::server::lifecycle::StateName;

/// A metric.
pub(super) struct Metric {
    /// Dots become underscores, and the unit is appended.
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) kind: Kind,
    /// The labels that a series can have.
    pub(super) labels: &'static [&'static str],
    /// One sentence, without its full stop.
    pub(super) help: &'static str,
    pub(super) source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Counter,
    Histogram,
    Info,
}

/// Where the values of a metric come from.
pub(super) enum Source {
    Durations(Measured),
    /// Of each server, which is the first label.
    Server(fn(&ServerReport) -> Vec<Sample<'_>>),
    /// The agents of each profile, which is the label.
    Agents,
    Daemon(fn(&DaemonProcess) -> Option<Value>),
    /// Constant labels.
    Build,
}

/// A value, and its labels beside the server.
pub(super) struct Sample<'a> {
    pub(super) labels: Vec<(&'static str, Cow<'a, str>)>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Integer(u64),
    Real(f64),
}

pub(super) const SERVER: &str = "mcpd_server";
pub(super) const PROFILE: &str = "mcpd_profile";
pub(super) const METHOD: &str = "mcp_method_name";
pub(super) const TOOL: &str = "gen_ai_tool_name";
pub(super) const PROMPT: &str = "gen_ai_prompt_name";
pub(super) const OPERATION: &str = "gen_ai_operation_name";
pub(super) const ERROR: &str = "error_type";
pub(super) const STATUS: &str = "rpc_response_status_code";
pub(super) const PROTOCOL: &str = "mcp_protocol_version";

/// The rows, in the order of the text.
#[rustfmt::skip]
pub(super) const METRICS: &[Metric] = &[
    durations(Measured::ServerOperation, &[SERVER, PROFILE, METHOD, TOOL, PROMPT, OPERATION, ERROR, STATUS],
        "Time of a request of an agent, from its arrival to the answer"),
    durations(Measured::ClientOperation, &[SERVER, METHOD, TOOL, PROMPT, OPERATION, ERROR, STATUS],
        "Time of a request to a server, from sending it to the answer"),
    durations(Measured::ServerSession, &[PROFILE, PROTOCOL, ERROR], "Time of the session of an agent that has ended"),
    durations(Measured::ClientSession, &[SERVER, PROTOCOL, ERROR], "Time that an instance of a server was ready, once it has ended"),
    gauge("mcpd.server.up", None, "Whether a server is ready, or idle until a call; absent if it is disabled", |server| match up(server) {
        Some(up) => count(u64::from(up)),
        None => Vec::new(),
    }),
    gauge("mcpd.server.instances", None, "Instances that run or are started", |server| count(instances(server))),
    gauge("mcpd.server.instances.max", None, "Maximum number of instances of a pool", |server| {
        server.max_instances.map_or_else(Vec::new, |max| count(max as u64))
    }),
    counter("mcpd.server.restarts", None, "Instances started after the first", |server| count(server.restarts)),
    gauge("mcpd.server.failures", None, "Restarts after a failure within the last hour", |server| count(server.restarts_last_hour)),
    counter("mcpd.server.calls", None, "Calls received", |server| count(server.calls)),
    counter("mcpd.server.call.errors", None, "Calls that ended in a JSON-RPC error", |server| count(server.errors)),
    Metric {
        labels: &[SERVER, "mcpd_state"],
        ..gauge("mcpd.server.unanswered.calls", None, "Calls at an instance (in_flight), waiting for one (parked), or waiting at its limit (queued)", |server| {
            let states = [("in_flight", server.in_flight), ("parked", server.calls_parked), ("queued", server.calls_queued)];
            states.map(|(state, calls)| labelled("mcpd_state", state, calls)).into()
        })
    },
    Metric {
        labels: &[SERVER, "mcpd_list"],
        ..gauge("mcpd.server.list.items", None, "Items that a server lists", |server| {
            server.lists.iter().map(|list| labelled("mcpd_list", &*list.kind, list.items as u64)).collect()
        })
    },
    Metric {
        labels: &[SERVER, "mcpd_list"],
        ..gauge("mcpd.server.list.size", Some(Unit::Bytes), "Size of the definitions in a list of a server", |server| {
            server.lists.iter().map(|list| labelled("mcpd_list", &*list.kind, list.bytes as u64)).collect()
        })
    },
    Metric {
        labels: &[SERVER, "mcpd_treatment"],
        ..gauge("mcpd.server.irregular.items", None, "Listed items that mcpd mends, leaves out as malformed, or withholds until they are approved", |server| {
            let mended = server.items_malformed.saturating_sub(server.items_left_out);
            let withheld = server.changes.as_ref().map_or(0, |changes| changes.withheld);
            let treatments = [("mended", mended), ("left_out", server.items_left_out), ("withheld", withheld)];
            treatments.map(|(treatment, items)| labelled("mcpd_treatment", treatment, items as u64)).into()
        })
    },
    counter("mcpd.server.results.mended", None, "Results that mcpd has mended", |server| count(server.results_mended)),
    counter("mcpd.server.lines.skipped", None, "Lines that were no messages", |server| count(server.skipped_lines)),
    Metric {
        kind: Kind::Info,
        labels: &[SERVER, "mcpd_level", "mcpd_enforced"],
        ..gauge("mcpd.server.sandbox", None, "The level of the sandbox, and whether all of it is enforced", |server| {
            let sandbox = server.sandbox.iter();
            let labels = sandbox.map(|sandbox| {
                let enforced = if sandbox.not_enforced.is_empty() { "true" } else { "false" };
                vec![("mcpd_level", sandbox.level.name().into()), ("mcpd_enforced", enforced.into())]
            });
            labels.map(|labels| Sample { labels, value: Value::Integer(1) }).collect()
        })
    },
    gauge("mcpd.server.memory", Some(Unit::Bytes), "Own memory of a server's processes, without what they share", |server| {
        server.usage.map_or_else(Vec::new, |usage| count(usage.memory_bytes))
    }),
    counter("mcpd.server.cpu", Some(Unit::Seconds), "Time of a server's processes on a processor", |server| {
        server.usage.map_or_else(Vec::new, |usage| vec![Sample::of(Value::Real(seconds(usage.cpu_ms)))])
    }),
    gauge("mcpd.server.processes", None, "Processes of a server, with the guards of mcpd", |server| {
        server.usage.map_or_else(Vec::new, |usage| count(usage.processes))
    }),
    Metric { labels: &[PROFILE], source: Source::Agents, ..of_daemon("mcpd.agents", None, Kind::Gauge, "Connected agents", |_| None) },
    Metric {
        kind: Kind::Info,
        labels: &["version"],
        source: Source::Build,
        ..of_daemon("mcpd.build", None, Kind::Info, "The version of mcpd", |_| None)
    },
    of_daemon("process.resident.memory", Some(Unit::Bytes), Kind::Gauge, "Resident memory of the daemon", |daemon| {
        daemon.resident.map(Value::Integer)
    }),
    of_daemon("process.cpu", Some(Unit::Seconds), Kind::Counter, "Time of the daemon on a processor", |daemon| {
        Some(Value::Real(daemon.cpu.as_secs_f64()))
    }),
    of_daemon("process.start.time", Some(Unit::Seconds), Kind::Gauge, "Start of the daemon, since 1970", |daemon| {
        Some(Value::Integer(daemon.started))
    }),
];

const fn durations(measured: Measured, labels: &'static [&'static str], help: &'static str) -> Metric {
    let (unit, source) = (Some(Unit::Seconds), Source::Durations(measured));
    Metric { name: measured.name(), unit, kind: Kind::Histogram, labels, help, source }
}

const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    values: fn(&ServerReport) -> Vec<Sample<'_>>,
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, labels: &[SERVER], help, source: Source::Server(values) }
}

const fn counter(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    values: fn(&ServerReport) -> Vec<Sample<'_>>,
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, labels: &[SERVER], help, source: Source::Server(values) }
}

const fn of_daemon(
    name: &'static str,
    unit: Option<Unit>,
    kind: Kind,
    help: &'static str,
    value: fn(&DaemonProcess) -> Option<Value>,
) -> Metric {
    Metric { name, unit, kind, labels: &[], help, source: Source::Daemon(value) }
}

impl Metric {
    /// The samples, each with its labels, unless it is a histogram.
    pub(super) fn samples<'a>(&self, scrape: &'a Scrape) -> Vec<Sample<'a>> {
        match self.source {
            Source::Durations(_) => Vec::new(),
            Source::Server(values) => {
                let with_name = |server: &'a ServerReport| {
                    values(server).into_iter().map(|Sample { mut labels, value }| {
                        labels.insert(0, (SERVER, (&*server.name).into()));
                        Sample { labels, value }
                    })
                };
                scrape.servers.iter().flat_map(with_name).collect()
            }
            Source::Agents => {
                scrape.agents.iter().map(|(profile, agents)| labelled(PROFILE, &**profile, *agents as u64)).collect()
            }
            Source::Daemon(value) => scrape.daemon.as_ref().and_then(value).map(Sample::of).into_iter().collect(),
            Source::Build => {
                let labels = vec![("version", env!("CARGO_PKG_VERSION").into())];
                vec![Sample { labels, value: Value::Integer(1) }]
            }
        }
    }
}

impl Sample<'_> {
    fn of(value: Value) -> Self {
        Self { labels: Vec::new(), value }
    }
}

fn count<'a>(count: u64) -> Vec<Sample<'a>> {
    vec![Sample::of(Value::Integer(count))]
}

fn labelled<'a>(label: &'static str, text: impl Into<Cow<'a, str>>, value: u64) -> Sample<'a> {
    Sample { labels: vec![(label, text.into())], value: Value::Integer(value) }
}

fn up(server: &ServerReport) -> Option<bool> {
    (!server.disabled).then_some(matches!(server.state, StateName::Ready | StateName::ListFailed | StateName::Idle))
}

fn instances(server: &ServerReport) -> u64 {
    let is_running = |state: StateName| {
        matches!(state, StateName::Starting | StateName::Ready | StateName::Unresponsive | StateName::ListFailed)
    };
    match &server.instances[..] {
        [] => u64::from(is_running(server.state)),
        instances => instances.iter().filter(|instance| is_running(instance.state)).count() as u64,
    }
}

fn seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}
