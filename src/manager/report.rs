//! The servers of a manager as `mcpd status` and embedding programs are told of them: put together from what is
//! published, so it waits for nobody.
//!
//! Fields are added, never renamed; an older `status` reads a newer daemon's report and the other way round.

mod limits;
mod remote;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use self::limits::LimitsReport;
pub use self::remote::RemoteReport;
use super::enablement::Enablement;
use super::view::{Member, View};
use crate::catalog::Exposure;
use crate::list_kind::{ListKind, PerKind};
use crate::server::lifecycle::State;
use crate::server::{ServerHandle, ServerSnapshot, Silence};

/// Lines of stderr shown of a server that is not ready.
const STDERR_LINES: usize = 20;
/// Bytes shown of each of them, and of all together: a report has to fit into one message.
const STDERR_LINE: usize = 4 << 10;
const STDERR_BYTES: usize = 32 << 10;

/// One configured server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its configured name.
    pub name: String,
    /// `starting`, `ready`, `unresponsive`, `backoff`, `stopping`, `stopped`, `failed`, `needs_login`; `idle` if nobody needs
    /// an instance. A disabled server is what its process is.
    pub state: String,
    /// Agents see nothing of it until it is enabled again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// `up` or `down`, if a person says so, whatever it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_override: Option<String>,
    /// Why it is unresponsive, in backoff or failed, or needs a login, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A stable word for `reason`; without a reason, for `last_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Until the next start attempt, while in backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// Process id of the running instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Process id of the guard of the running instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_pid: Option<u32>,
    /// Since the running instance was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Since the running instance was last checked: it sent a message, or left a ping or a call unanswered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_ms: Option<u64>,
    /// Pings it had left unanswered in a row by then.
    #[serde(default)]
    pub missed_pings: u32,
    /// Calls that had timed out in a row by then, with no message from it. Those that time out together count once.
    #[serde(default)]
    pub missed_calls: u32,
    /// Whether every instance of it that runs has answered when it was asked just now, if that was wanted. One that was
    /// silent and had calls to answer does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
    /// Where it is reached, if it has a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteReport>,
    /// Protocol version it negotiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The eras of MCP that it is spoken to in: `legacy`, `modern`, or both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eras: Vec<String>,
    /// `name version` it introduced itself with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// Tools that agents see.
    pub tools_exposed: usize,
    /// What these cost an agent in every conversation, in tokens of a model; an estimate ([`crate::tokens`]).
    #[serde(default)]
    pub tokens: usize,
    /// Tools that policy hides.
    pub tools_denied: usize,
    /// The server's own names of tools that are switched off, which count as hidden if they are listed; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_disabled: Vec<String>,
    /// The tool list was cut at a limit or by a cursor that never ends.
    #[serde(default)]
    pub tools_truncated: bool,
    /// Prompts that agents see.
    #[serde(default)]
    pub prompts_exposed: usize,
    /// Prompts that policy hides.
    #[serde(default)]
    pub prompts_denied: usize,
    /// Resources, and templates of them, that agents see.
    #[serde(default)]
    pub resources_exposed: usize,
    /// Resources and templates that policy hides.
    #[serde(default)]
    pub resources_denied: usize,
    /// Resources and templates that are not listed, because an earlier server has the same URI or template.
    #[serde(default)]
    pub resources_shadowed: usize,
    /// Tools and prompts that are not listed, because of a name that is not fit to be shown.
    #[serde(default)]
    pub names_rejected: usize,
    /// Calls taken since the daemon started.
    pub calls: u64,
    /// Calls unanswered now.
    pub in_flight: u64,
    /// Calls that ended in a JSON-RPC error, the server's own or ours.
    pub errors: u64,
    /// Instances started after the first.
    pub restarts: u64,
    /// Those of them that were started within the last hour because the one before had ended by itself, or had not started.
    #[serde(default)]
    pub restarts_last_hour: u64,
    /// Lines on stdout that were no JSON-RPC message, oversized ones included.
    pub skipped_lines: u64,
    /// Responses to no request of ours: unknown, duplicate or late.
    pub stray_responses: u64,
    /// Status notifications of tasks that it has made for nobody.
    #[serde(default)]
    pub stray_notifications: u64,
    /// Instances that answered `initialize` and not `server/discover`, which they were sent 2 s before.
    #[serde(default)]
    pub silent_starts: u64,
    /// What each of its instances may use, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsReport>,
    /// Why it is run as it was before it was changed last, if that change failed; until it is changed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_error: Option<String>,
    /// The latest failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Its instances, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceReport>,
    /// The last lines of stderr of the process that wrote last, oldest first; only while the server is not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// One of several instances of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InstanceReport {
    /// What it is for: `listing`, `session N`, `pool N`, or a directory.
    pub purpose: String,
    /// As that of a server.
    pub state: String,
    /// Why it is in backoff or failed, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A stable word for `reason`; without a reason, for `last_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its process id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Process id of its guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_pid: Option<u32>,
    /// As that of a server.
    #[serde(default)]
    pub missed_pings: u32,
    /// As that of a server.
    #[serde(default)]
    pub missed_calls: u32,
    /// As that of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
    /// Protocol version in which it is spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Since it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Calls it has taken.
    pub calls: u64,
    /// Calls unanswered now.
    pub in_flight: u64,
    /// Calls that ended in a JSON-RPC error.
    pub errors: u64,
    /// Processes started for it after the first.
    pub restarts: u64,
}

