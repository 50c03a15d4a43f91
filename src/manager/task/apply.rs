//! Applies a new set of servers as a whole, and answers its caller.
//!
//! 1. New and changed servers start first, beside the running ones ([`super::replacement`]).
//! 2. The set is in force when each of them is ready or has failed, at the latest after [`STAGE`]. Order, policy, profiles, call limits
//!    and ready replacements then change in one step, so agents are notified once.
//! 3. A slower replacement takes its place when it is ready. A failed one is dropped: the former instance continues, and the entry
//!    records the failure.
//!
//! ```text
//! set ─► replacements started ─► all ready, or STAGE over ─► in force ─► the last replacements ─► answer
//!            later set: shared replacements continue, the others are dropped ┘
//! ```
//!
//! - Some servers are reconfigured by their own task, which stops the old instance first. These are servers without a ready instance
//!   (idle, disabled, failed, in backoff, starting) and servers with `replace = "stop_first"`.
//! - A server with an instance per agent is replaced as a whole. Its replacement is ready when its listing instance is, or at once if
//!   there is none. Its agents then get new instances, while the old ones finish their calls.
//! - A set that arrives while another is staged replaces it, with the same deadline. Any other command first puts the staged set in force.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::replacement::{Replacement, wait_limit};
use super::{Entry, ManagerTask};
use crate::config::{ServerConfig, Start};
use crate::manager::changes::{Changes, DesiredState, FailureReason, ServerFailure, ViewConfig};
use crate::manager::commands::{OutcomeSender, check_names};
use crate::server::lifecycle::State;
use crate::server::{Running, ServerError, ServerHandle, StopLevel};

/// Maximum time between the arrival of a set and the moment when it is in force.
const STAGE: Duration = Duration::from_secs(5);

/// A set that is not in force yet.
#[derive(Debug)]
struct StagedSet {
    servers: Vec<Arc<ServerConfig>>,
    exposed: Option<ViewConfig>,
    until: Instant,
}

/// Changes in progress.
#[derive(Debug, Default)]
pub(super) struct Changing {
    staged: Option<StagedSet>,
    /// In the order of the set; at most one for each server.
    pub(super) replacements: Vec<Replacement>,
    pub(super) pending_sets: Vec<PendingSet>,
    /// Servers to stop once no published view routes calls to them.
    pub(super) gone: Vec<(Running, StopLevel)>,
}

impl Changing {
    /// The next deadline of a staged set, a pending answer or a replacement. `is_held`: no answer is given yet.
    pub(super) fn due(&self, is_held: bool) -> Option<Instant> {
        let staged = self.staged.iter().map(|staged| staged.until);
        let pending = self.pending_sets.iter().filter(|_| !is_held).map(|pending| pending.until);
        staged.chain(pending).chain(self.replacements.iter().filter_map(Replacement::until)).min()
    }

    fn take(&mut self, name: &str) -> Option<Replacement> {
        let index = self.replacements.iter().position(|one| *one.config.name == *name)?;
        Some(self.replacements.remove(index))
    }
}

impl ManagerTask {
    /// Stages `desired`, starts its replacements, and answers `done` when it is in force.
    pub(super) fn apply(&mut self, desired: DesiredState, done: OutcomeSender<Changes>) {
        if let Err(error) = check_names(desired.servers.iter().map(|config| &config.name)) {
            // The caller may have dropped its future.
            return drop(done.send(Err(error)));
        }
        let servers: Vec<_> = desired.servers.into_iter().map(Arc::new).collect();
        let (changes, awaited) = self.compare(&servers);
        self.start_replacements(&awaited);
        let now = Instant::now();
        let until = now + awaited.iter().map(|config| wait_limit(config, awaited.len())).max().unwrap_or_default();
        self.changing.pending_sets.push(PendingSet { done, changes, servers: servers.clone(), until });
        let (until, before) =
            self.changing.staged.take().map_or((now + STAGE, None), |staged| (staged.until, staged.exposed));
        self.changing.staged = Some(StagedSet { servers, exposed: desired.exposed.or(before), until });
        self.advance();
    }

