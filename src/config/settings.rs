//! How mcpd runs a server and limits its calls: the keys of `[defaults]` that `[servers.NAME]` overrides.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::keys::{
    DURATION, FLAG, FLAG_OR_TEXT, Field, Key, KeyLayer, KeyValue, SANDBOX, TOOL_TIMEOUTS, choice, count, size,
};
use super::sandbox::Sandbox;
use super::value_types::{CallLimit, Choice, ToolTimeouts};

/// The range of `max_message`.
pub(super) const MAX_MESSAGE: RangeInclusive<u64> = 64 << 10..=1 << 30;
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// The maximum that the kernel allows.
const TASKS: RangeInclusive<usize> = 1..=4 << 20;
/// The weight of a cgroup that has no other (kernel, `admin-guide/cgroup-v2`).
pub(crate) const CPU_WEIGHT: usize = 100;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Declares [`Settings`]: for each key its documentation, field, default and rule. `config/mcpd.toml` and the JSON Schema
/// follow by `UPDATE_CONFIG_FILES=1 cargo test --lib config::`.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $rule:expr;)+) => {
        /// How mcpd runs a server and limits its calls.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl Settings {
            pub(super) const KEYS: &[Key<Self>] = &[
                $(Key {
                    name: stringify!($name),
                    doc: concat!($($doc),+),
                    rule: $rule,
                    field: |settings| &mut settings.$name,
                },)+
            ];

            /// These settings with those of `other` that apply to running instances.
            pub(super) fn with_live_settings(&self, other: &Self) -> Self {
                Self { $($name: if $rule.is_live { &other.$name } else { &self.$name }.clone(),)+ }
            }
        }
    };
}

