//! Merges what several instances publish into the snapshot of one server.

use std::collections::HashSet;
use std::sync::Arc;

use super::Group;
use super::slots::Slot;
use crate::catalog::{Identity, Lists, identity, is_same, offer_any};
use crate::era;
use crate::server::cache::{Inventory, ListCacheFile};
use crate::server::era_cache::may_split_by_era;
use crate::server::identity::Identities;
use crate::server::lifecycle::State;
use crate::server::messages::handle::ServerHandle;
use crate::server::publish::{AgentIdentities, AgentLists, ServerSnapshot};
use crate::server::stats::{Stats, Totals};
use crate::server::wiring::Running;

/// The lists of a group.
#[derive(Default)]
pub(super) struct GroupLists {
    /// The last known lists.
    last: Lists,
    /// Those of the instance for modern calls, if each era has its own instance.
    modern: Option<Lists>,
    /// Those that were stored for the next start.
    stored: Option<Identity>,
}

impl GroupLists {
    pub(super) fn new(last: Lists) -> Self {
        Self { last, ..Self::default() }
    }

    /// The instances are replaced, so that the lists have to be stored again.
    pub(super) fn forget_stored(&mut self) {
        self.stored = None;
    }

    /// The server is disabled.
    pub(super) fn clear(&mut self) {
        self.last = Lists::default();
    }

    /// Records the lists of the instance for modern calls. Returns whether they have changed.
    pub(super) fn note_modern(&mut self, lists: &Lists) -> bool {
        self.modern.replace(lists.clone()).is_some_and(|before| !is_same(&before, lists))
    }
}

impl Group {
    /// Reads the lists from the cache. They are published until an instance has listed.
    pub(super) async fn load_lists(&mut self) {
        let (config, cache) = (Arc::clone(&self.desired.config), self.context.cache.clone());
        let Some(cache) = cache.and_then(|directory| ListCacheFile::of(directory, &config)) else { return };
        if let Some(known) = cache.load(Arc::clone(&config.name)).await {
            self.lists.last = self.published_lists(&known.lists);
            self.publisher.publish_cached(Inventory { lists: self.lists.last.clone(), ..known });
        }
    }

    /// Merges what the instances publish, and removes instances that have ended.
    pub(super) fn gather(&mut self) {
        for ended in self.slots.remove_ended() {
            self.publisher.stats.take_over(ended.handle.totals());
        }
        let published: Vec<ServerSnapshot> =
            self.slots.all().iter().map(|slot| slot.running.handle.published().clone()).collect();
        let permanent_index = self.slots.permanent();
        let shown = shown(&published, permanent_index);
        // Until an instance has listed or failed, the last known lists stay.
        let offers = |one: &&ServerSnapshot| one.first_start_ended && offer_any(&one.lists);
        let permanent = permanent_index.map(|index| &published[index]);
        let permanent_has_no_lists = permanent.is_none_or(|one| one.first_start_ended && !offer_any(&one.lists));
        let source = published.iter().find(offers).filter(|_| permanent_has_no_lists).or(permanent);
        if let Some(source) = source.filter(|one| self.desired.enabled && (one.lists_known || one.first_start_ended)) {
            self.lists.last = self.published_lists(&source.lists);
        }
        let has_listed = source.is_some_and(|one| one.lists_known);
        let identities = self.identities(source);
        let attempted = match permanent_index {
            Some(index) => published[index].first_start_ended,
            None => published.is_empty() || published.iter().any(|one| one.first_start_ended),
        };
        let lists = self.lists.last.clone();
        let agent_lists = self.agent_lists(&published);
        let agent_identities = self.agent_identities(&published);
        let instance_lists = instance_lists(published.iter().filter(|_| self.desired.enabled));
        let eras = self.spoken();
        let enabled = self.desired.enabled;
        let settled = self.slots.all().iter().all(Slot::has_settled).then_some(self.desired.revision);
        if let Some(source) = source.filter(|one| one.lists_known && settled.is_some()) {
            self.store_lists(source);
        }
        self.publisher.update(|all| {
            (all.first_start_ended, all.lists) = (attempted, lists);
            all.lists_complete = enabled && published.iter().any(|one| one.lists_complete);
            all.lists_known = enabled && (all.lists_known || has_listed);
            (all.agent_lists, all.instance_lists) = (agent_lists, instance_lists);
            all.last_error = published.iter().find_map(|one| one.last_error.clone()).or(all.last_error.take());
            all.revision = settled.unwrap_or(all.revision);
            all.state = shown.map_or(State::Stopped, |one| one.state.clone());
            all.not_started_yet = enabled && shown.is_none_or(|one| one.not_started_yet);
            all.list_errors = shown.map(|one| one.list_errors.clone()).unwrap_or_default();
            all.checked = shown.and_then(|one| one.checked);
            all.remote = shown.and_then(|one| one.remote);
            all.protocol = shown.and_then(|one| one.protocol);
            all.eras = eras;
            all.software = shown.and_then(|one| one.software.clone());
            if identities.has_handshake() {
                all.identities = identities;
            }
            all.agent_identities = agent_identities;
            all.limits = shown.and_then(|one| one.limits.clone());
        });
        self.notify_listed_sessions(&published);
        self.note_modern_lists(&published);
        self.start_modern_fallback();
    }

