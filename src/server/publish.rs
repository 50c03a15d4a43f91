//! The snapshot that a server's task publishes on a watch channel, so that readers never wait for the task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::cache::Inventory;
use super::era_cache::EraCache;
use super::health::Silence;
use super::lifecycle::State;
use super::link::RemoteTransport;
use super::list_interner::ListInterner;
use super::process::cgroup::Enforcement;
use super::shared_state::SharedState;
use super::stats::Stats;
use super::stderr;
use crate::catalog::{List, Lists, offer_any};
use crate::era::Eras;
use crate::list_kind::{ListKind, PerKind};
use crate::server::error::ServerError;
use crate::server::sandbox::SandboxReport;

/// Wakes the reader of several servers, such as the manager, after a change.
pub type ChangeSignal = Arc<Notify>;

/// The last known lists of the instances that belong to agents, by session.
pub type AgentLists = BTreeMap<u64, Lists>;

/// The published snapshot of one server.
#[derive(Debug, Clone)]
pub struct ServerSnapshot {
    /// Its lifecycle state.
    pub state: State,
    /// The first start of this revision has ended: it has listed, or it failed.
    pub attempted: bool,
    /// The revision of the last start: rises with each restart by an operator.
    pub revision: u64,
    /// It has no instance until a call starts one.
    pub asleep: bool,
    /// Its last known lists.
    pub lists: Lists,
    /// Its lists are known: from an instance since it was enabled, or from the cache.
    pub has_listed: bool,
    /// The running instance has listed completely, so names that are not listed do not exist.
    pub is_listed: bool,
    /// The lists of agents with their own instance.
    pub agent_lists: Arc<AgentLists>,
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
    /// The raw extensions of the running instance.
    pub extensions: Option<Bytes>,
    /// The running instance is legacy, and supports tasks for tool calls.
    pub makes_tasks: bool,
    /// Its last known instructions, in bounded length.
    pub instructions: Option<Arc<str>>,
    /// The last health check of the running instance: its time, and the messages left unanswered.
    pub checked: Option<(Instant, Silence)>,
    /// Whether the limits of the latest instance are enforced; `None` if it has none.
    pub limits: Option<Enforcement>,
    /// What is enforced for the latest instance; `None` before the first start.
    pub sandbox: Option<SandboxReport>,
    /// The latest failure.
    pub last_error: Option<ServerError>,
}

impl ServerSnapshot {
    /// The word for its state in `mcpd status`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.asleep { "idle" } else { self.state.word() }
    }

    /// The messages that the running instance has left unanswered.
    #[must_use]
    pub fn silence(&self) -> Silence {
        self.checked.map_or_else(Silence::default, |(_, silence)| silence)
    }

    fn settle(&mut self, settled: bool) {
        self.attempted |= settled;
        self.has_listed |= settled;
        self.is_listed |= settled;
    }

    /// Whether unknown names may still appear: no instance has listed, and the server is not idle.
    #[must_use]
    pub fn may_list_more(&self) -> bool {
        !self.is_listed && !self.asleep
    }

    /// The lists of the agent's own instance, if that has listed.
    #[must_use]
    pub fn agent_lists(&self, session: u64) -> Option<&Lists> {
        self.agent_lists.get(&session)
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
}

pub(super) fn channel(
    changed: ChangeSignal,
    enabled: bool,
    record: &SharedState,
) -> (Publisher, watch::Receiver<ServerSnapshot>) {
    let first = ServerSnapshot {
        state: if enabled { State::Starting } else { State::Stopped },
        attempted: false,
        revision: 0,
        asleep: false,
        lists: Lists::default(),
        has_listed: false,
        is_listed: false,
        agent_lists: Arc::default(),
        pid: None,
        guard_pid: None,
        remote: None,
        protocol: None,
        eras: Eras::default(),
        software: None,
        extensions: None,
        makes_tasks: false,
        instructions: None,
        checked: None,
        limits: None,
        sandbox: None,
        last_error: None,
    };
    let (published, receiver) = watch::channel(first);
    let (interner, eras, stats) = (record.interner.clone(), record.eras.clone(), Arc::clone(&record.stats));
    (Publisher { published, changed, interner, eras, stats }, receiver)
}

/// Wakes the readers, as the task has ended.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Publisher {
    /// The shared state of one instance, with its own counters.
    pub(super) fn record_of_instance(&self, stderr: stderr::Writer) -> SharedState {
        let (interner, eras) = (self.interner.clone(), self.eras.clone());
        SharedState { stderr, interner, eras, stats: Arc::new(self.stats.of_instance()) }
    }

    /// Changes the snapshot and wakes the readers.
    pub(super) fn update(&self, change: impl FnOnce(&mut ServerSnapshot)) {
        self.published.send_modify(change);
        self.changed.notify_one();
    }

    /// Records one list of the running instance. `settled`: all its lists are recorded.
    pub(super) fn listed(&self, kind: ListKind, list: List, settled: bool) {
        let list = self.interner.intern(kind, Arc::new(list));
        self.update(|published| {
            published.lists[kind] = list;
            published.settle(settled);
        });
    }

    /// If `settled`, marks the lists of the running instance as complete.
    pub(super) fn settled(&self, settled: bool) {
        self.update(|published| published.settle(settled));
    }

    /// Records the cached lists and instructions of a server that does not run.
    pub(super) fn recalled(&self, Inventory { lists, instructions }: Inventory) {
        let lists = PerKind::from_fn(|kind| self.interner.intern(kind, Arc::clone(&lists[kind])));
        self.update(|published| {
            (published.lists, published.instructions, published.has_listed) = (lists, instructions, true);
        });
    }

    /// Records that the server is disabled, so that it lists nothing.
    pub(super) fn disabled(&self) {
        self.update(|published| (published.lists, published.has_listed) = (Lists::default(), false));
    }

    /// Records a health check of the running instance.
    pub(super) fn checked(&self, silence: Silence) {
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

    /// The last known lists and instructions.
    pub(super) fn known(&self) -> Inventory {
        let published = self.published.borrow();
        Inventory { lists: published.lists.clone(), instructions: published.instructions.clone() }
    }

    /// Records a failure that does not change the state.
    pub(super) fn error(&self, error: ServerError) {
        self.update(|published| published.last_error = Some(error));
    }
}
