//! The task that owns the servers of one manager.
//!
//! It takes one order at a time, and publishes what has become of it before it answers: whoever was told that a server
//! is gone will not find it in the next list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinError;
use tokio::time::sleep_until;

use super::change::Changing;
use super::changes::Failed;
use super::orders::Order;
use super::own::Followers;
use super::switches::Presence;
use super::{Member, Setup, View};
use crate::catalog::{Catalog, Lists, Names, Source, is_same};
use crate::config::ServerConfig;
use crate::naming::{Naming, Scheme};
use crate::server::{self, Record, Running, ServerHandle, Stop, StopOrder};

/// How long first lists wait for servers that are starting for the first time.
pub(crate) const FIRST_LISTS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) running: Running,
    /// As it runs.
    pub(super) config: Arc<ServerConfig>,
    pub(super) presence: Presence,
    /// The revision that it has to have.
    pub(super) due: u64,
    /// How it was to be run instead, and why it is not.
    pub(super) refused: Option<(Arc<ServerConfig>, Failed)>,
    /// What has to end before it may start.
    pub(super) follows: Option<ServerHandle>,
}

#[derive(Debug)]
pub(super) struct ManagerTask {
    setup: Setup,
    /// In the order of the set.
    pub(super) servers: Vec<Entry>,
    /// Removed or replaced, and not ended yet.
    pub(super) leaving: Vec<Running>,
    pub(super) changing: Changing,
    changed: Arc<Notify>,
    names: Names,
    /// The lists of a server that agents do not see.
    nothing: Lists,
    /// The lists that the current catalog was built from; `None` once more than lists has changed.
    built_from: Option<Vec<Lists>>,
    pub(super) view: watch::Sender<Arc<View>>,
    pub(super) followers: Followers,
}

impl ManagerTask {
    /// Starts `servers`, all at once. Their names have been checked.
    pub(super) fn start(setup: Setup, servers: Vec<ServerConfig>) -> (Self, watch::Receiver<Arc<View>>) {
        let settled = servers.is_empty();
        let first = View { catalog: Catalog::default(), servers: Vec::new(), settled };
        let (view, receiver) = watch::channel(Arc::new(first));
        let mut task = Self {
            setup,
            servers: Vec::new(),
            leaving: Vec::new(),
            changing: Changing::default(),
            changed: Arc::default(),
            names: Names::default(),
            nothing: Lists::default(),
            built_from: None,
            view,
            followers: Followers::default(),
        };
        task.servers = servers.into_iter().map(|config| task.start_one(Arc::new(config), Presence::Shown)).collect();
        task.publish(false);
        (task, receiver)
    }

    pub(super) fn start_one(&self, config: Arc<ServerConfig>, presence: Presence) -> Entry {
        let record = Record::new(Arc::clone(&config.name));
        let running = self.start_running((Arc::clone(&config), presence.runs()), record);
        Entry::new(running, config, presence)
    }

    pub(super) fn start_running(&self, wanted: (Arc<ServerConfig>, bool), record: Record) -> Running {
        server::start(wanted, self.setup.host.clone(), Arc::clone(&self.changed), record)
    }

