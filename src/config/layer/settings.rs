//! What tables say of how a server is kept.

use std::time::Duration;

use globset::Glob;

use super::super::settings::{EraChoice, Limits, OnUnhealthy, Replace, Settings, Sharing, Start};
use super::super::spanned::{Spanned, or_default};
use super::super::timeouts::ToolTimeouts;

/// What one table says of it; `None` where it says nothing.
#[derive(Debug, Default, Clone)]
pub(in crate::config) struct SettingsLayer {
    pub(in crate::config) sharing: Option<Spanned<Sharing>>,
    pub(in crate::config) start: Option<Spanned<Start>>,
    pub(in crate::config) era: Option<Spanned<EraChoice>>,
    pub(in crate::config) broadcast_logs: Option<Spanned<bool>>,
    pub(in crate::config) max_instances: Option<Spanned<usize>>,
    pub(in crate::config) max_concurrent: Option<Spanned<usize>>,
    pub(in crate::config) idle_timeout: Option<Spanned<Duration>>,
    pub(in crate::config) handshake_timeout: Option<Spanned<Duration>>,
    pub(in crate::config) calls: CallTimeouts,
    pub(in crate::config) health_interval: Option<Spanned<Duration>>,
    pub(in crate::config) health_timeout: Option<Spanned<Duration>>,
    pub(in crate::config) on_unhealthy: Option<Spanned<OnUnhealthy>>,
    pub(in crate::config) backoff_reset: Option<Spanned<Duration>>,
    pub(in crate::config) memory_max: Option<Spanned<usize>>,
    pub(in crate::config) tasks_max: Option<Spanned<usize>>,
    pub(in crate::config) replace: Option<Spanned<Replace>>,
}

/// What it says of calls.
#[derive(Debug, Default, Clone)]
pub(in crate::config) struct CallTimeouts {
    pub(in crate::config) call_timeout: Option<Spanned<Duration>>,
    pub(in crate::config) call_timeout_max: Option<Spanned<Duration>>,
    /// The first that matches counts.
    pub(in crate::config) tool_timeouts: Vec<Spanned<(Glob, Duration)>>,
}

impl SettingsLayer {
    /// What this table says, and where it says nothing, what `lower` does.
    pub(in crate::config) fn over(self, lower: Self) -> Self {
        Self {
            sharing: self.sharing.or(lower.sharing),
            start: self.start.or(lower.start),
            era: self.era.or(lower.era),
            broadcast_logs: self.broadcast_logs.or(lower.broadcast_logs),
            max_instances: self.max_instances.or(lower.max_instances),
            max_concurrent: self.max_concurrent.or(lower.max_concurrent),
            idle_timeout: self.idle_timeout.or(lower.idle_timeout),
            handshake_timeout: self.handshake_timeout.or(lower.handshake_timeout),
            calls: self.calls.over(lower.calls),
            health_interval: self.health_interval.or(lower.health_interval),
            health_timeout: self.health_timeout.or(lower.health_timeout),
            on_unhealthy: self.on_unhealthy.or(lower.on_unhealthy),
            backoff_reset: self.backoff_reset.or(lower.backoff_reset),
            memory_max: self.memory_max.or(lower.memory_max),
            tasks_max: self.tasks_max.or(lower.tasks_max),
            replace: self.replace.or(lower.replace),
        }
    }

    /// With the built-in default wherever nothing is said.
    pub(in crate::config) fn settle(&self) -> Settings {
        let unset = Settings::default();
        let call_timeout = or_default(self.calls.call_timeout.as_ref(), unset.call_timeout);
        let tool_timeouts = self.calls.tool_timeouts.iter().map(|timeout| timeout.value.clone());
        let tool_timeouts = ToolTimeouts::new(tool_timeouts);
        // A limit that nobody has set is no reason to shorten one that somebody has.
        let longest = unset.call_timeout_max.max(call_timeout).max(tool_timeouts.longest());
        Settings {
            sharing: or_default(self.sharing.as_ref(), unset.sharing),
            start: or_default(self.start.as_ref(), unset.start),
            era: or_default(self.era.as_ref(), unset.era),
            broadcast_logs: or_default(self.broadcast_logs.as_ref(), unset.broadcast_logs),
            max_instances: or_default(self.max_instances.as_ref(), unset.max_instances),
            max_concurrent: self.max_concurrent.as_ref().map(|max| max.value),
            idle_timeout: or_default(self.idle_timeout.as_ref(), unset.idle_timeout),
            handshake_timeout: or_default(self.handshake_timeout.as_ref(), unset.handshake_timeout),
            call_timeout,
            call_timeout_max: or_default(self.calls.call_timeout_max.as_ref(), longest),
            tool_timeouts,
            health_interval: or_default(self.health_interval.as_ref(), unset.health_interval),
            health_timeout: or_default(self.health_timeout.as_ref(), unset.health_timeout),
            on_unhealthy: or_default(self.on_unhealthy.as_ref(), unset.on_unhealthy),
            backoff_reset: or_default(self.backoff_reset.as_ref(), unset.backoff_reset),
            limits: Limits {
                memory_max: self.memory_max.as_ref().map(|max| max.value),
                tasks_max: self.tasks_max.as_ref().map(|max| max.value),
            },
            replace: or_default(self.replace.as_ref(), unset.replace),
        }
    }
}

impl CallTimeouts {
    fn over(mut self, lower: Self) -> Self {
        self.tool_timeouts.extend(lower.tool_timeouts);
        Self {
            call_timeout: self.call_timeout.or(lower.call_timeout),
            call_timeout_max: self.call_timeout_max.or(lower.call_timeout_max),
            tool_timeouts: self.tool_timeouts,
        }
    }
}