settings! {
    /// Whether the server runs. With `false`, it is not started and agents do not see it; `mcpd enable` overrides this until the
    /// daemon stops.
    enabled: bool = true, FLAG.live().server_only();

    /// Who shares an instance: `shared` (all agents), `session` (each agent has its own), `workspace` (agents in the same
    /// directory) or `pool` (all agents, with more instances while all are busy).
    sharing: Sharing = Sharing::Shared, choice::<Sharing>();

    /// When the server starts: `eager` (with mcpd) or `lazy` (with its first call; until then its last known tools are listed).
    start: Start = Start::Eager, choice::<Start>();

    /// Protocol era for the server: `legacy` (`initialize`, up to 2025-11-25), `modern` (2026-07-28) or `auto` (what the
    /// server supports; docs/configure.md says which one if it supports both).
    era: EraChoice = EraChoice::Auto, choice::<EraChoice>();

    /// The instructions for the model that agents receive about the server: `true` (those of the server), `false` (none) or a text
    /// that replaces them.
    instructions: Instructions = Instructions::OfServer, FLAG_OR_TEXT.live();

    /// Whether processes of the server may connect to mcpd as agents, for a server that runs an agent itself.
    agent: bool = false, FLAG.server_only();

    /// Maximum number of instances of a pool.
    max_instances: usize = 10, count(1..=1000);

    /// Maximum number of concurrent calls per instance. Further calls wait in a fair queue. Without the key, the limit is 256. Then an
    /// agent can still send a call while it has fewer calls there than its equal share: 256 divided by the number of agents with
    /// calls there.
    max_concurrent: Option<usize> = None, count(1..=256).example("1");

    /// How long an unused instance of a pool, a workspace or a lazy server keeps running.
    idle_timeout: Duration = seconds(300), DURATION;

    /// Maximum time from the start of a server to the end of its handshake. Output on stderr and growing files restart
    /// the timer, up to 5 minutes in total. Runners such as `npx` have at least 5 minutes after each sign of life, and 30 minutes in total.
    handshake_timeout: Duration = seconds(30), DURATION;

    /// Maximum time of a call without an answer or a progress notification, up to `call_timeout_max` in total.
    call_timeout: Duration = seconds(300), DURATION.live();

    /// Replaces `call_timeout` for some tools, such as `{ "slow_*" = "10m" }`: globs on the server's own tool names. The
    /// first match counts. Entries of the server come before those of `[defaults]`, and entries of later files before those of
    /// earlier ones.
    tool_timeouts: ToolTimeouts = ToolTimeouts::default(), TOOL_TIMEOUTS.live();

    /// Maximum total time of a call, whatever progress it makes. If the key is absent, a longer `call_timeout` or
    /// `tool_timeouts` raises this default.
    call_timeout_max: Duration = seconds(3600), DURATION.live().derived_from("`call_timeout` or `tool_timeouts`");

    /// How long a server may be silent before mcpd sends it a `ping` (`server/discover` in the modern era).
    health_interval: Duration = seconds(30), DURATION;

    /// Maximum time for the answer to a `ping`. A `ping` that is unanswered while calls run does not count as a failure until one of
    /// the calls has timed out, but `mcpd status` reports it.
    health_timeout: Duration = seconds(5), DURATION;

    /// What mcpd does when a server has failed to answer three times in a row, counting pings and calls that timed out: `restart`,
    /// `report` (in `mcpd status`) or `ignore` (no health checks).
    on_unhealthy: OnUnhealthy = OnUnhealthy::Restart, choice::<OnUnhealthy>();

    /// How a reload replaces a running instance: `start_first` (the new one is ready before the old one stops) or `stop_first`
    /// (for a server that holds a port or a lock).
    replace: Replace = Replace::StartFirst, choice::<Replace>().live();

    /// Maximum size of one message from or to the server, instead of `max_message` of `[daemon]`. The limit of the agent's profile applies,
    /// too.
    max_message: Option<usize> = None, size(MAX_MESSAGE).example("\"64MiB\"");

    /// Memory limit of an instance with all its processes, or `none`. An instance that exceeds it is killed and restarted. Without the
    /// key, the limit is half of the machine's memory. No effect on servers at a URL. Requires the systemd unit of mcpd and cgroup v2.
    memory_max: Limit = Limit::default_of(None), size(MEMORY).or_none().example("\"1GiB\"");

    /// Maximum number of processes and threads of an instance (`TasksMax=` of systemd, not MCP tasks), or `none`. No effect on servers
    /// at a URL. Requires the systemd unit of mcpd and cgroup v2; or namespaces of level `files`, if mcpd does not run as root.
    tasks_max: Limit = Limit::default_of(Some(4096)), count(TASKS).or_none();

    /// The server's share of the processors while they are busy, in relation to other servers (`CPUWeight=` of systemd). No effect on
    /// servers at a URL. Requires the systemd unit of mcpd and cgroup v2.
    cpu_weight: usize = CPU_WEIGHT, count(1..=10_000);

    /// What mcpd does with definitions and results that strict clients reject, such as a null in place of a text: `mend` (drop or
    /// replace the member, or omit only that item) or `pass` (send them unchanged).
    malformed: Malformed = Malformed::Mend, choice::<Malformed>();

    /// What happens when the server changes or adds tools, prompts or resource templates, or changes its instructions: `follow`, `warn` or
    /// `hold`. With `follow`, agents get every change. With `warn`, they get it and `mcpd status` reports it, but suspicious changes wait for
    /// `mcpd approve`. With `hold`, agents get only approved definitions.
    changes: ChangeRule = ChangeRule::Warn, choice::<ChangeRule>().live();

    /// What the processes of the server may reach: `none` (whatever you may), `scope` (no other process) or `files` (also no files but
    /// those that it needs). A table has exceptions, such as `{ level = "files", write = ["/srv/notes"] }`.
    sandbox: Sandbox = Sandbox::default(), SANDBOX;

    /// Whether `mcpd calls` and `call_log` show the arguments of each call, up to 4 KiB.
    log_arguments: bool = false, FLAG.live().server_only();
}

/// A limit of a resource that has a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// `None`: there is no limit; or, for a default, it depends on the machine.
    pub max: Option<usize>,
    /// The configuration has no other value.
    pub is_default: bool,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { max: None, is_default: false };

    const fn default_of(max: Option<usize>) -> Self {
        Self { max, is_default: true }
    }
}

impl Field for Limit {
    fn set(&mut self, value: &KeyValue) {
        match value {
            // The example of all keys has the defaults.
            KeyValue::Number(max) if self.max == Some(*max) => {}
            KeyValue::Number(max) => *self = Self { max: Some(*max), is_default: false },
            KeyValue::NoLimit => *self = Self::NONE,
            _ => {}
        }
    }

    fn get(&self) -> Option<KeyValue> {
        match self.max {
            Some(max) => Some(KeyValue::Number(max)),
            None => (!self.is_default).then_some(KeyValue::NoLimit),
        }
    }
}

impl Settings {
    pub(super) fn resolve(layer: &KeyLayer) -> Self {
        let mut settings = layer.apply(Self::KEYS, Self::default());
        if layer.get("call_timeout_max").is_none() {
            let longest = settings.call_timeout.max(settings.tool_timeouts.longest());
            settings.call_timeout_max = settings.call_timeout_max.max(longest);
        }
        settings
    }

