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
    /// In which era it is spoken to.
    pub era: EraChoice,
    /// Whether every agent of an instance is told its log messages, whosever they are.
    pub broadcast_logs: bool,
    /// Most instances of a [`Sharing::Pool`].
    pub max_instances: usize,
    /// Calls of agents that one instance has at a time; the others wait. Without a number, as many as any server may have.
    pub max_concurrent: Option<usize>,
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
            era: EraChoice::Auto,
            broadcast_logs: false,
            max_instances: 10,
            max_concurrent: None,
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
        self.with_live_settings(other) == *other
    }

    /// The same for its instance, with what `other` says of that which needs no other one: a call brings its own limit, and
    /// an instance that makes way is not asked how.
    pub(super) fn with_live_settings(&self, other: &Self) -> Self {
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

/// The era of MCP that a server is used in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraChoice {
    /// The era of its agents where it supports both; the legacy one where agents of both eras share an instance.
    Auto,
    /// Only `initialize` is sent.
    Legacy,
    /// `initialize` is never sent.
    Modern,
}

impl EraChoice {
    /// Each with the text that selects it in a configuration.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("legacy", Self::Legacy), ("modern", Self::Modern)];
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
