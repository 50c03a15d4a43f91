//! Reports on servers for `mcpd status` and embedding programs, with what mcpd mends or leaves out of their lists. They are assembled from
//! published values without waiting.
//!
//! New fields have defaults, so `mcpd status` and the daemon may be of different versions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use super::changes_report::ChangesReport;
use super::figures_report::list_sizes;
pub use super::figures_report::{DurationReport, ListReport, UsageReport};
use super::malformed_report::MalformedCount;
pub use super::malformed_report::{Defect, MalformedItem};
pub(crate) use super::malformed_report::{defects, malformed};
use super::usage::{ServerUsage, Usage, guards_of};
use super::view::{Member, View};
use crate::catalog::{Exposure, Lists, OverrideDefect, override_defects};
use crate::config::{Launch, ServerConfig, Sharing};
use crate::list_kind::{ListKind, PerKind};
use crate::printable::excerpt;
use crate::server::lifecycle::State;
pub use crate::server::{
    AnswerTimes, Cause, LimitKey, NamespaceFailure, NamespaceStep, Obstacle, Refusal, RefusedCalls, RefusedPath,
    RestrictedAccess, SandboxReport, StateName,
};
use crate::server::{
    Enforcement, Limits, RemoteTransport, ServerError, ServerHandle, ServerSnapshot, UnansweredCounts,
};

/// Maximum number of stderr lines in the report of a server that is not ready.
const STDERR_LINES: usize = 20;
/// Maximum bytes of each of these lines, and of all together: a report must fit into one message.
const STDERR_LINE: usize = 4 << 10;
const STDERR_BYTES: usize = 32 << 10;
/// Maximum number of items that the report of a profile names as left out of its lists.
const MAX_CUT_ITEMS: usize = 20;
/// Maximum number of overrides in the report of a server.
const MAX_OVERRIDES: usize = 20;
/// Maximum characters of the name or URI of one.
const MAX_ITEM_LEN: usize = 200;

