//! The resource limits of an instance, with the defaults that depend on the machine, and whether they are enforced.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::{CPU_WEIGHT, Limit, Settings};

/// A resource that is limited, by the name of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitKey {
    /// Memory.
    MemoryMax,
    /// Processes and threads.
    TasksMax,
    /// The share of the processors.
    CpuWeight,
}

impl LimitKey {
    /// The key of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryMax => "memory_max",
            Self::TasksMax => "tasks_max",
            Self::CpuWeight => "cpu_weight",
        }
    }

    /// The controller that enforces it (kernel, `admin-guide/cgroup-v2`).
    pub(crate) fn controller(self) -> &'static str {
        match self {
            Self::MemoryMax => "memory",
            Self::TasksMax => "pids",
            Self::CpuWeight => "cpu",
        }
    }
}

/// Resource limits of one instance with all its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes. An instance that exceeds it is killed and restarted.
    pub memory_max: Limit,
    /// Processes and threads. Creating one more fails.
    pub tasks_max: Limit,
    /// The share of the processors.
    pub cpu_weight: usize,
}

impl Limits {
    /// The limits of each instance of a server with these settings, on this machine.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let Settings { mut memory_max, tasks_max, cpu_weight, .. } = *settings;
        if memory_max.is_default {
            // An error leaves it without a limit.
            memory_max.max =
                nix::sys::sysinfo::sysinfo().ok().and_then(|info| usize::try_from(info.ram_total() / 2).ok());
        }
        Self { memory_max, tasks_max, cpu_weight }
    }

    /// The limits that differ from what an instance has in any case, and whether the configuration has a value.
    fn keys(&self) -> impl Iterator<Item = (LimitKey, bool)> {
        let maxima = [(LimitKey::MemoryMax, self.memory_max), (LimitKey::TasksMax, self.tasks_max)].into_iter();
        let maxima = maxima.filter_map(|(key, limit)| Some((key, limit.max.map(|_| !limit.is_default)?)));
        maxima.chain((self.cpu_weight != CPU_WEIGHT).then_some((LimitKey::CpuWeight, true)))
    }

    /// That all of these are enforced which `is_enforced` is true of. The others are not, for this reason.
    pub(super) fn enforcement(
        &self,
        is_enforced: impl Fn(LimitKey) -> bool,
        reason: impl Into<Arc<str>>,
    ) -> Enforcement {
        Enforcement { not_enforced: self.keys().filter(|(key, _)| !is_enforced(*key)).collect(), reason: reason.into() }
    }
}

/// Which limits of an instance are not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// Each with whether the configuration has a value for it. Empty: all limits are enforced.
    not_enforced: Vec<(LimitKey, bool)>,
    /// Why not: one line of text.
    reason: Arc<str>,
}

impl Enforcement {
    /// The limits that are not enforced.
    pub fn not_enforced(&self) -> impl Iterator<Item = LimitKey> {
        self.not_enforced.iter().map(|(key, _)| *key)
    }

    /// Why they are not enforced. `None` if all are.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        (!self.not_enforced.is_empty()).then_some(&*self.reason)
    }

    /// Whether the configuration names any of them.
    #[must_use]
    pub fn breaks_configuration(&self) -> bool {
        self.not_enforced.iter().any(|(_, is_configured)| *is_configured)
    }

    /// Another mechanism has to enforce `key`. Returns whether it was missing.
    pub(in crate::server) fn enforce_otherwise(&mut self, key: LimitKey) -> bool {
        self.not_enforced.extract_if(.., |(missing, _)| *missing == key).count() > 0
    }
}