    /// Obeys orders and publishes what servers bring until `stop` says how to end, then stops them all in parallel.
    /// Returns when no process of theirs is left.
    ///
    /// # Panics
    /// At the end, with the panic of a server's task.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>, mut stop: StopOrder) {
        let deadline = tokio::time::Instant::now() + FIRST_LISTS;
        let changed = Arc::clone(&self.changed);
        loop {
            let settled = self.view.borrow().settled;
            let due = self.changing.due();
            tokio::select! {
                () = changed.notified() => {
                    self.look();
                    self.publish(false);
                    self.after_lost_guards().await;
                    self.leaving.retain(|running| !running.handle.has_ended());
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.look(),
                Some(order) = orders.recv() => self.obey(order),
                () = sleep_until(deadline), if !settled => self.publish(true),
                () = stop.at_least(Stop::Stop) => break,
            }
        }
        let panicked = self.stop_all(stop).await;
        let handles = self.handles();
        if let Some(strays) = &self.setup.strays {
            strays.kill(&handles).await;
        }
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic.into_panic());
        }
    }

    /// Every server that may have processes.
    fn handles(&self) -> Vec<ServerHandle> {
        let staying = self.servers.iter().map(|entry| &entry.running);
        let coming = self.changing.successors.iter().map(|one| &one.running);
        staying.chain(coming).chain(&self.leaving).map(|running| running.handle.clone()).collect()
    }

    async fn after_lost_guards(&mut self) {
        let handles = self.handles();
        if let Some(strays) = &mut self.setup.strays {
            strays.after_lost_guards(&handles).await;
        }
    }

    /// Tells if a server's task ended with a panic rather than in order.
    async fn stop_all(&mut self, stop: StopOrder) -> Option<JoinError> {
        self.leaving.extend(self.servers.drain(..).map(|entry| entry.running));
        self.leaving.extend(self.changing.successors.drain(..).map(|one| one.running));
        server::stop_all(&mut self.leaving, stop).await
    }

    /// Publishes after more than a list has changed.
    pub(super) fn publish_anew(&mut self) {
        self.built_from = None;
        self.publish(false);
    }

    pub(super) fn publish(&mut self, deadline_passed: bool) {
        let lists: Vec<Lists> = self.servers.iter().map(|entry| self.lists(entry)).collect();
        let last = Arc::clone(&self.view.borrow());
        let attempted = || self.servers.iter().all(|entry| entry.running.handle.published().attempted);
        let settled = last.settled || deadline_passed || attempted();
        let same = self.built_from.as_ref().is_some_and(|built| {
            built.len() == lists.len() && built.iter().zip(&lists).all(|(built, list)| is_same(built, list))
        });
        let is_new = !same || settled != last.settled;
        if is_new {
            let servers: Vec<_> = self.servers.iter().zip(&lists).map(|(entry, lists)| entry.member(lists)).collect();
            let mut view = View { catalog: Catalog::default(), servers, settled };
            if self.may_name(&view) {
                view.catalog = self.build(&view.servers);
            }
            self.built_from = Some(lists);
            self.view.send_replace(Arc::new(view));
        }
        self.publish_own(is_new);
    }

    /// A bare name belongs to the first server in file order, so none is given before all had their chance.
    pub(super) fn may_name(&self, view: &View) -> bool {
        self.setup.naming.scheme != Scheme::Bare || view.settled
    }

    fn lists(&self, entry: &Entry) -> Lists {
        match entry.presence {
            Presence::Shown => entry.running.handle.published().lists.clone(),
            Presence::Hidden | Presence::Stopped => self.nothing.clone(),
        }
    }

    pub(super) fn naming(&self) -> &Naming {
        &self.setup.naming
    }

    pub(super) fn build(&mut self, servers: &[Member]) -> Catalog {
        let sources: Vec<_> = servers.iter().map(source).collect();
        Catalog::build(&mut self.names, &self.setup.naming, &sources)
    }
}

fn source(Member { config, lists, .. }: &Member) -> Source<'_> {
    Source { name: &config.name, policy: &config.policy, settings: &config.settings, lists }
}

impl Entry {
    pub(super) fn new(running: Running, config: Arc<ServerConfig>, presence: Presence) -> Self {
        Self { running, config, presence, due: 0, refused: None, follows: None }
    }

    fn member(&self, lists: &Lists) -> Member {
        let (handle, vouched) = (self.running.handle.clone(), self.running.control.vouched());
        let (config, lists) = (Arc::clone(&self.config), lists.clone());
        let refused = self.refused.as_ref().map(|(_, failed)| failed.reason.as_str().into());
        Member { handle, config, presence: self.presence, vouched, lists, refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Guard;

    #[tokio::test]
    async fn the_panic_of_a_servers_task_is_not_taken_for_an_ordered_end() {
        let mut setup = Setup::default();
        setup.host.guard = Guard::None;
        let servers = ["a", "b"].map(|name| ServerConfig::new(name, "cat"));
        let (mut task, _view) = ManagerTask::start(setup, servers.into());
        let other = task.servers[1].running.handle.clone();
        task.servers[0].running.task = tokio::spawn(async { panic!("a bug") });
        let (sender, stop) = StopOrder::channel();
        sender.send_replace(Stop::Stop);
        let (_orders, receiver) = mpsc::channel(1);
        let ended = tokio::spawn(task.run(receiver, stop)).await;
        assert!(ended.expect_err("it was no ordered end").is_panic());
        assert!(other.published().pid.is_none() && other.has_ended(), "the other server was ended");
    }
}
