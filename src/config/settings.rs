//! How a server is kept: the keys that may stand under `[defaults]` as well as under a server.

use std::time::Duration;

use super::timeouts::{CallLimit, ToolTimeouts};

/// How a server is kept. The defaults are those of `config/mcpd.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Who shares one instance.
    pub sharing: Sharing,
    /// When it is started.
    pub start: Start,
    /// Whether every agent of an instance is told its log messages, whosever they are.
    pub broadcast_logs: bool,
    /// Most instances of a [`Sharing::Pool`].
    pub max_instances: usize,
    /// How long an instance that nobody uses is kept, where there may be none.
    pub idle_timeout: Duration,
    /// Time from spawn to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Time for one call, counted anew at each progress notification.
    pub call_timeout: Duration,
    /// No call takes longer, whatever progress it makes and whatever its other limits are.
    pub call_timeout_max: Duration,
    /// What some tools have in the place of `call_timeout`.
    pub tool_timeouts: ToolTimeouts,
    /// How long an instance may be silent before it is asked how it is.
    pub health_interval: Duration,
    /// Time for the answer.
    pub health_timeout: Duration,
    /// What becomes of an instance that does not answer three times in a row.
    pub on_unhealthy: OnUnhealthy,
    /// An instance that was up this long has recovered: if it ends, the delays before a restart begin anew.
    pub backoff_reset: Duration,
    /// What each instance may use of the machine.
    pub limits: Limits,
    /// How another instance takes the place of one that is to be run differently.
    pub replace: Replace,
}

/// What one instance with all its descendants may use; without a number, as much as it can get.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory, in bytes. An instance that needs more is killed, and started again.
    pub memory_max: Option<usize>,
    /// Processes and threads. One more cannot be started.
    pub tasks_max: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sharing: Sharing::Shared,
            start: Start::Eager,
            broadcast_logs: false,
            max_instances: 10,
            idle_timeout: Duration::from_secs(300),
            handshake_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(300),
            call_timeout_max: Duration::from_secs(3600),
            tool_timeouts: ToolTimeouts::default(),
            health_interval: Duration::from_secs(30),
            health_timeout: Duration::from_secs(5),
            on_unhealthy: OnUnhealthy::Restart,
            backoff_reset: Duration::from_secs(10),
            limits: Limits::default(),
            replace: Replace::StartFirst,
        }
    }
}

impl Settings {
    /// How long a call of the server's own tool name may take.
    #[must_use]
    pub fn call_limit(&self, tool: &str) -> CallLimit {
        self.within(self.tool_timeouts.of(tool).unwrap_or(self.call_timeout))
    }

    /// How long any other request may take.
    #[must_use]
    pub fn request_limit(&self) -> CallLimit {
        self.within(self.call_timeout)
    }

    fn within(&self, silence: Duration) -> CallLimit {
        CallLimit { silence: silence.min(self.call_timeout_max), total: self.call_timeout_max }
    }

    /// Whether an instance is kept the same way.
    pub(super) fn runs_like(&self, other: &Self) -> bool {
        self.as_told_by(other) == *other
    }

    /// The same for its instance, with what `other` says of that which needs no other one: a call brings its own limit, and
    /// an instance that makes way is not asked how.
    pub(super) fn as_told_by(&self, other: &Self) -> Self {
        let Self { call_timeout, call_timeout_max, tool_timeouts, replace, .. } = other.clone();
        Self { call_timeout, call_timeout_max, tool_timeouts, replace, ..self.clone() }
    }
}

/// Who shares one instance of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All agents.
    Shared,
    /// Nobody: each agent has its own, from its handshake to its end.
    Session,
    /// Agents with the same working directory.
    Workspace,
    /// All agents, with further instances while all are busy.
    Pool,
}

