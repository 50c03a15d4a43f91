//! A new set of servers, taken over as a whole: the only way in which servers come, go and change together.
//!
//! What is new or to be run differently is started first, beside what runs ([`super::replacement`]). When all of that is ready,
//! has failed, or has had [`STAGE`], the set is in force: order, policy, profiles, limits of calls, what is new, what has gone, and every
//! replacement that is ready, in one step, so that agents are told once. A replacement that needs longer takes its place when it is
//! ready. One that fails is dropped: what ran before goes on, and is known to have refused.
//!
//! ```text
//! set ─► replacements started ─► all ready, or STAGE over ─► in force ─► the last replacements ─► told to whoever asked
//!            another set: those that it wants as well go on, the others are dropped ┘
//! ```
//!
//! - A server of which nothing is up (asleep, disabled, failed, between two attempts, still starting), and one with
//!   `replace = "stop_first"`, is taken over in place: its task ends what it has and starts what is wanted.
//! - A server with instances for agents is replaced as a whole. Its replacement is ready when its listing instance is, or at once
//!   if there is none; its agents get new instances then, while the old ones finish their calls.
//! - A set that comes while another is not in force takes its place, and does not put off when that is. Any other order puts
//!   what was wanted last in force first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outcome::PendingSet;
use super::replacement::{Replacement, wait_limit};
use super::{Entry, ManagerTask};
use crate::config::ServerConfig;
use crate::manager::changes::{Changes, DesiredState, ViewConfig};
use crate::manager::enablement::Enablement;
use crate::manager::orders::{ReplySender, check_names};
use crate::server::{Running, ServerHandle, Stop};

/// How long a set waits for what it starts before it is in force.
const STAGE: Duration = Duration::from_secs(5);

/// What is wanted and not in force yet.
#[derive(Debug)]
struct StagedSet {
    servers: Vec<Arc<ServerConfig>>,
    exposed: Option<ViewConfig>,
    until: Instant,
}

/// What a manager is about to be.
#[derive(Debug, Default)]
pub(super) struct Changing {
    staged: Option<StagedSet>,
    /// In the order of the set; one for each server at most.
    pub(super) replacements: Vec<Replacement>,
    pub(super) pending_sets: Vec<PendingSet>,
    /// What is to be ended once nobody is led to it any more.
    pub(super) gone: Vec<(Running, Stop)>,
}

impl Changing {
    /// When it is to be looked at, if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let staged = self.staged.iter().map(|staged| staged.until);
        let pending = self.pending_sets.iter().map(|pending| pending.until);
        staged.chain(pending).chain(self.replacements.iter().filter_map(Replacement::until)).min()
    }

    fn take(&mut self, name: &str) -> Option<Replacement> {
        let index = self.replacements.iter().position(|one| *one.config.name == *name)?;
        Some(self.replacements.remove(index))
    }
}