/// What a state says beside its word.
struct Condition {
    reason: Option<String>,
    code: Option<String>,
    retry_in_ms: Option<u64>,
    uptime_ms: Option<u64>,
}

fn condition(published: &ServerSnapshot) -> Condition {
    let up = |since: Instant| Some(millis(since.elapsed()));
    let (retry_in_ms, uptime_ms) = match &published.state {
        State::Ready { since } | State::Unresponsive { up_since: since, .. } => (None, up(*since)),
        State::Backoff { until, .. } => (Some(millis(until.saturating_duration_since(Instant::now()))), None),
        State::Failed { .. } | State::NeedsLogin { .. } | State::Starting | State::Stopping | State::Stopped => {
            (None, None)
        }
    };
    let reason = published.state.reason();
    let code = reason.or(published.last_error.as_ref()).map(|error| error.code().to_owned());
    Condition { reason: reason.map(ToString::to_string), code, retry_in_ms, uptime_ms }
}

fn instance(handle: &ServerHandle) -> InstanceReport {
    let (published, totals) = (handle.published(), handle.totals());
    let Condition { reason, code, uptime_ms, .. } = condition(&published);
    let silence = published.silence();
    InstanceReport {
        purpose: handle.purpose().map_or_else(String::new, ToString::to_string),
        state: published.word().to_owned(),
        reason,
        code,
        pid: published.pid,
        guard_pid: published.guard_pid,
        missed_pings: silence.pings,
        missed_calls: silence.calls,
        answers: None,
        protocol: published.protocol.map(str::to_owned),
        uptime_ms,
        calls: totals.calls,
        in_flight: totals.in_flight,
        errors: totals.errors,
        restarts: totals.restarts,
    }
}

impl ServerReport {
    /// What the running instance has left unanswered.
    pub(crate) fn silence(&self) -> Silence {
        Silence { pings: self.missed_pings, calls: self.missed_calls }
    }
}

impl InstanceReport {
    /// What it has left unanswered.
    pub(crate) fn silence(&self) -> Silence {
        Silence { pings: self.missed_pings, calls: self.missed_calls }
    }
}

pub(crate) fn servers(view: &View) -> Vec<ServerReport> {
    let exposures = view.catalog.exposure().iter().copied().chain(std::iter::repeat(PerKind::default()));
    view.servers.iter().zip(exposures).map(|(member, exposure)| server(member, exposure)).collect()
}

fn server(member: &Member, exposure: PerKind<Exposure>) -> ServerReport {
    let Member { handle, config, enablement, health_override, refused, .. } = member;
    let (published, totals) = (handle.published(), handle.totals());
    let Condition { reason, code, retry_in_ms, uptime_ms } = condition(&published);
    let resources =
        |count: fn(Exposure) -> usize| count(exposure[ListKind::Resources]) + count(exposure[ListKind::Templates]);
    ServerReport {
        name: handle.name().to_string(),
        state: published.word().to_owned(),
        disabled: *enablement != Enablement::Enabled,
        health_override: health_override.word().map(str::to_owned),
        reason,
        code,
        retry_in_ms,
        pid: published.pid,
        guard_pid: published.guard_pid,
        uptime_ms,
        checked_ms: published.checked.map(|(at, _)| millis(at.elapsed())),
        missed_pings: published.silence().pings,
        missed_calls: published.silence().calls,
        answers: None,
        remote: remote::of(config, published.remote),
        protocol: published.protocol.map(str::to_owned),
        eras: published.eras.iter().map(|era| era.word().to_owned()).collect(),
        software: published.software.clone(),
        tools_exposed: exposure[ListKind::Tools].exposed,
        tokens: exposure[ListKind::Tools].tokens,
        tools_denied: exposure[ListKind::Tools].denied,
        tools_disabled: config.policy.switched_off().iter().map(ToString::to_string).collect(),
        tools_truncated: published.lists[ListKind::Tools].truncated,
        prompts_exposed: exposure[ListKind::Prompts].exposed,
        prompts_denied: exposure[ListKind::Prompts].denied,
        resources_exposed: resources(|exposure| exposure.exposed),
        resources_denied: resources(|exposure| exposure.denied),
        resources_shadowed: resources(|exposure| exposure.shadowed),
        names_rejected: exposure[ListKind::Tools].unfit + exposure[ListKind::Prompts].unfit,
        calls: totals.calls,
        in_flight: totals.in_flight,
        errors: totals.errors,
        restarts: totals.restarts,
        restarts_last_hour: handle.restarts_within_an_hour(),
        skipped_lines: totals.skipped_lines,
        stray_responses: totals.stray_responses,
        stray_notifications: totals.stray_notifications,
        silent_starts: totals.silent_starts,
        limits: limits::of(config, published.limits.as_ref()),
        update_error: refused.as_ref().map(ToString::to_string),
        last_error: published.last_error.as_ref().map(ToString::to_string),
        instances: handle.instances().iter().flat_map(|all| all.iter().map(instance)).collect(),
        stderr: match &published.state {
            _ if uptime_ms.is_some() => Vec::new(),
            // The last attempt had no process.
            State::Backoff { reason, .. } if reason.is_not_executable() => Vec::new(),
            _ => handle.stderr().last(STDERR_LINES, STDERR_LINE, STDERR_BYTES),
        },
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