    /// Starts the missing replacements for `awaited`, and stops replacements that are no longer needed.
    fn start_replacements(&mut self, awaited: &[Arc<ServerConfig>]) {
        let is_separate = |config: &&Arc<ServerConfig>| {
            let entry = self.servers.iter().find(|entry| entry.config.name == config.name);
            entry.is_none_or(|entry| entry.needs_replacement(config))
        };
        let separate: Vec<_> = awaited.iter().filter(is_separate).collect();
        let is_needed =
            |one: &Replacement| separate.iter().any(|config| one.config.name == config.name && one.is_like(config));
        let before = std::mem::take(&mut self.changing.replacements);
        let (mut started, unneeded): (Vec<_>, Vec<_>) = before.into_iter().partition(is_needed);
        // First, because a new replacement may have to wait for their end.
        self.changing.gone.extend(unneeded.into_iter().map(|one| (one.running, StopLevel::FinishRunning)));
        self.stop_gone();
        for config in separate {
            let index = started.iter().position(|one| one.config.name == config.name);
            let one = match index.map(|index| started.swap_remove(index)) {
                Some(one) => one.with_config(config),
                None => self.start_replacement(config, awaited.len()),
            };
            self.changing.replacements.push(one);
        }
    }

    /// Compares a set with the current servers. Returns the changes and the configurations that need a new instance.
    fn compare(&self, servers: &[Arc<ServerConfig>]) -> (Changes, Vec<Arc<ServerConfig>>) {
        let (mut changes, mut awaited) = (Changes::default(), Vec::new());
        for config in servers {
            let name = Arc::clone(&config.name);
            match self.servers.iter().find(|entry| entry.config.name == config.name) {
                Some(entry) if entry.continues_under(config) => {
                    if !entry.config.serves_like(config) {
                        changes.updated.push(Arc::clone(&name));
                    }
                    changes.unchanged.push(name);
                    continue;
                }
                Some(_) => changes.changed.push(name),
                None => changes.added.push(name),
            }
            awaited.push(Arc::clone(config));
        }
        let names = self.servers.iter().map(|entry| &entry.config.name);
        let is_gone = |name: &&Arc<str>| !servers.iter().any(|config| config.name == **name);
        changes.removed = names.filter(is_gone).cloned().collect();
        (changes, awaited)
    }

    /// Takes the next steps that are possible or due.
    pub(super) fn advance(&mut self) {
        let now = Instant::now();
        for entry in &mut self.servers {
            entry.start_after();
        }
        match &self.changing.staged {
            Some(staged) => {
                let all_decided = self.changing.replacements.iter().all(|one| one.readiness(now).is_some());
                if all_decided || staged.until <= now {
                    self.put_in_force(now);
                }
            }
            None => self.replace_ready(now),
        }
        if self.changing.staged.is_none() {
            self.answer_pending_sets(now);
        }
    }

    /// Puts the staged set in force now, if there is one.
    pub(super) fn apply_staged(&mut self) {
        if self.changing.staged.is_some() {
            let now = Instant::now();
            self.put_in_force(now);
            self.answer_pending_sets(now);
        }
    }

    fn put_in_force(&mut self, now: Instant) {
        let Some(StagedSet { servers, exposed, .. }) = self.changing.staged.take() else { return };
        let mut before = std::mem::take(&mut self.servers);
        let mut replacements = std::mem::take(&mut self.changing.replacements);
        for config in servers {
            let mut take = || replacements.extract_if(.., |one| one.config.name == config.name).next();
            let index = before.iter().position(|entry| entry.config.name == config.name);
            let entry = index.map(|index| before.remove(index));
            let config = self.with_denied(Arc::clone(&config));
            let entry = match (entry, take()) {
                (None, Some(one)) => self.place(one, config),
                (None, None) => self.start_one(config),
                (Some(mut entry), Some(one)) => {
                    entry.enablement = entry.enablement_under(&config);
                    (entry.config, entry.refused) = (Arc::new(entry.config.with_live_settings(&config)), None);
                    self.put_in_place(&mut entry, one, now);
                    entry
                }
                (Some(entry), None) => {
                    let waits_for = self.predecessors(&config);
                    entry.reconfigured(config, waits_for)
                }
            };
            self.servers.push(entry);
        }
        self.changing.gone.extend(before.into_iter().map(|entry| (entry.running, StopLevel::FinishRunning)));
        if let Some(exposed) = exposed {
            self.expose(exposed);
        }
        // Under the new rules: with those before, a file that is gone could be made again.
        self.pins.read_again();
        self.publish(false);
        self.serve_profiles();
        self.stop_gone();
    }