impl ManagerTask {
    /// Has everything be as `wanted` says, and tells `done` when it is.
    pub(super) fn apply(&mut self, desired: DesiredState, done: ReplySender<Changes>) {
        if let Err(error) = check_names(desired.servers.iter().map(|config| &config.name)) {
            // Whoever asked may have gone.
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
        self.look();
    }

    /// Starts what is not started yet of what has to be another task, and ends what was started and is not wanted.
    fn start_replacements(&mut self, awaited: &[Arc<ServerConfig>]) {
        let is_apart = |config: &&Arc<ServerConfig>| {
            let entry = self.servers.iter().find(|entry| entry.config.name == config.name);
            entry.is_none_or(|entry| entry.makes_way(config))
        };
        let apart: Vec<_> = awaited.iter().filter(is_apart).collect();
        let is_needed =
            |one: &Replacement| apart.iter().any(|config| one.config.name == config.name && one.is_like(config));
        let before = std::mem::take(&mut self.changing.replacements);
        let (mut started, unneeded): (Vec<_>, Vec<_>) = before.into_iter().partition(is_needed);
        // First, for what is started now may have to wait for their end.
        self.changing.gone.extend(unneeded.into_iter().map(|one| (one.running, Stop::Drain)));
        self.dismiss();
        for config in apart {
            let index = started.iter().position(|one| one.config.name == config.name);
            let one = match index.map(|index| started.swap_remove(index)) {
                Some(one) => one.with_config(config),
                None => self.start_replacement(config, awaited.len()),
            };
            self.changing.replacements.push(one);
        }
    }

    /// What a set would make of what there is, and what of it has to come up.
    fn compare(&self, servers: &[Arc<ServerConfig>]) -> (Changes, Vec<Arc<ServerConfig>>) {
        let (mut changes, mut awaited) = (Changes::default(), Vec::new());
        for config in servers {
            let name = Arc::clone(&config.name);
            match self.servers.iter().find(|entry| entry.config.name == config.name) {
                Some(entry) if entry.config.runs_like(config) => {
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

    /// Does what has become due, or possible.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        for entry in &mut self.servers {
            entry.start_after();
        }
        match &self.changing.staged {
            Some(staged) => {
                let are_proved = self.changing.replacements.iter().all(|one| one.proved(now).is_some());
                if are_proved || staged.until <= now {
                    self.put_in_force(now);
                }
            }
            None => self.replace_ready(now),
        }
        if self.changing.staged.is_none() {
            self.answer_pending_sets(now);
        }
    }

    /// Puts what is wanted in force, if it is not.
    pub(super) fn hurry(&mut self) {
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
            let config = entry.as_ref().map_or_else(|| Arc::clone(&config), |entry| entry.with_switches(&config));
            let entry = match (entry, take()) {
                (None, Some(one)) => self.place(one, config),
                (None, None) => self.start_one(config, Enablement::Enabled),
                (Some(mut entry), Some(one)) => {
                    (entry.config, entry.refused) = (Arc::new(entry.config.with_live_settings(&config)), None);
                    self.put_in_place(&mut entry, one, now);
                    entry
                }
                (Some(entry), None) => {
                    let follows = self.to_wait_for(&config);
                    entry.taking_over(config, follows)
                }
            };
            self.servers.push(entry);
        }
        self.changing.gone.extend(before.into_iter().map(|entry| (entry.running, Stop::Drain)));
        if let Some(exposed) = exposed {
            self.expose(exposed);
        }
        self.publish(false);
        self.serve_profiles();
        self.dismiss();
    }

    /// Has each replacement take its place that can.
    fn replace_ready(&mut self, now: Instant) {
        let proved: Vec<_> = self.changing.replacements.extract_if(.., |one| one.proved(now).is_some()).collect();
        if proved.is_empty() {
            return;
        }
        for one in proved {
            self.replace_named(one, now);
        }
        self.publish(false);
        self.dismiss();
    }

    fn replace_named(&mut self, one: Replacement, now: Instant) {
        match self.servers.iter().position(|entry| entry.config.name == one.config.name) {
            Some(index) => {
                let mut entry = self.servers.remove(index);
                self.put_in_place(&mut entry, one, now);
                self.servers.insert(index, entry);
            }
            None => self.changing.gone.push((one.running, Stop::Drain)),
        }
    }

    /// What has been started for a server that is not to run, or not to be there: its own task takes over how it is to be.
    pub(super) fn cancel_replacement(&mut self, name: &str) {
        let Some(one) = self.changing.take(name) else { return };
        if let Some(index) = self.servers.iter().position(|entry| *entry.config.name == *name) {
            let mut entry = self.servers.remove(index);
            if entry.config.settings.sharing != one.config.settings.sharing {
                let old = entry.replace(one, self.leaving(name));
                self.changing.gone.push((old, Stop::Finish));
                return self.servers.insert(index, entry);
            }
            let config = Arc::new(one.config.with_live_settings(&entry.config));
            let follows = self.to_wait_for(&config);
            self.servers.insert(index, entry.taking_over(config, follows));
        }
        self.changing.gone.push((one.running, Stop::Drain));
    }

    /// Ends what nobody is led to any more.
    pub(super) fn dismiss(&mut self) {
        for (running, stop) in self.changing.gone.drain(..) {
            running.control.stop(stop);
            self.leaving.push(running);
        }
    }
}

impl Entry {
    /// What of the server was switched off stays so.
    fn with_switches(&self, config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
        let policy = config.policy.clone().without(self.config.policy.switched_off().clone());
        Arc::new(ServerConfig { policy, ..(**config).clone() })
    }

    /// The same server as `config` says, by the same task, once what it `follows` has ended.
    fn taking_over(mut self, config: Arc<ServerConfig>, follows: Vec<ServerHandle>) -> Self {
        let same = self.config.runs_like(&config);
        (self.config, self.refused) = (config, None);
        if !same {
            self.follow(follows);
            self.due = self.running.control.reconfigure(Arc::clone(&self.config));
        }
        self
    }

    /// Lets it run once those before it, beside which it may not, have ended.
    fn start_after(&mut self) {
        if !self.follows.is_empty() {
            let follows = std::mem::take(&mut self.follows);
            self.follow(follows);
        }
    }
}
