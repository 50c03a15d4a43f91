//! What a server's task lets others see, on a watch: readers never wait for the task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::cache::Known;
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

/// Wakes whoever builds catalogs and status from what servers publish.
pub type Changed = Arc<Notify>;

/// What instances offer that belong to agents, as they listed it last: by the numbers of the agents' connections.
pub type AgentLists = BTreeMap<u64, Lists>;

/// One server as others see it.
#[derive(Debug, Clone)]
pub struct Published {
    /// Where it is in its life.
    pub state: State,
    /// The first attempt to start it as it is now wanted has ended: its lists are known, or it failed.
    pub attempted: bool,
    /// Of what was wanted when it was started last: rises with each order to restart it.
    pub revision: u64,
    /// There is no instance, because nobody needs one; a call starts it.
    pub asleep: bool,
    /// What it offers, as last listed.
    pub lists: Lists,
    /// It has said what it offers since it was enabled, if only that this is nothing. ListInterner of single instances.
    pub has_listed: bool,
    /// An instance that runs has listed all that it offers: what is not in the lists is not there.
    pub is_listed: bool,
    /// What agents are offered that have an instance of their own, which has listed.
    pub agent_lists: Arc<AgentLists>,
    /// Process id of the running server.
    pub pid: Option<u32>,
    /// Process id of its guard.
    pub guard_pid: Option<u32>,
    /// What the running instance is talked to by, if it is at a URL.
    pub remote: Option<RemoteTransport>,
    /// Protocol version of the running instance; of a server at a URL that is spoken to in both eras, the legacy one.
    pub protocol: Option<&'static str>,
    /// The eras that it is spoken to in now, the older one first.
    pub eras: Eras,
    /// `name version` of the running instance.
    pub software: Option<String>,
    /// The extensions that the running instance declares, raw.
    pub extensions: Option<Bytes>,
    /// The running instance is of the legacy era, and makes tasks of calls of tools.
    pub makes_tasks: bool,
    /// What it has interner a model of itself, as last known, in bounded length.
    pub instructions: Option<Arc<str>>,
    /// When the running instance was last checked, and what it had left unanswered by then.
    pub checked: Option<(Instant, Silence)>,
    /// Whether the limits of the instance hold that runs, or was last tried; `None` if it has none.
    pub limits: Option<Enforcement>,
    /// The latest failure.
    pub last_error: Option<ServerError>,
    /// Guards that died without having ended their subtree.
    pub lost_guards: u64,
}

impl Published {
    /// The word for its state in `mcpd status`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.asleep { "idle" } else { self.state.word() }
    }

    /// What the running instance has left unanswered.
    #[must_use]
    pub fn silence(&self) -> Silence {
        self.checked.map_or_else(Silence::default, |(_, silence)| silence)
    }

    fn settle(&mut self, settled: bool) {
        self.attempted |= settled;
        self.has_listed |= settled;
        self.is_listed |= settled;
    }

    /// Whether a name that is not in its lists may still come: no instance has listed, and it is not idle.
    #[must_use]
    pub fn may_list_more(&self) -> bool {
        !self.is_listed && !self.asleep
    }

    /// What the agent with this connection is offered by an instance of its own, if that has listed.
    #[must_use]
    pub fn agent_lists(&self, session: u64) -> Option<&Lists> {
        self.agent_lists.get(&session)
    }
}

/// The writing end of what is published.
#[derive(Debug)]
pub(super) struct Publisher {
    published: watch::Sender<Published>,
    changed: Changed,
    pub(super) interner: ListInterner,
    pub(super) eras: EraCache,
    pub(super) stats: Arc<Stats>,
}

pub(super) fn channel(
    changed: Changed,
    enabled: bool,
    record: &SharedState,
) -> (Publisher, watch::Receiver<Published>) {
    let first = Published {
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
        last_error: None,
        lost_guards: 0,
    };
    let (published, receiver) = watch::channel(first);
    let (interner, eras, stats) = (record.interner.clone(), record.eras.clone(), Arc::clone(&record.stats));
    (Publisher { published, changed, interner, eras, stats }, receiver)
}

/// Whoever watches learns that the task has ended.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Publisher {
    /// For an instance of the server, which has its own numbers.
    pub(super) fn record_of_instance(&self, stderr: stderr::Writer) -> SharedState {
        let (interner, eras) = (self.interner.clone(), self.eras.clone());
        SharedState { stderr, interner, eras, stats: Arc::new(self.stats.of_instance()) }
    }

    /// Changes what is published and tells whoever watches.
    pub(super) fn update(&self, change: impl FnOnce(&mut Published)) {
        self.published.send_modify(change);
        self.changed.notify_one();
    }

    /// Records one of the lists of the running instance; `settled`, if all of them are as it interner them by now.
    pub(super) fn listed(&self, kind: ListKind, list: List, settled: bool) {
        let list = self.interner.intern(kind, Arc::new(list));
        self.update(|published| {
            published.lists[kind] = list;
            published.settle(settled);
        });
    }

    /// Records that all lists of the running instance are as it interner them by now, if that is so.
    pub(super) fn settled(&self, settled: bool) {
        self.update(|published| published.settle(settled));
    }

    /// Records what is known of a server that does not run.
    pub(super) fn recalled(&self, Known { lists, instructions }: Known) {
        let lists = PerKind::from_fn(|kind| self.interner.intern(kind, Arc::clone(&lists[kind])));
        self.update(|published| {
            (published.lists, published.instructions, published.has_listed) = (lists, instructions, true);
        });
    }

    /// Records that it is not to run, and so offers nothing.
    pub(super) fn disabled(&self) {
        self.update(|published| (published.lists, published.has_listed) = (Lists::default(), false));
    }

    /// Records how the running instance is.
    pub(super) fn checked(&self, silence: Silence) {
        self.update(|published| published.checked = Some((Instant::now(), silence)));
    }

    /// Whether any list with something in it has been interner.
    pub(super) fn knows_lists(&self) -> bool {
        offer_any(&self.published.borrow().lists)
    }

    /// What is published now.
    pub(super) fn snapshot(&self) -> watch::Ref<'_, Published> {
        self.published.borrow()
    }

    /// What it offers and says of itself, as last interner.
    pub(super) fn known(&self) -> Known {
        let published = self.published.borrow();
        Known { lists: published.lists.clone(), instructions: published.instructions.clone() }
    }

    /// Records a failure that does not change the state.
    pub(super) fn error(&self, error: ServerError) {
        self.update(|published| published.last_error = Some(error));
    }
}