/// One configured server.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerReport {
    /// Its configured name.
    pub name: String,
    /// Its state; for a disabled server `disabled`, or `stopping` while its process is being stopped.
    pub state: StateName,
    /// Whether the server is disabled, and so hidden from agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Whether its configuration has `enabled = false`. If the server is not disabled, an operator has enabled it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled_in_configuration: bool,
    /// Why it is unresponsive, in backoff or failed, needs a login, or could not deliver a list, on one line.
    pub reason: Option<String>,
    /// A stable code for `reason`; without a reason, for `last_error`. Texts may change, codes do not. More may be added:
    ///
    /// - start of a program: `command_not_found`, `command_line` (arguments in `command`), `cannot_execute`, `execution_failed`,
    ///   `no_working_directory`, `linked_directory`, `unusable_value`, `system`
    /// - sandbox: `sandbox_unenforceable` (the kernel cannot enforce it, and the server stays down), `sandbox_path` (a path in it does
    ///   not exist, or would open a protected directory), `sandbox_failed` (the system refused it this time)
    /// - end of a program: `exited`, `signaled`, `out_of_memory`, `task_limit`, `ended`, `stream_closed`, `guard_lost`, `reaper_lost`, `guard_silent`
    /// - first request: `initialize_timeout`, `discover_timeout`, `start_timeout`, `initialize_error`, `not_a_server`,
    ///   `malformed_initialize`, `invalid_response`, `unsupported_version`, `modern_only`, `no_modern_era`, `has_both_eras`
    /// - connection to a URL: `connection_refused`, `network_unreachable`, `name_lookup`, `proxy`, `redirect`, `not_tls`, `not_plain`, `unreachable`
    /// - certificates: `certificate_self_signed`, `certificate_unknown_issuer`, `certificate_wrong_name`, `certificate_expired`,
    ///   `certificate_not_yet_valid`, `certificate_invalid`, `no_certificate_authorities`, `ca_file`
    /// - HTTP: `http_unauthorized`, `http_forbidden`, `http_not_found`, `http_method_not_allowed`, `http_status`, `session_ended`,
    ///   `event_stream_closed`, `unknown_coding`, `protocol_violation`, `login_needed`
    /// - running server: `unanswered` (pings or calls), `stopped`, `starting`, `list_failed`
    /// - fault of mcpd or of the system: `internal`
    pub code: Option<String>,
    /// The probable cause, where what the server has left shows one, which `reason` quotes. While it starts: `question`, if the last line of
    /// `stderr` has no end.
    pub cause: Option<Cause>,
    /// Until the next start attempt, while in backoff.
    pub retry_in_ms: Option<u64>,
    /// Process id of the running instance.
    pub pid: Option<u32>,
    /// Process id of the guard of the running instance.
    pub guard_pid: Option<u32>,
    /// Since the running instance was ready.
    pub uptime_ms: Option<u64>,
    /// Since the running instance was last checked: it sent a message, or left a ping or a call unanswered.
    pub checked_ms: Option<u64>,
    /// Consecutive unanswered pings at that time.
    #[serde(default)]
    pub missed_pings: u32,
    /// Consecutive calls without any message that had timed out at that time. Calls that time out together count once.
    #[serde(default)]
    pub missed_calls: u32,
    /// With `--check`: whether every running instance answered. Absent if none runs. A silent instance with calls in flight does not count.
    pub answers: Option<bool>,
    /// Connection to a server with a URL.
    pub remote: Option<RemoteReport>,
    /// Protocol version in use; `2026-07-28` without a handshake.
    pub protocol: Option<String>,
    /// The eras of MCP that mcpd uses with it: `legacy`, `modern`, or both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eras: Vec<String>,
    /// `name version` it introduced itself with.
    pub software: Option<String>,
    /// Tools that agents see under the server's own table; profiles narrow it. If agents have instances of their own, this and the
    /// next numbers describe the known list.
    pub tools_exposed: usize,
    /// Estimated size of these tools in model tokens, for each agent.
    #[serde(default)]
    pub tokens: usize,
    /// Tools that policy hides.
    pub tools_denied: usize,
    /// The server's own names of disabled tools, sorted. Listed ones count as denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_disabled: Vec<String>,
    /// The tool list was cut at a limit, or because its pages do not end.
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
    /// Tools and prompts that are not listed because their names are invalid.
    #[serde(default)]
    pub names_rejected: usize,
    /// Items whose definitions strict clients reject, so mcpd mends them or leaves them out.
    #[serde(default)]
    pub items_malformed: usize,
    /// Malformed items that mcpd leaves out.
    #[serde(default)]
    pub items_left_out: usize,
    /// At most 50 of these items, those that are left out first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<MalformedItem>,
    /// Tools whose override in the configuration does not work as intended, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_overrides: Vec<OverrideReport>,
    /// The size of its lists that are not empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ListReport>,
    /// Definitions that differ from the approved ones. Absent if there is nothing to report.
    pub changes: Option<ChangesReport>,
    /// Calls since the daemon started.
    pub calls: u64,
    /// Calls unanswered now.
    pub in_flight: u64,
    /// Calls that wait for a ready instance.
    #[serde(default)]
    pub calls_parked: u64,
    /// Calls that wait at the limit of an instance.
    #[serde(default)]
    pub calls_queued: u64,
    /// Calls that ended in a JSON-RPC error of the server or of mcpd.
    pub errors: u64,
    /// The times that answered calls took; only in a program that embeds mcpd.
    pub answer_times: Option<AnswerTimes>,
    /// What its processes use. Absent if none runs, or if none could be measured. For a sum of all instances, `cpu_ms` includes former ones
    /// that were measured.
    pub usage: Option<UsageReport>,
    /// Instances started after the first.
    pub restarts: u64,
    /// Restarts within the last hour that followed an unexpected exit or a failed start.
    #[serde(default)]
    pub restarts_last_hour: u64,
    /// Lines on stdout that were not JSON-RPC messages, including oversized ones.
    pub skipped_lines: u64,
    /// Results that agents would reject, so mcpd mended them.
    #[serde(default)]
    pub results_mended: u64,
    /// Responses without a pending request: unknown, duplicate or late.
    pub stray_responses: u64,
    /// Status notifications of unknown tasks.
    #[serde(default)]
    pub stray_notifications: u64,
    /// Instances that answered `initialize`, but not the `server/discover` that mcpd sent 2 s earlier.
    #[serde(default)]
    pub silent_starts: u64,
    /// Calls that failed at files which its sandbox may hide, since it has this sandbox. Absent if there are none.
    pub refused: Option<RefusedCalls>,
    /// The sandbox of its processes, once it has been started.
    pub sandbox: Option<SandboxReport>,
    /// Resource limits of each instance, if any.
    pub limits: Option<LimitsReport>,
    /// Why the last change of its configuration failed. It runs with the former configuration until the next change.
    pub update_error: Option<String>,
    /// The latest failure, if any.
    pub last_error: Option<String>,
    /// The maximum number of instances of a pool.
    pub max_instances: Option<usize>,
    /// Its instances that run now, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceReport>,
    /// The last lines of stderr of the process that wrote last, oldest first; only while the server is not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// One of several instances of a server.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstanceReport {
    /// Its purpose: `listing`, `session N`, `pool N`, or a directory.
    pub purpose: String,
    /// The state of its process.
    pub state: StateName,
    /// Why it is in backoff or failed, or, while it is started again, why it was; on one line.
    pub reason: Option<String>,
    /// A stable code for `reason`; without a reason, for `last_error`.
    pub code: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Process id of its guard.
    pub guard_pid: Option<u32>,
    /// As for a server.
    #[serde(default)]
    pub missed_pings: u32,
    /// As for a server.
    #[serde(default)]
    pub missed_calls: u32,
    /// As for a server.
    pub answers: Option<bool>,
    /// Protocol version in use.
    pub protocol: Option<String>,
    /// Since it was ready.
    pub uptime_ms: Option<u64>,
    /// Calls since it was created.
    pub calls: u64,
    /// Calls unanswered now.
    pub in_flight: u64,
    /// Calls that ended in a JSON-RPC error.
    pub errors: u64,
    /// What its processes use, as for a server.
    pub usage: Option<UsageReport>,
    /// Processes started for it after the first.
    pub restarts: u64,
}

