//! What has become of a new set of servers, for whoever has ordered it.

use std::sync::Arc;
use std::time::Instant;

use super::{Entry, ManagerTask};
use crate::config::{ServerConfig, Start};
use crate::manager::changes::{Changes, FailureReason, ServerFailure};
use crate::manager::orders::ReplySender;
use crate::server::ServerError;
use crate::server::ServerHandle;
use crate::server::lifecycle::State;

/// Somebody who waits until a set is in force.
#[derive(Debug)]
pub(super) struct PendingSet {
    pub(super) done: ReplySender<Changes>,
    /// As they are to be.
    pub(super) changes: Changes,
    /// All of the set. Those that are not kept have to come up first.
    pub(super) servers: Vec<Arc<ServerConfig>>,
    /// When it is told in any case.
    pub(super) until: Instant,
}

impl ManagerTask {
    /// Tells those whose sets are in force by now, or are waited for no longer.
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
                    // Whoever asked may have gone.
                    drop(one.done.send(Ok(one.changes)));
                }
                None => self.changing.pending_sets.push(one),
            }
        }
    }

    /// What has failed of a set that one waits for; `None` if more is to come.
    fn failures(&self, pending: &PendingSet, now: Instant) -> Option<Vec<ServerFailure>> {
        let mut failed = Vec::new();
        for config in &pending.servers {
            if pending.changes.unchanged.contains(&config.name) {
                continue;
            }
            match self.became(config) {
                Some(became) => failed.extend(became.err()),
                None if pending.until <= now => {
                    failed.push(ServerFailure::of(&config.name, &FailureReason::Timeout));
                }
                None => return None,
            }
        }
        Some(failed)
    }

    /// What has become of a server that was to be run like this; `None` if that is not known yet.
    fn became(&self, config: &ServerConfig) -> Option<Result<(), ServerFailure>> {
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

    /// Whether the last start of a server failed that is to be run as before.
    fn is_down(&self, name: &str, servers: &[Arc<ServerConfig>]) -> bool {
        let Some(config) = servers.iter().find(|config| *config.name == *name) else { return false };
        let is_it = |entry: &&Entry| *entry.config.name == *name && entry.config.runs_like(config);
        let Some(entry) = self.servers.iter().find(is_it).filter(|entry| entry.enablement.runs()) else { return false };
        let handle = &entry.running.handle;
        // One that is called after it slept has not failed.
        let is_called = config.settings.start == Start::Lazy && handle.published().state == State::Starting;
        !is_called && matches!(outcome(handle), Some(Err(_)))
    }
}

/// How a first start has ended; `None` if it has not.
pub(super) fn outcome(server: &ServerHandle) -> Option<Result<(), FailureReason>> {
    if server.has_ended() {
        return Some(Err(FailureReason::Server(ServerError::Stopped)));
    }
    let published = server.published();
    if !published.attempted && !published.asleep {
        return None;
    }
    Some(match &published.state {
        State::Backoff { reason, .. } | State::Failed { reason } => Err(FailureReason::Server(reason.clone())),
        State::NeedsLogin { .. } => Err(FailureReason::LoginNeeded { server: Arc::clone(server.name()) }),
        // It is tried again already.
        State::Starting if !published.asleep => {
            let error = published.last_error.clone();
            Err(FailureReason::Server(error.unwrap_or(ServerError::Starting)))
        }
        _ => Ok(()),
    })
}
