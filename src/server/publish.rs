//! What a server's task lets others see, on a watch: readers never wait for the task.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::cache::Known;
use super::lifecycle::State;
use super::process::cgroup::Enforcement;
use super::stats::Stats;
use crate::catalog::{Lists, offer_any};

/// Wakes whoever builds catalogs and status from what servers publish.
pub type Changed = Arc<Notify>;

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
    /// Process id of the running server.
    pub pid: Option<u32>,
    /// Process id of its guard.
    pub guard_pid: Option<u32>,
    /// Protocol version of the running instance.
    pub protocol: Option<&'static str>,
    /// `name version` of the running instance.
    pub software: Option<String>,
    /// What it has told a model of itself, as last known, in bounded length.
    pub instructions: Option<Arc<str>>,
    /// When it was last known how the running instance is, and how many pings it had missed in a row by then.
    pub checked: Option<(Instant, u32)>,
    /// Whether the limits of the instance hold that runs, or was last tried; `None` if it has none.
    pub limits: Option<Enforcement>,
    /// The latest failure.
    pub last_error: Option<String>,
    /// Guards that died without having ended their subtree.
    pub lost_guards: u64,
}

impl Published {
    /// The word for its state in `mcpd status`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.asleep { "idle" } else { self.state.word() }
    }
}

/// The writing end of what is published.
#[derive(Debug)]
pub(super) struct Publisher {
    published: watch::Sender<Published>,
    changed: Changed,
    pub(super) stats: Arc<Stats>,
}

pub(super) fn channel(changed: Changed, enabled: bool) -> (Publisher, watch::Receiver<Published>) {
    let first = Published {
        state: if enabled { State::Starting } else { State::Stopped },
        attempted: false,
        revision: 0,
        asleep: false,
        lists: Lists::default(),
        pid: None,
        guard_pid: None,
        protocol: None,
        software: None,
        instructions: None,
        checked: None,
        limits: None,
        last_error: None,
        lost_guards: 0,
    };
    let (published, receiver) = watch::channel(first);
    (Publisher { published, changed, stats: Arc::default() }, receiver)
}

/// Whoever watches learns that the task has ended.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Publisher {
    /// Changes what is published and tells whoever watches.
    pub(super) fn update(&self, change: impl FnOnce(&mut Published)) {
        self.published.send_modify(change);
        self.changed.notify_one();
    }

    /// Records how the running instance is.
    pub(super) fn checked(&self, missed: u32) {
        self.update(|published| published.checked = Some((Instant::now(), missed)));
    }

    /// Whether any list with something in it has been told.
    pub(super) fn knows_lists(&self) -> bool {
        offer_any(&self.published.borrow().lists)
    }

    /// What it offers and says of itself, as last told.
    pub(super) fn known(&self) -> Known {
        let published = self.published.borrow();
        Known { lists: published.lists.clone(), instructions: published.instructions.clone() }
    }

    /// Records a failure that does not change the state.
    pub(super) fn error(&self, error: String) {
        self.update(|published| published.last_error = Some(error));
    }
}