/// What does not work in `[servers.NAME.tool.TOOL]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverrideReport {
    /// The server's own name of the tool.
    pub tool: String,
    /// `name_taken`: agents do not see the tool, because another one has the `name`. `missing_argument`: each call fails, because the server
    /// requires an argument of `hide_arguments`.
    pub problem: String,
    /// The name or the argument.
    pub value: String,
}

/// The connection to a server with a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemoteReport {
    /// Scheme, host and port of the URL, or `unix:` and the path of its socket. Path and query are omitted, because they may be secret.
    pub origin: String,
    /// `streamable http` or `http+sse`, while an instance runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// Whether the limits of a server are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum LimitsState {
    /// All of them.
    #[serde(rename = "enforced")]
    Enforced,
    /// Some that the configuration names are not.
    #[serde(rename = "not enforced")]
    NotEnforced,
    /// Only some defaults are not.
    #[serde(rename = "defaults not enforced")]
    DefaultsNotEnforced,
}

impl LimitsReport {
    /// What is not enforced, and why.
    #[must_use]
    pub fn unenforced_text(&self) -> Option<String> {
        let keys: Vec<_> = self.not_enforced.iter().map(|key| format!("`{}`", key.name())).collect();
        let verb = if keys.len() == 1 { "is" } else { "are" };
        Some(format!("{} {verb} not enforced: {}", keys.join(", "), self.reason.as_ref()?))
    }
}

/// Resource limits of each instance of a server.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitsReport {
    /// Maximum memory, in bytes.
    pub memory_max: Option<usize>,
    /// Maximum number of processes and threads.
    pub tasks_max: Option<usize>,
    /// Share of the processors, in relation to other servers.
    pub cpu_weight: usize,
    /// Absent before the first start.
    pub state: Option<LimitsState>,
    /// The limits that are not enforced. Absent if all are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<LimitKey>,
    /// Why they are not enforced, on one line.
    pub reason: Option<String>,
}

/// Tools, prompts, resources, templates and skills that are not listed because their list would be too large.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CutReport {
    /// How many.
    pub count: usize,
    /// The first of them, as `server/item`.
    pub first: Vec<String>,
}

