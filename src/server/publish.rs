//! The snapshot that a server's task publishes on a watch channel, so that readers never wait for the task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::cache::Inventory;
use super::era_cache::EraCache;
use super::error::ServerError;
use super::health::UnansweredCounts;
use super::identity::{Identities, ServerIdentity};
use super::lifecycle::{State, StateName};
use super::link::RemoteTransport;
use super::process::cgroup::Enforcement;
use super::sandbox::SandboxReport;
use super::shared_state::{ListInterner, SharedState};
use super::stats::Stats;
use super::stderr;
use crate::catalog::{List, Lists, offer_any};
use crate::era::{Era, Eras};
use crate::list_kind::{ListKind, PerKind};

/// Wakes the reader of several servers, such as the manager, after a change.
pub type ChangeSignal = Arc<Notify>;

/// The last known lists of the instances that belong to agents, by session.
pub type AgentLists = BTreeMap<u64, Lists>;

/// The identities of the running instances that belong to agents, by session.
pub type AgentIdentities = BTreeMap<u64, Arc<ServerIdentity>>;

/// The published snapshot of one server.
#[derive(Debug, Clone)]
pub struct ServerSnapshot {
    /// Its lifecycle state.
    pub state: State,
    /// The first start of this revision has ended: it has listed, or it failed.
    pub first_start_ended: bool,
    /// The revision of the last start: rises with each restart by an operator.
    pub revision: u64,
    /// It has no instance until a call starts one.
    pub not_started_yet: bool,
    /// Its last known lists.
    pub lists: Lists,
    /// Its lists are known: from an instance since it was enabled, or from the cache.
    pub lists_known: bool,
    /// The running instance has listed completely, so names that are not listed do not exist.
    pub lists_complete: bool,
    /// Why lists of the running instance could not be fetched the last time.
    pub list_errors: PerKind<Option<ServerError>>,
    /// The lists of agents with their own instance.
    pub agent_lists: Arc<AgentLists>,
    /// What its instances list, each lists once, if there may be several.
    pub instance_lists: Arc<[Lists]>,
    /// Process id of the running server.
    pub pid: Option<u32>,
    /// Process id of its guard.
    pub guard_pid: Option<u32>,
    /// The transport of the running instance, if it is at a URL.
    pub remote: Option<RemoteTransport>,
    /// Protocol version of the running instance; for a server with an instance for each era, the legacy one.
    pub protocol: Option<&'static str>,
    /// The eras in use, the older one first.
    pub eras: Eras,
    /// `name version` of the running instance.
    pub software: Option<String>,
    /// What it last declared about itself, by era.
    pub identities: Identities,
    /// The identities of the running instances that belong to agents.
    pub agent_identities: Arc<AgentIdentities>,
    /// The last health check of the running instance: its time, and the messages left unanswered.
    pub checked: Option<(Instant, UnansweredCounts)>,
    /// Whether the limits of the latest instance are enforced; `None` if it has none.
    pub limits: Option<Enforcement>,
    /// What is enforced for the latest instance; `None` before the first start.
    pub sandbox: Option<SandboxReport>,
    /// The latest failure.
    pub last_error: Option<ServerError>,
}

impl ServerSnapshot {
    /// The name of its state, [`StateName::Idle`], or [`StateName::ListFailed`].
    #[must_use]
    pub fn state_name(&self) -> StateName {
        match self.state.name() {
            _ if self.not_started_yet => StateName::Idle,
            StateName::Ready if self.list_error().is_some() => StateName::ListFailed,
            state => state,
        }
    }

    /// The reason if it is down, unresponsive, or lacks a list.
    #[must_use]
    pub fn reason(&self) -> Option<&ServerError> {
        self.state.reason().or_else(|| self.list_error())
    }

    fn list_error(&self) -> Option<&ServerError> {
        self.list_errors.iter().find_map(|(_, error)| error.as_ref())
    }

    /// The messages that the running instance has left unanswered.
    #[must_use]
    pub fn unanswered(&self) -> UnansweredCounts {
        self.checked.map_or_else(UnansweredCounts::default, |(_, silence)| silence)
    }

    fn complete_if(&mut self, settled: bool) {
        self.first_start_ended |= settled;
        self.lists_known |= settled;
        self.lists_complete |= settled;
    }

    /// Whether unknown names may still appear: no instance has listed, and the server is not idle.
    #[must_use]
    pub fn may_list_more(&self) -> bool {
        !self.lists_complete && !self.not_started_yet
    }

    /// The lists of the agent's own instance, if that has listed.
    #[must_use]
    pub fn agent_lists(&self, session: u64) -> Option<&Lists> {
        self.agent_lists.get(&session)
    }

    /// What the server has declared in the era in which it serves agents of `era`: their own era, unless it runs only in the other.
    #[must_use]
    pub fn identity(&self, era: Era) -> Option<&Arc<ServerIdentity>> {
        let serves = self.eras.contains(era) || self.eras == Eras::default();
        self.identities.preferably(if serves { era } else { era.other() })
    }