impl Sharing {
    /// Each with the text that selects it in a configuration.
    pub const ALL: [(&'static str, Self); 4] =
        [("shared", Self::Shared), ("session", Self::Session), ("workspace", Self::Workspace), ("pool", Self::Pool)];

    /// Whether an instance knows which agents it is for.
    #[must_use]
    pub fn is_by_agent(self) -> bool {
        matches!(self, Self::Session | Self::Workspace)
    }
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the daemon.
    Eager,
    /// By its first call, and again when it was stopped for being idle.
    Lazy,
}

impl Start {
    /// Each with the text that selects it in a configuration.
    pub const ALL: [(&'static str, Self); 2] = [("eager", Self::Eager), ("lazy", Self::Lazy)];
}

/// How another instance takes the place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It is started and has listed before the one that runs ends; if it fails, that one goes on.
    StartFirst,
    /// It is started when the one that runs has ended.
    StopFirst,
}

impl Replace {
    /// Each with the text that selects it in a configuration.
    pub const ALL: [(&'static str, Self); 2] = [("start_first", Self::StartFirst), ("stop_first", Self::StopFirst)];
}

/// What becomes of an instance that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnhealthy {
    /// Another takes its place.
    Restart,
    /// `mcpd status` says so.
    Report,
    /// It is not asked.
    Ignore,
}

impl OnUnhealthy {
    /// Each with the text that selects it in a configuration.
    pub const ALL: [(&'static str, Self); 3] =
        [("restart", Self::Restart), ("report", Self::Report), ("ignore", Self::Ignore)];
}

/// What one table says of them; `None` where it says nothing.
#[derive(Debug, Default, Clone)]
pub(super) struct SettingsDraft {
    pub(super) sharing: Option<Sharing>,
    pub(super) start: Option<Start>,
    pub(super) broadcast_logs: Option<bool>,
    pub(super) max_instances: Option<usize>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) handshake_timeout: Option<Duration>,
    pub(super) calls: CallTimeouts,
    pub(super) health_interval: Option<Duration>,
    pub(super) health_timeout: Option<Duration>,
    pub(super) on_unhealthy: Option<OnUnhealthy>,
    pub(super) backoff_reset: Option<Duration>,
    pub(super) memory_max: Option<usize>,
    pub(super) tasks_max: Option<usize>,
    pub(super) replace: Option<Replace>,
}

/// What it says of calls.
#[derive(Debug, Default, Clone)]
pub(super) struct CallTimeouts {
    pub(super) call_timeout: Option<Duration>,
    pub(super) call_timeout_max: Option<Duration>,
    pub(super) tool_timeouts: ToolTimeouts,
}

impl SettingsDraft {
    /// What this table says, and where it says nothing, what `other` does.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self {
            sharing: self.sharing.or(other.sharing),
            start: self.start.or(other.start),
            broadcast_logs: self.broadcast_logs.or(other.broadcast_logs),
            max_instances: self.max_instances.or(other.max_instances),
            idle_timeout: self.idle_timeout.or(other.idle_timeout),
            handshake_timeout: self.handshake_timeout.or(other.handshake_timeout),
            calls: CallTimeouts {
                call_timeout: self.calls.call_timeout.or(other.calls.call_timeout),
                call_timeout_max: self.calls.call_timeout_max.or(other.calls.call_timeout_max),
                tool_timeouts: self.calls.tool_timeouts.or(&other.calls.tool_timeouts),
            },
            health_interval: self.health_interval.or(other.health_interval),
            health_timeout: self.health_timeout.or(other.health_timeout),
            on_unhealthy: self.on_unhealthy.or(other.on_unhealthy),
            backoff_reset: self.backoff_reset.or(other.backoff_reset),
            memory_max: self.memory_max.or(other.memory_max),
            tasks_max: self.tasks_max.or(other.tasks_max),
            replace: self.replace.or(other.replace),
        }
    }

    /// With the built-in default wherever nothing is said.
    pub(super) fn settle(self) -> Settings {
        let unset = Settings::default();
        let CallTimeouts { call_timeout, call_timeout_max, tool_timeouts } = self.calls;
        let call_timeout = call_timeout.unwrap_or(unset.call_timeout);
        // A limit that nobody has set is no reason to shorten one that somebody has.
        let longest = unset.call_timeout_max.max(call_timeout).max(tool_timeouts.longest());
        Settings {
            sharing: self.sharing.unwrap_or(unset.sharing),
            start: self.start.unwrap_or(unset.start),
            broadcast_logs: self.broadcast_logs.unwrap_or(unset.broadcast_logs),
            max_instances: self.max_instances.unwrap_or(unset.max_instances),
            idle_timeout: self.idle_timeout.unwrap_or(unset.idle_timeout),
            handshake_timeout: self.handshake_timeout.unwrap_or(unset.handshake_timeout),
            call_timeout,
            call_timeout_max: call_timeout_max.unwrap_or(longest),
            tool_timeouts,
            health_interval: self.health_interval.unwrap_or(unset.health_interval),
            health_timeout: self.health_timeout.unwrap_or(unset.health_timeout),
            on_unhealthy: self.on_unhealthy.unwrap_or(unset.on_unhealthy),
            backoff_reset: self.backoff_reset.unwrap_or(unset.backoff_reset),
            limits: Limits { memory_max: self.memory_max, tasks_max: self.tasks_max },
            replace: self.replace.unwrap_or(unset.replace),
        }
    }
}