    /// Puts ready replacements in place, and drops failed ones.
    fn replace_ready(&mut self, now: Instant) {
        let decided: Vec<_> = self.changing.replacements.extract_if(.., |one| one.readiness(now).is_some()).collect();
        if decided.is_empty() {
            return;
        }
        for one in decided {
            self.replace_named(one, now);
        }
        self.publish(false);
        self.stop_gone();
    }

    fn replace_named(&mut self, one: Replacement, now: Instant) {
        match self.servers.iter().position(|entry| entry.config.name == one.config.name) {
            Some(index) => {
                let mut entry = self.servers.remove(index);
                self.put_in_place(&mut entry, one, now);
                self.servers.insert(index, entry);
            }
            None => self.changing.gone.push((one.running, StopLevel::FinishRunning)),
        }
    }

    /// Stops the replacement of a server that is being stopped or removed. The server's own task takes over the new configuration.
    pub(super) fn cancel_replacement(&mut self, name: &str) {
        let Some(one) = self.changing.take(name) else { return };
        if let Some(index) = self.servers.iter().position(|entry| *entry.config.name == *name) {
            let mut entry = self.servers.remove(index);
            if entry.config.settings.sharing != one.config.settings.sharing {
                let old = entry.replace(one, self.leaving(name));
                self.changing.gone.push((old, StopLevel::FinishAll));
                return self.servers.insert(index, entry);
            }
            let config = Arc::new(one.config.with_live_settings(&entry.config));
            let waits_for = self.predecessors(&config);
            self.servers.insert(index, entry.reconfigured(config, waits_for));
        }
        self.changing.gone.push((one.running, StopLevel::FinishRunning));
    }

    /// Stops the servers in `gone`.
    pub(super) fn stop_gone(&mut self) {
        for (running, stop) in self.changing.gone.drain(..) {
            running.control.stop(stop);
            self.leaving.push(running);
        }
    }
}

impl Entry {
    /// Whether the server goes on as it is under `config`: with the same process, or without one.
    fn continues_under(&self, config: &ServerConfig) -> bool {
        self.config.runs_like(config) && self.enablement_under(config) == self.enablement
    }

    /// Reconfigures the server within its own task. A new instance starts when the servers in `waits_for` have ended.
    fn reconfigured(mut self, config: Arc<ServerConfig>, waits_for: Vec<ServerHandle>) -> Self {
        let continues = self.continues_under(&config);
        self.enablement = self.enablement_under(&config);
        // The process that goes on has its own copy of the headers that are read again.
        self.config = if continues { Arc::new(self.config.with_live_settings(&config)) } else { config };
        self.refused = None;
        if !continues {
            self.wait_for(waits_for);
            self.due = self.running.control.reconfigure(Arc::clone(&self.config));
        }
        self
    }

    /// Starts the server if all predecessors that it waits for have ended.
    fn start_after(&mut self) {
        if !self.waits_for.is_empty() {
            let waits_for = std::mem::take(&mut self.waits_for);
            self.wait_for(waits_for);
        }
    }
}

/// A set whose caller still waits for the outcome.
#[derive(Debug)]
pub(super) struct PendingSet {
    pub(super) done: OutcomeSender<Changes>,
    /// The expected changes. Failures are moved out before the answer.
    pub(super) changes: Changes,
    /// The whole set. All but the unchanged servers must start first.
    pub(super) servers: Vec<Arc<ServerConfig>>,
    /// When the caller is answered at the latest.
    pub(super) until: Instant,
}