    /// Stores the lists for the next start, if the caches of the instances depend on directories.
    fn store_lists(&mut self, source: &ServerSnapshot) {
        let now = identity(&source.lists);
        let config = self.config();
        if !config.settings.sharing.is_by_agent() || self.lists.stored == Some(now) {
            return;
        }
        if let Some(cache) = self.context.cache.clone().and_then(|directory| ListCacheFile::of(directory, config)) {
            let known = Inventory { lists: source.lists.clone(), identities: source.identities.clone() };
            cache.store(Arc::clone(&config.name), known);
        }
        self.lists.stored = Some(now);
    }

    /// The lists of each session whose instance has listed.
    fn agent_lists(&self, published: &[ServerSnapshot]) -> Arc<AgentLists> {
        if !self.desired.enabled || !self.config().settings.sharing.is_by_agent() {
            return Arc::default();
        }
        let listed = self.slots.all().iter().zip(published).filter(|(_, one)| one.lists_known);
        Arc::new(
            listed
                .flat_map(|(slot, one)| slot.instance_role.sessions().map(|session| (session, one.lists.clone())))
                .collect(),
        )
    }

    /// The identities of the instance whose lists are published. If each era has its own instance, the identity of each.
    fn identities(&self, source: Option<&ServerSnapshot>) -> Identities {
        if may_split_by_era(self.config()) {
            return self.publisher.eras.of(self.config()).identities;
        }
        source.map(|one| one.identities.clone()).unwrap_or_default()
    }

    /// The identities of the running instances that belong to sessions.
    fn agent_identities(&self, published: &[ServerSnapshot]) -> Arc<AgentIdentities> {
        let identified = self.slots.all().iter().zip(published).filter_map(|(slot, one)| {
            let identity = one.identities.of(era::of(one.protocol?))?;
            Some(slot.instance_role.sessions().map(|session| (session, Arc::clone(identity))))
        });
        Arc::new(identified.flatten().collect())
    }

    /// Notifies sessions whose lists are published now, or will not be.
    fn notify_listed_sessions(&mut self, published: &[ServerSnapshot]) {
        let (enabled, slots) = (self.desired.enabled, &self.slots);
        self.agents.end_waits(|session| {
            enabled && slots.of_session(session).is_some_and(|index| !published[index].first_start_ended)
        });
    }
}

/// The counts of instances that are being stopped, for the task that replaces their group. The present counts are added at once,
/// and the rest after the instances have ended.
pub(super) struct MovedTotals {
    before: Vec<(ServerHandle, Totals)>,
    stats: Arc<Stats>,
}

impl MovedTotals {
    pub(super) fn of(all: &[Running], stats: Arc<Stats>) -> Self {
        let before: Vec<_> = all.iter().map(|one| (one.handle.clone(), one.handle.totals())).collect();
        before.iter().for_each(|(_, totals)| stats.take_over(*totals));
        Self { before, stats }
    }

    pub(super) fn rest(self) {
        for (handle, before) in self.before {
            self.stats.take_over(handle.totals().since(before));
        }
    }
}

/// What these instances list, each lists once.
fn instance_lists<'a>(published: impl Iterator<Item = &'a ServerSnapshot>) -> Arc<[Lists]> {
    let mut before = HashSet::new();
    let listed = published.filter(|one| one.lists_known).map(|one| &one.lists);
    listed.filter(|lists| before.insert(identity(lists))).cloned().collect()
}

/// The instance whose state is published for the server: a ready one, if there is any.
fn shown(all: &[ServerSnapshot], permanent_index: Option<usize>) -> Option<&ServerSnapshot> {
    let ready = all.iter().find(|one| matches!(one.state, State::Ready { .. }));
    ready.or_else(|| permanent_index.and_then(|index| all.get(index))).or_else(|| all.first())
}
