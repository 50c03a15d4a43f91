//! A new instance that is started beside the one whose place it is to take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcome::outcome;
use super::{Entry, ManagerTask};
use crate::config::{Replace, ServerConfig};
use crate::manager::changes::{FailureReason, ServerFailure};
use crate::manager::enablement::Enablement;
use crate::server::lifecycle::State;
use crate::server::{Running, ServerHandle, SharedState, Stop};

/// For the lists of a server beyond what its handshake may take, and for the end of the instance before.
const MARGIN: Duration = Duration::from_secs(10);
/// For the turn of a server that starts with others.
const TURN: Duration = Duration::from_secs(2);

/// What is started, and as what.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) running: Running,
    pub(super) config: Arc<ServerConfig>,
    enabled: bool,
    /// No instance runs that could go on in its place.
    is_alone: bool,
    until: Instant,
    /// What it may have written to stderr begins with this line.
    first_line: u64,
}

/// How long it takes at most until `count` servers are ready of which this is one.
pub(super) fn wait_limit(config: &ServerConfig, count: usize) -> Duration {
    let turns = TURN.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    // Its lists have as long as its handshake.
    config.settings.handshake_timeout.saturating_mul(2).saturating_add(MARGIN).saturating_add(turns)
}

impl Replacement {
    /// The same, as told by a later set.
    pub(super) fn with_config(self, config: &Arc<ServerConfig>) -> Self {
        Self { config: Arc::clone(config), ..self }
    }

    /// Whether it is run as `config` says.
    pub(super) fn is_like(&self, config: &ServerConfig) -> bool {
        self.config.runs_like(config)
    }

    /// Whether it can take its place, with the reason if it cannot; `None` if that is not known yet.
    pub(super) fn proved(&self, now: Instant) -> Option<Result<(), FailureReason>> {
        if !self.enabled {
            return Some(Ok(()));
        }
        let late = || (now >= self.until).then(|| Err(FailureReason::Timeout));
        let proved = outcome(&self.running.handle).or_else(late)?;
        // One that cannot list is ready, and of no use.
        Some(proved.and_then(|()| {
            let error = self.running.handle.published().last_error.clone();
            error.map_or(Ok(()), |error| Err(FailureReason::Server(error)))
        }))
    }

    /// When it is waited for no longer.
    pub(super) fn until(&self) -> Option<Instant> {
        self.enabled.then_some(self.until)
    }
}

impl Entry {
    fn is_up(&self) -> bool {
        let published = self.running.handle.published();
        self.enablement.runs() && matches!(published.state, State::Ready { .. } | State::Unresponsive { .. })
    }

    /// Whether what runs makes way for another task, rather than its task for another instance: that is so if it is up and
    /// may run beside its replacement, or if the task itself has to be another.
    pub(super) fn makes_way(&self, config: &ServerConfig) -> bool {
        let settings = &config.settings;
        let is_other_task = self.config.settings.sharing != settings.sharing;
        is_other_task || (self.is_up() && settings.replace == Replace::StartFirst)
    }
}

impl ManagerTask {
    /// What of that name has been told to end, and may have processes still.
    pub(super) fn leaving(&self, name: &str) -> Vec<ServerHandle> {
        let gone = self.changing.gone.iter().map(|(running, _)| running);
        let handles = self.leaving.iter().chain(gone).map(|running| &running.handle);
        handles.filter(|handle| **handle.name() == *name && !handle.has_ended()).cloned().collect()
    }

    /// What has to end before a process may be started as `config` says.
    pub(super) fn to_wait_for(&self, config: &ServerConfig) -> Vec<ServerHandle> {
        match config.settings.replace {
            Replace::StartFirst => Vec::new(),
            Replace::StopFirst => self.leaving(&config.name),
        }
    }

    /// The new server that `one` was started for.
    pub(super) fn place(&self, one: Replacement, config: Arc<ServerConfig>) -> Entry {
        let follows = if one.enabled { Vec::new() } else { self.leaving(&config.name) };
        let mut entry = Entry::new(one.running, config, Enablement::Enabled);
        entry.follow(follows);
        entry
    }

    /// Starts what is to stand in the place of the server of that name, or is new; one of `count`.
    pub(super) fn start_replacement(&self, config: &Arc<ServerConfig>, count: usize) -> Replacement {
        let before = self.servers.iter().find(|entry| entry.config.name == config.name);
        let waits =
            !self.to_wait_for(config).is_empty() || before.is_some() && config.settings.replace == Replace::StopFirst;
        let enabled = before.is_none_or(|entry| entry.enablement.runs()) && !waits;
        let record =
            before.map_or_else(|| SharedState::new(Arc::clone(&config.name)), |entry| entry.running.record.clone());
        let running = self.start_running(Arc::clone(config), enabled, record);
        if let Some(entry) = before {
            running.control.vouch(entry.running.control.vouched());
        }
        let first_line = running.handle.stderr().reader(0).place();
        let is_alone = !enabled || !before.is_some_and(Entry::is_up);
        let until = Instant::now() + wait_limit(config, count);
        Replacement { running, config: Arc::clone(config), enabled, is_alone, until, first_line }
    }

    /// Has a replacement take its place in `entry` if it can; one of which that is not known yet is kept for later.
    pub(super) fn put_in_place(&mut self, entry: &mut Entry, one: Replacement, now: Instant) {
        match one.proved(now) {
            None if !one.is_alone => self.changing.replacements.push(one),
            Some(Err(reason)) if !one.is_alone => {
                let failed = ServerFailure::beside(&entry.running.handle, &one.running.handle, one.first_line, &reason);
                tracing::warn!(server = %failed.name, "goes on as it was, for the new instance failed: {}", failed.reason);
                entry.refused = Some((one.config, failed));
                self.changing.gone.push((one.running, Stop::Drain));
            }
            _ => {
                let follows = self.leaving(&one.config.name);
                let old = entry.replace(one, follows);
                self.changing.gone.push((old, Stop::Finish));
            }
        }
    }
}

impl Entry {
    /// Puts `one` in the place of what is given back; if it does not run yet, it will once that and what it `follows` have
    /// ended. What needs no other instance is as it was last said of the server.
    pub(super) fn replace(&mut self, one: Replacement, mut follows: Vec<ServerHandle>) -> Running {
        self.config = Arc::new(one.config.with_live_settings(&self.config));
        let old = std::mem::replace(&mut self.running, one.running);
        (self.due, self.refused) = (0, None);
        if one.enabled {
            follows.clear();
        } else {
            follows.push(old.handle.clone());
        }
        self.follow(follows);
        self.running.record.stats().restarts.add_one();
        old
    }

    /// Has it run, if it is to, once all of these have ended.
    pub(super) fn follow(&mut self, follows: Vec<ServerHandle>) {
        self.follows = follows;
        self.follows.retain(|handle| !handle.has_ended());
        self.running.control.enable(self.enablement.runs() && self.follows.is_empty());
    }
}