impl ManagerTask {
    /// Answers the callers of sets that are complete or whose time is over, once the pin files are read.
    pub(super) fn answer_pending_sets(&mut self, now: Instant) {
        if self.pins.is_reading() {
            return;
        }
        for mut one in std::mem::take(&mut self.changing.pending_sets) {
            match self.failures(&one, now) {
                Some(failed) => {
                    let has_failed = |name: &mut Arc<str>| failed.iter().any(|one| one.name == *name);
                    let is_down = |name: &mut Arc<str>| self.is_down(name, &one.servers);
                    one.changes.still_down = one.changes.unchanged.extract_if(.., is_down).collect();
                    one.changes.added.extract_if(.., has_failed).for_each(drop);
                    one.changes.changed.extract_if(.., has_failed).for_each(drop);
                    one.changes.failed = failed;
                    // The caller may have dropped its future.
                    drop(one.done.send(Ok(one.changes)));
                }
                None => self.changing.pending_sets.push(one),
            }
        }
    }

    /// The failed servers of a set; `None` while some are still starting.
    fn failures(&self, pending: &PendingSet, now: Instant) -> Option<Vec<ServerFailure>> {
        let mut failed = Vec::new();
        for config in &pending.servers {
            if pending.changes.unchanged.contains(&config.name) {
                continue;
            }
            match self.outcome_of(config) {
                Some(outcome_of) => failed.extend(outcome_of.err()),
                None if pending.until <= now => {
                    failed.push(ServerFailure::of(&config.name, &FailureReason::Timeout));
                }
                None => return None,
            }
        }
        Some(failed)
    }

    /// Whether a server runs as `config` says, or why not; `None` if that is not known yet.
    fn outcome_of(&self, config: &ServerConfig) -> Option<Result<(), ServerFailure>> {
        let is_to_come =
            self.changing.replacements.iter().any(|one| one.config.name == config.name && one.is_like(config));
        let Some(entry) = self.servers.iter().find(|entry| entry.config.name == config.name) else {
            return Some(Err(ServerFailure::of(&config.name, &FailureReason::Superseded)));
        };
        if is_to_come {
            return None;
        }
        if !entry.config.runs_like(config) {
            let refused = entry.refused.as_ref().filter(|(refused, _)| refused.runs_like(config));
            let overtaken =
                || ServerFailure { runs_on: true, ..ServerFailure::of(&config.name, &FailureReason::Superseded) };
            return Some(Err(refused.map_or_else(overtaken, |(_, failed)| failed.clone())));
        }
        let handle = &entry.running.handle;
        if entry.enablement.runs() && handle.published().revision < entry.due {
            return None;
        }
        let outcome = if entry.enablement.runs() { outcome(handle)? } else { Ok(()) };
        Some(outcome.map_err(|reason| ServerFailure::alone(handle, &reason)))
    }

    /// Whether the last start of an unchanged server failed.
    fn is_down(&self, name: &str, servers: &[Arc<ServerConfig>]) -> bool {
        let Some(config) = servers.iter().find(|config| *config.name == *name) else { return false };
        let is_it = |entry: &&Entry| *entry.config.name == *name && entry.config.runs_like(config);
        let Some(entry) = self.servers.iter().find(is_it).filter(|entry| entry.enablement.is_enabled()) else {
            return false;
        };
        let handle = &entry.running.handle;
        // A lazy server that is starting for a call has not failed.
        let is_called = config.settings.start == Start::Lazy && handle.published().state == State::Starting;
        !is_called && matches!(outcome(handle), Some(Err(_)))
    }
}

/// The result of the first start attempt; `None` while it runs.
pub(super) fn outcome(server: &ServerHandle) -> Option<Result<(), FailureReason>> {
    if server.has_ended() {
        return Some(Err(FailureReason::Server(ServerError::Stopped)));
    }
    let published = server.published();
    if !published.first_start_ended && !published.not_started_yet {
        return None;
    }
    Some(match &published.state {
        State::Backoff { reason, .. } | State::Failed { reason } => Err(FailureReason::Server(reason.clone())),
        State::NeedsLogin { .. } => Err(FailureReason::LoginNeeded),
        // A further attempt is running already.
        State::Starting if !published.not_started_yet => {
            let error = published.last_error.clone();
            Err(FailureReason::Server(error.unwrap_or(ServerError::Starting)))
        }
        _ => Ok(()),
    })
}