impl CutReport {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Details of a state.
struct Condition {
    reason: Option<String>,
    code: Option<String>,
    cause: Option<Cause>,
    retry_in_ms: Option<u64>,
    uptime_ms: Option<u64>,
}

fn condition(handle: &ServerHandle, published: &ServerSnapshot) -> Condition {
    let up = |since: Instant| Some(millis(since.elapsed()));
    let (retry_in_ms, uptime_ms) = match &published.state {
        State::Ready { ready_since } | State::Unresponsive { ready_since, .. } => (None, up(*ready_since)),
        State::Backoff { until, .. } => (Some(millis(until.saturating_duration_since(Instant::now()))), None),
        State::Failed { .. } | State::NeedsLogin { .. } | State::Starting | State::Stopping | State::Stopped => {
            (None, None)
        }
    };
    let reason = published.reason();
    let error = reason.or(published.last_error.as_ref());
    let code = error.map(|error| error.code().to_owned());
    let asks = matches!(published.state, State::Starting) && handle.stderr().is_unended();
    let cause = if asks { Some(Cause::Question) } else { error.and_then(ServerError::cause) };
    Condition { reason: reason.map(ToString::to_string), code, cause, retry_in_ms, uptime_ms }
}

fn instance(handle: &ServerHandle, usage: &ServerUsage) -> InstanceReport {
    let (published, totals) = (handle.published(), handle.totals());
    let Condition { reason, code, uptime_ms, .. } = condition(handle, &published);
    let silence = published.unanswered();
    let former = published.last_error.as_ref().filter(|_| matches!(published.state, State::Starting));
    InstanceReport {
        purpose: handle.label().map_or_else(String::new, ToString::to_string),
        state: published.state_name(),
        reason: reason.or_else(|| former.map(ToString::to_string)),
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
        usage: published.guard_pid.and_then(|guard| usage.of_guard(guard)),
        restarts: totals.starts_after_first,
    }
}

impl ServerReport {
    /// Where it is reached, if mcpd does not run it.
    pub(crate) fn elsewhere(&self) -> Option<&RemoteReport> {
        self.remote.as_ref().filter(|_| self.limits.is_none())
    }

    /// What it seems to ask while it starts.
    pub(crate) fn question(&self) -> Option<&str> {
        let asks = self.state == StateName::Starting && self.cause == Some(Cause::Question);
        self.stderr.last().filter(|_| asks).map(String::as_str)
    }

    /// Consecutive unanswered pings and calls of the running instance.
    pub(crate) fn silence(&self) -> UnansweredCounts {
        UnansweredCounts { pings: self.missed_pings, calls: self.missed_calls }
    }
}

impl InstanceReport {
    /// Whether it belongs to the agents of one directory.
    pub(crate) fn is_of_directory(&self) -> bool {
        self.purpose.starts_with('/')
    }

    /// Whether it fails, is started again after a failure, or does not answer.
    pub(crate) fn is_down(&self) -> bool {
        self.reason.is_some() && (self.state.is_down() || self.state == StateName::Starting)
            || self.answers == Some(false)
    }