    /// The time limits for a call of `tool`, the server's own name.
    #[must_use]
    pub fn call_limit(&self, tool: &str) -> CallLimit {
        self.within_total(self.tool_timeouts.of(tool).unwrap_or(self.call_timeout))
    }

    /// The time limits for any other request.
    #[must_use]
    pub fn request_limit(&self) -> CallLimit {
        self.within_total(self.call_timeout)
    }

    fn within_total(&self, silence: Duration) -> CallLimit {
        CallLimit { progress_timeout: silence.min(self.call_timeout_max), total: self.call_timeout_max }
    }

    /// Whether an instance with these settings also fits `other`, because they differ at most in live settings.
    pub(super) fn runs_like(&self, other: &Self) -> bool {
        self.with_live_settings(other) == *other
    }
}

/// The instructions that agents receive about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instructions {
    /// Those that the server sends.
    OfServer,
    /// None.
    Omitted,
    /// This text.
    Text(Arc<str>),
}

impl Field for Instructions {
    fn set(&mut self, value: &KeyValue) {
        match value {
            KeyValue::Flag(true) => *self = Self::OfServer,
            KeyValue::Flag(false) => *self = Self::Omitted,
            KeyValue::Text(text) => *self = Self::Text(Arc::clone(text)),
            _ => {}
        }
    }

    fn get(&self) -> Option<KeyValue> {
        Some(match self {
            Self::OfServer => KeyValue::Flag(true),
            Self::Omitted => KeyValue::Flag(false),
            Self::Text(text) => KeyValue::Text(Arc::clone(text)),
        })
    }
}

/// Which agents share one instance of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All agents.
    Shared,
    /// Each agent has its own instance for the time of its connection.
    Session,
    /// Agents with the same working directory.
    Workspace,
    /// All agents, with more instances while all are busy.
    Pool,
}

impl Choice for Sharing {
    const NAMES: &[(&str, Self)] =
        &[("shared", Self::Shared), ("session", Self::Session), ("workspace", Self::Workspace), ("pool", Self::Pool)];
}

impl Sharing {
    /// Whether an instance serves a known set of agents.
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
    /// With its first call, and again after an idle stop.
    Lazy,
}

impl Choice for Start {
    const NAMES: &[(&str, Self)] = &[("eager", Self::Eager), ("lazy", Self::Lazy)];
}

/// The era of MCP that a server is used in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraChoice {
    /// The era of its agents if it supports both; legacy if agents of both eras share an instance.
    Auto,
    /// mcpd opens with `initialize`.
    Legacy,
    /// mcpd never sends `initialize`.
    Modern,
}

impl Choice for EraChoice {
    const NAMES: &[(&str, Self)] = &[("auto", Self::Auto), ("legacy", Self::Legacy), ("modern", Self::Modern)];
}

/// What happens to definitions and results that strict clients reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// They are mended, or left out alone.
    Mend,
    /// They pass as they are.
    Pass,
}

impl Choice for Malformed {
    const NAMES: &[(&str, Self)] = &[("mend", Self::Mend), ("pass", Self::Pass)];
}

/// What happens to definitions that differ from the approved ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeRule {
    /// Nothing is compared.
    Follow,
    /// They are reported, and withheld if they are suspicious.
    Warn,
    /// They are withheld.
    Hold,
}

impl Choice for ChangeRule {
    const NAMES: &[(&str, Self)] = &[("follow", Self::Follow), ("warn", Self::Warn), ("hold", Self::Hold)];
}

impl ChangeRule {
    /// Its name in the configuration.
    pub(crate) fn word(self) -> &'static str {
        Choice::word(self).unwrap_or_default()
    }
}

/// How a reload replaces a running instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// The new instance has listed before the old one stops. If it fails, the old one continues.
    StartFirst,
    /// The new instance starts after the old one has ended.
    StopFirst,
}

impl Choice for Replace {
    const NAMES: &[(&str, Self)] = &[("start_first", Self::StartFirst), ("stop_first", Self::StopFirst)];
}

/// What happens to an instance that does not answer pings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnhealthy {
    /// It is restarted.
    Restart,
    /// `mcpd status` reports it.
    Report,
    /// No pings are sent.
    Ignore,
}

impl Choice for OnUnhealthy {
    const NAMES: &[(&str, Self)] = &[("restart", Self::Restart), ("report", Self::Report), ("ignore", Self::Ignore)];
}