    /// Whether the server has declared a capability, in either era.
    #[must_use]
    pub fn declares(&self, path: &[&str]) -> bool {
        self.identities.iter().any(|identity| identity.declares(path))
    }
}

/// Publishes the snapshots.
#[derive(Debug)]
pub(super) struct Publisher {
    published: watch::Sender<ServerSnapshot>,
    changed: ChangeSignal,
    pub(super) interner: ListInterner,
    pub(super) eras: EraCache,
    pub(super) stats: Arc<Stats>,
    /// When the lists of a server that is down are removed.
    forget_at: Option<Instant>,
}

pub(super) fn channel(
    changed: ChangeSignal,
    enabled: bool,
    record: &SharedState,
) -> (Publisher, watch::Receiver<ServerSnapshot>) {
    let first = ServerSnapshot {
        state: if enabled { State::Starting } else { State::Stopped },
        first_start_ended: false,
        revision: 0,
        not_started_yet: false,
        lists: Lists::default(),
        lists_known: false,
        lists_complete: false,
        list_errors: PerKind::default(),
        agent_lists: Arc::default(),
        instance_lists: Arc::default(),
        pid: None,
        guard_pid: None,
        remote: None,
        protocol: None,
        eras: Eras::default(),
        software: None,
        identities: Identities::default(),
        agent_identities: Arc::default(),
        checked: None,
        limits: None,
        sandbox: None,
        last_error: None,
    };
    let (published, receiver) = watch::channel(first);
    let (interner, eras, stats) = (record.interner.clone(), record.eras.clone(), Arc::clone(&record.stats));
    (Publisher { published, changed, interner, eras, stats, forget_at: None }, receiver)
}

/// Wakes the readers, as the task has ended.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Publisher {
    /// The shared state of one instance, with its own counters.
    pub(super) fn shared_state_of_instance(&self, stderr: stderr::Writer) -> SharedState {
        let (interner, eras) = (self.interner.clone(), self.eras.clone());
        SharedState { stderr, interner, eras, stats: Arc::new(self.stats.of_instance()) }
    }

    /// Changes the snapshot and wakes the readers.
    pub(super) fn update(&self, change: impl FnOnce(&mut ServerSnapshot)) {
        self.published.send_modify(change);
        self.changed.notify_one();
    }

    /// Records one list of the running instance. `settled`: all its lists are recorded.
    pub(super) fn publish_list(&self, kind: ListKind, list: List, settled: bool) {
        let list = self.interner.intern(kind, Arc::new(list));
        self.update(|published| {
            published.lists[kind] = list;
            published.list_errors[kind] = None;
            published.complete_if(settled);
        });
    }

    /// If `settled`, marks the lists of the running instance as complete.
    pub(super) fn publish_complete_if(&self, settled: bool) {
        self.update(|published| published.complete_if(settled));
    }

    /// Records the cached lists and identities of a server that does not run.
    pub(super) fn publish_cached(&self, Inventory { lists, identities }: Inventory) {
        let lists = PerKind::from_fn(|kind| self.interner.intern(kind, Arc::clone(&lists[kind])));
        self.update(|published| {
            (published.lists, published.identities, published.lists_known) = (lists, identities, true);
        });
    }

    /// Removes the lists.
    pub(super) fn forget_lists(&mut self) {
        self.forget_at = None;
        self.update(|published| (published.lists, published.lists_known) = (Lists::default(), false));
    }

    /// The lists stay until `at`, unless an instance lists before.
    pub(super) fn forget_lists_at(&mut self, at: Instant) {
        self.forget_at = Some(at);
    }

    /// The lists stay.
    pub(super) fn keep_lists(&mut self) {
        self.forget_at = None;
    }

    /// When the lists are to be removed, if they are.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.forget_at
    }

    /// Removes the lists if their time is over.
    pub(super) fn expire_lists(&mut self, now: Instant) {
        if self.forget_at.is_some_and(|at| at <= now) {
            self.forget_lists();
        }
    }

    /// Records a health check of the running instance.
    pub(super) fn publish_check(&self, silence: UnansweredCounts) {
        self.update(|published| published.checked = Some((Instant::now(), silence)));
    }

    /// Whether any published list has items.
    pub(super) fn knows_lists(&self) -> bool {
        offer_any(&self.published.borrow().lists)
    }

    /// The present snapshot.
    pub(super) fn snapshot(&self) -> watch::Ref<'_, ServerSnapshot> {
        self.published.borrow()
    }

    /// The last known lists and identities.
    pub(super) fn known(&self) -> Inventory {
        let published = self.published.borrow();
        Inventory { lists: published.lists.clone(), identities: published.identities.clone() }
    }

    /// Records why a list could not be fetched.
    pub(super) fn publish_list_error(&self, kind: ListKind, error: ServerError) {
        self.update(|published| {
            published.last_error = Some(error.clone());
            published.list_errors[kind] = Some(error);
        });
    }
}