    /// Consecutive unanswered pings and calls.
    pub(crate) fn silence(&self) -> UnansweredCounts {
        UnansweredCounts { pings: self.missed_pings, calls: self.missed_calls }
    }
}

/// Overrides with a bad effect. One without an effect is no problem of the server, so only lints report it.
fn tool_overrides(config: &ServerConfig, lists: &Lists) -> Vec<OverrideReport> {
    let defects = override_defects(&lists[ListKind::Tools], &config.tool_overrides);
    let report = |(tool, defect): (&str, OverrideDefect<'_>)| {
        let (problem, value) = match defect {
            OverrideDefect::NameTaken(name) => ("name_taken", name),
            OverrideDefect::MissingArgument(argument) => ("missing_argument", argument),
            OverrideDefect::Unlisted => return None,
        };
        let excerpt = |text: &str| excerpt(text, MAX_ITEM_LEN);
        Some(OverrideReport { tool: excerpt(tool), problem: problem.to_owned(), value: excerpt(value) })
    };
    defects.filter_map(report).take(MAX_OVERRIDES).collect()
}

/// The items that are missing in the lists of this view.
pub(crate) fn cut(view: &View) -> CutReport {
    let items = ListKind::ALL.iter().flat_map(|kind| view.catalog.cut(*kind));
    let named = |(server, item): &(usize, Arc<str>)| {
        Some(format!("{}/{}", view.servers.get(*server)?.config.name, excerpt(item, MAX_ITEM_LEN)))
    };
    CutReport { count: items.clone().count(), first: items.filter_map(named).take(MAX_CUT_ITEMS).collect() }
}

pub(super) fn servers(view: &View, usage: &Usage) -> Vec<ServerReport> {
    let exposures = view.catalog.exposure().iter().copied().chain(std::iter::repeat(PerKind::default()));
    let all = view.servers.iter().zip(exposures);
    all.map(|(member, exposure)| server(member, exposure, usage.of(member.handle.name()))).collect()
}

#[expect(clippy::too_many_lines, reason = "one line for each field")]
fn server(member: &Member, exposure: PerKind<Exposure>, usage: &ServerUsage) -> ServerReport {
    let Member { handle, config, refused, changes, .. } = member;
    let (published, totals) = (handle.published(), handle.totals());
    let Condition { reason, code, cause, retry_in_ms, uptime_ms } = condition(handle, &published);
    let (malformed, MalformedCount { items, left_out }) = malformed(&published.lists);
    ServerReport {
        name: handle.name().to_string(),
        state: member.state_name(&published),
        disabled: !member.is_enabled(),
        disabled_in_configuration: !config.settings.enabled,
        reason,
        code,
        cause,
        retry_in_ms,
        pid: published.pid,
        guard_pid: published.guard_pid,
        uptime_ms,
        checked_ms: published.checked.map(|(at, _)| millis(at.elapsed())),
        missed_pings: published.unanswered().pings,
        missed_calls: published.unanswered().calls,
        answers: None,
        remote: remote_of(config, published.remote),
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
        resources_exposed: resources(&exposure, |one| one.exposed),
        resources_denied: resources(&exposure, |one| one.denied),
        resources_shadowed: resources(&exposure, |one| one.shadowed),
        items_malformed: items,
        items_left_out: left_out,
        malformed,
        lists: list_sizes(&published.lists),
        tool_overrides: tool_overrides(config, &published.lists),
        names_rejected: exposure[ListKind::Tools].unfit + exposure[ListKind::Prompts].unfit,
        changes: changes.as_deref().cloned(),
        calls: totals.calls,
        in_flight: totals.in_flight,
        calls_parked: totals.parked,
        calls_queued: totals.queued,
        errors: totals.errors,
        answer_times: handle.answer_times(),
        // What was measured is older than the end of the last process.
        usage: usage.total().filter(|_| !guards_of(handle).is_empty()),
        restarts: totals.starts_after_first,
        restarts_last_hour: handle.failure_restarts_within_an_hour(),
        skipped_lines: totals.skipped_lines,
        results_mended: totals.results_mended,
        stray_responses: totals.stray_responses,
        stray_notifications: totals.stray_notifications,
        silent_starts: totals.unanswered_discovers,
        refused: handle.refused_calls(&config.settings.sandbox),
        sandbox: published.sandbox.clone(),
        limits: limits_of(config, published.limits.as_ref()),
        update_error: refused.as_ref().map(ToString::to_string),
        last_error: published.last_error.as_ref().map(ToString::to_string),
        max_instances: (config.settings.sharing == Sharing::Pool).then_some(config.settings.max_instances),
        instances: handle.instances().iter().flat_map(|all| all.iter().map(|one| instance(one, usage))).collect(),
        stderr: last_stderr(handle, &published.state),
    }
}

/// The resources and templates that `count` counts.
fn resources(exposure: &PerKind<Exposure>, count: fn(&Exposure) -> usize) -> usize {
    count(&exposure[ListKind::Resources]) + count(&exposure[ListKind::Templates])
}

/// The last lines on stderr of a server that is not ready.
fn last_stderr(handle: &ServerHandle, state: &State) -> Vec<String> {
    match state {
        State::Ready { .. } | State::Unresponsive { .. } => Vec::new(),
        // The last attempt had no process, so stderr is older.
        State::Backoff { reason, .. } if reason.needs_config_change() => Vec::new(),
        _ => handle.stderr().last(STDERR_LINES, STDERR_LINE, STDERR_BYTES),
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn remote_of(config: &ServerConfig, transport: Option<RemoteTransport>) -> Option<RemoteReport> {
    let remote = config.launch.as_ref().ok()?.remote()?;
    Some(RemoteReport { origin: remote.shown_origin(), transport: transport.map(|it| it.words().to_owned()) })
}

/// The limits of a server; `None` if mcpd does not run it.
fn limits_of(config: &ServerConfig, enforcement: Option<&Enforcement>) -> Option<LimitsReport> {
    if matches!(config.launch, Ok(Launch::Remote(_))) {
        return None;
    }
    let Limits { memory_max, tasks_max, cpu_weight } = Limits::of(&config.settings);
    let state = enforcement.map(|enforcement| match enforcement.reason() {
        None => LimitsState::Enforced,
        Some(_) if enforcement.breaks_configuration() => LimitsState::NotEnforced,
        Some(_) => LimitsState::DefaultsNotEnforced,
    });
    let not_enforced = enforcement.map(|enforcement| enforcement.not_enforced().collect()).unwrap_or_default();
    let reason = enforcement.and_then(|enforcement| enforcement.reason().map(str::to_owned));
    Some(LimitsReport { memory_max: memory_max.max, tasks_max: tasks_max.max, cpu_weight, state, not_enforced, reason })
}
