//! Determines the outcome of a new set of servers and answers its caller.

use std::sync::Arc;
use std::time::Instant;

use super::{Entry, ManagerTask};
use crate::config::{ServerConfig, Start};
use crate::manager::changes::{Changes, FailureReason, ServerFailure};
use crate::manager::orders::OutcomeSender;
use crate::server::ServerError;
use crate::server::ServerHandle;
use crate::server::lifecycle::State;

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
    /// Answers the callers of sets that are complete or whose time is over.
    pub(super) fn answer_pending_sets(&mut self, now: Instant) {
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
