//! Replacements: servers that start beside the one that they will replace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::apply::outcome;
use super::{Entry, ManagerTask};
use crate::config::{Replace, ServerConfig};
use crate::manager::changes::{FailureReason, ServerFailure};
use crate::manager::view::Enablement;
use crate::server::lifecycle::State;
use crate::server::{Running, ServerHandle, StopLevel};

/// Extra time for lists, and for the end of the former instance.
const MARGIN: Duration = Duration::from_secs(10);
/// Extra time for each server that starts at the same time.
const TURN: Duration = Duration::from_secs(2);

/// A server that has been started to replace another, or to be added.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) running: Running,
    pub(super) config: Arc<ServerConfig>,
    enabled: bool,
    /// No former instance could continue if this one fails.
    is_alone: bool,
    until: Instant,
    /// Number of the first stderr line that it may have written.
    first_line: u64,
}

/// Maximum time until a server is ready that starts together with others, `count` in total.
pub(super) fn wait_limit(config: &ServerConfig, count: usize) -> Duration {
    let turns = TURN.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    // Once for the handshake and once for the lists.
    config.settings.handshake_timeout.saturating_mul(2).saturating_add(MARGIN).saturating_add(turns)
}

impl Replacement {
    /// The same replacement with the configuration of a later set.
    pub(super) fn with_config(self, config: &Arc<ServerConfig>) -> Self {
        Self { config: Arc::clone(config), ..self }
    }

    /// Whether it runs with a process for `config`.
    pub(super) fn is_like(&self, config: &ServerConfig) -> bool {
        self.config.runs_like(config)
    }

    /// Whether it is ready, or why not; `None` while it starts.
    pub(super) fn readiness(&self, now: Instant) -> Option<Result<(), FailureReason>> {
        if !self.enabled {
            return Some(Ok(()));
        }
        let late = || (now >= self.until).then_some(Err(FailureReason::Timeout));
        let decided = outcome(&self.running.handle).or_else(late)?;
        // A server whose lists cannot be read is ready but useless.
        Some(decided.and_then(|()| {
            let error = self.running.handle.published().last_error.clone();
            error.map_or(Ok(()), |error| Err(FailureReason::Server(error)))
        }))
    }

    /// When it counts as failed if it is not ready.
    pub(super) fn until(&self) -> Option<Instant> {
        self.enabled.then_some(self.until)
    }
}

impl Entry {
    fn is_up(&self) -> bool {
        let published = self.running.handle.published();
        self.enablement.runs() && matches!(published.state, State::Ready { .. } | State::Unresponsive { .. })
    }

    /// Whether `config` needs a replacement with a task of its own. That is so if the server is ready, stays enabled and may run beside its
    /// replacement, or if its sharing mode changes. Otherwise the server's own task is reconfigured.
    pub(super) fn needs_replacement(&self, config: &ServerConfig) -> bool {
        let settings = &config.settings;
        let is_other_task = self.config.settings.sharing != settings.sharing;
        let runs_on = self.is_up() && self.enablement_under(config).runs();
        is_other_task || (runs_on && settings.replace == Replace::StartFirst)
    }
}

impl ManagerTask {
    /// Servers of this name that were ordered to stop and have not ended yet.
    pub(super) fn leaving(&self, name: &str) -> Vec<ServerHandle> {
        let gone = self.changing.gone.iter().map(|(running, _)| running);
        let handles = self.leaving.iter().chain(gone).map(|running| &running.handle);
        handles.filter(|handle| **handle.name() == *name && !handle.has_ended()).cloned().collect()
    }

    /// Servers that must end before a process for `config` may start.
    pub(super) fn predecessors(&self, config: &ServerConfig) -> Vec<ServerHandle> {
        match config.settings.replace {
            Replace::StartFirst => Vec::new(),
            Replace::StopFirst => self.leaving(&config.name),
        }
    }

    /// The entry of a new server whose replacement is `one`.
    pub(super) fn place(&self, one: Replacement, config: Arc<ServerConfig>) -> Entry {
        let waits_for = if one.enabled { Vec::new() } else { self.leaving(&config.name) };
        let mut entry = Entry::new(one.running, config);
        entry.wait_for(waits_for);
        entry
    }

    /// Starts a replacement for the server of that name, or a new server, together with others, `count` in total.
    pub(super) fn start_replacement(&self, config: &Arc<ServerConfig>, count: usize) -> Replacement {
        let before = self.servers.iter().find(|entry| entry.config.name == config.name);
        let waits =
            !self.predecessors(config).is_empty() || before.is_some() && config.settings.replace == Replace::StopFirst;
        let enablement = before.map_or_else(|| Enablement::configured(config), |entry| entry.enablement_under(config));
        let enabled = enablement.runs() && !waits;
        let record = match before {
            Some(entry) => entry.running.shared.clone(),
            None => self.setup.host.state_of(Arc::clone(&config.name)),
        };
        let running = self.start_running(Arc::clone(config), enabled, record);
        if let Some(entry) = before {
            running.control.override_health(entry.running.control.health_override());
        }
        let first_line = running.handle.stderr().reader(0).next_line_number();
        let is_alone = !enabled || !before.is_some_and(Entry::is_up);
        let until = Instant::now() + wait_limit(config, count);
        Replacement { running, config: Arc::clone(config), enabled, is_alone, until, first_line }
    }

    /// Puts a ready replacement in place of `entry`. A failed one is dropped if the former instance can continue. One that is still
    /// starting stays in the list of replacements.
    pub(super) fn put_in_place(&mut self, entry: &mut Entry, one: Replacement, now: Instant) {
        match one.readiness(now) {
            None if !one.is_alone => self.changing.replacements.push(one),
            Some(Err(reason)) if !one.is_alone => {
                let failed = ServerFailure::beside(&entry.running.handle, &one.running.handle, one.first_line, &reason);
                tracing::warn!(server = %failed.name, "goes on as it was, for the new instance failed: {}", failed.reason);
                entry.refused = Some((one.config, failed));
                self.changing.gone.push((one.running, StopLevel::FinishRunning));
            }
            _ => {
                let waits_for = self.leaving(&one.config.name);
                let old = entry.replace(one, waits_for);
                self.changing.gone.push((old, StopLevel::FinishAll));
            }
        }
    }
}

impl Entry {
    /// Puts `one` in place of the current server, which is returned. If `one` is not started yet, it starts when the returned server
    /// and those in `waits_for` have ended. Live settings stay as last applied to the entry.
    pub(super) fn replace(&mut self, one: Replacement, mut waits_for: Vec<ServerHandle>) -> Running {
        self.config = Arc::new(one.config.with_live_settings(&self.config));
        let old = std::mem::replace(&mut self.running, one.running);
        (self.due, self.refused) = (0, None);
        if one.enabled {
            waits_for.clear();
        } else {
            waits_for.push(old.handle.clone());
        }
        self.wait_for(waits_for);
        self.running.shared.stats().starts_after_first.add_one();
        old
    }

    /// Starts the server, if it is enabled, when all of these have ended.
    pub(super) fn wait_for(&mut self, waits_for: Vec<ServerHandle>) {
        self.waits_for = waits_for;
        self.waits_for.retain(|handle| !handle.has_ended());
        self.running.control.enable(self.enablement.runs() && self.waits_for.is_empty());
    }
}
