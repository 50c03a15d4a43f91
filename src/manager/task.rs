//! The task that owns the servers of one manager.
//!
//! It takes one order at a time, and publishes what has become of it before it answers: whoever was told that a server
//! is gone will not find it in the next list.

mod apply;
mod enable;
mod handle;
mod outcome;
mod profile_view;
mod replacement;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinError;
use tokio::time::sleep_until;

use self::apply::Changing;
use self::profile_view::ProfileView;
use super::changes::{ServerFailure, ViewConfig};
use super::enablement::Enablement;
use super::orders::Order;
use super::setup::Setup;
use super::view::{Member, ServedProfile, View};
use crate::catalog::Lists;
use crate::config::{Profile, ServerConfig};
use crate::naming::Naming;
use crate::server::{self, Running, ServerHandle, SharedState, Stop, StopOrder};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) running: Running,
    /// As it runs.
    pub(super) config: Arc<ServerConfig>,
    pub(super) enablement: Enablement,
    /// The revision that it has to have.
    pub(super) due: u64,
    /// How it was to be run instead, and why it is not.
    pub(super) refused: Option<(Arc<ServerConfig>, ServerFailure)>,
    /// What has to end before it may start.
    pub(super) follows: Vec<ServerHandle>,
}

#[derive(Debug)]
pub(super) struct ManagerTask {
    setup: Setup,
    /// In the order of the set.
    servers: Vec<Entry>,
    /// Removed or replaced, and not ended yet.
    leaving: Vec<Running>,
    changing: Changing,
    changed: Arc<Notify>,
    /// The lists of a server that agents do not see.
    nothing: Lists,
    /// All there is, but for what servers' own policies hide.
    whole: ProfileView,
    profiles: Vec<ProfileView>,
    served: watch::Sender<Arc<[ServedProfile]>>,
}

impl ManagerTask {
    /// Starts `servers`, all at once. Their names have been checked.
    pub(super) fn start(setup: Setup, servers: Vec<ServerConfig>, profiles: Vec<Arc<Profile>>) -> Self {
        let whole = ProfileView::whole(setup.naming.clone());
        let mut task = Self {
            servers: Vec::new(),
            leaving: Vec::new(),
            changing: Changing::default(),
            changed: Arc::default(),
            nothing: Lists::default(),
            profiles: profiles.into_iter().map(|profile| ProfileView::of(profile, &whole)).collect(),
            whole,
            served: watch::Sender::new([].into()),
            setup,
        };
        task.servers =
            servers.into_iter().map(|config| task.start_one(Arc::new(config), Enablement::Enabled)).collect();
        task.publish(false);
        task.serve_profiles();
        task
    }

    pub(super) fn start_one(&self, config: Arc<ServerConfig>, enablement: Enablement) -> Entry {
        let record = SharedState::new(Arc::clone(&config.name));
        let follows = self.to_wait_for(&config);
        let running = self.start_running(Arc::clone(&config), enablement.runs() && follows.is_empty(), record);
        Entry { follows, ..Entry::new(running, config, enablement) }
    }

    pub(super) fn start_running(&self, config: Arc<ServerConfig>, enabled: bool, record: SharedState) -> Running {
        server::start(config, enabled, self.setup.host.clone(), Arc::clone(&self.changed), record)
    }

    /// What is exposed of all servers.
    pub(super) fn view(&self) -> watch::Receiver<Arc<View>> {
        self.whole.view.subscribe()
    }

    /// The profiles, each with what its agents see.
    pub(super) fn profiles(&self) -> watch::Receiver<Arc<[ServedProfile]>> {
        self.served.subscribe()
    }

    /// Handles orders and publishes what servers bring until `stop` says how to end, then stops them all in parallel.
    /// Returns when no process of theirs is left.
    ///
    /// # Panics
    /// At the end, with the panic of a server's task.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>, mut stop: StopOrder) {
        let deadline = tokio::time::Instant::now() + self.setup.first_list_wait;
        let changed = Arc::clone(&self.changed);
        loop {
            let settled = self.whole.view.borrow().settled;
            let due = self.changing.due();
            tokio::select! {
                () = changed.notified() => {
                    self.after_lost_guards().await;
                    self.look();
                    self.publish(false);
                    self.leaving.retain(|running| !running.handle.has_ended());
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.look(),
                Some(order) = orders.recv() => self.handle(order),
                () = sleep_until(deadline), if !settled => self.publish(true),
                () = stop.at_least(Stop::Drain) => break,
            }
        }
        let panicked = self.stop_all(stop).await;
        let handles = self.handles();
        if let Some(orphans) = &self.setup.orphans {
            orphans.kill(&handles).await;
        }
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic.into_panic());
        }
    }

    /// Every server that may have processes.
    fn handles(&self) -> Vec<ServerHandle> {
        let staying = self.servers.iter().map(|entry| &entry.running);
        let coming = self.changing.replacements.iter().map(|one| &one.running);
        staying.chain(coming).chain(&self.leaving).map(|running| running.handle.clone()).collect()
    }

    async fn after_lost_guards(&mut self) {
        let handles = self.handles();
        if let Some(orphans) = &mut self.setup.orphans {
            orphans.after_lost_guards(&handles).await;
        }
    }

    /// Tells if a server's task ended with a panic rather than in order.
    async fn stop_all(&mut self, stop: StopOrder) -> Option<JoinError> {
        self.leaving.extend(self.servers.drain(..).map(|entry| entry.running));
        self.leaving.extend(self.changing.replacements.drain(..).map(|one| one.running));
        server::stop_all(&mut self.leaving, stop).await
    }

    /// Shows what servers have brought by now.
    pub(super) fn publish(&mut self, deadline_passed: bool) {
        let servers: Vec<_> = self.servers.iter().map(|entry| (entry, self.lists(entry))).collect();
        self.whole.publish(&servers, deadline_passed);
        for view in &mut self.profiles {
            view.publish_beside(&mut self.whole, &servers);
        }
    }

    fn lists(&self, entry: &Entry) -> Lists {
        match entry.enablement {
            Enablement::Enabled => entry.running.handle.published().lists.clone(),
            Enablement::Disabled | Enablement::Stopped => self.nothing.clone(),
        }
    }

    /// What is to be exposed from now on. Nothing of it is shown before it is published.
    pub(super) fn expose(&mut self, ViewConfig { naming, profiles }: ViewConfig) {
        self.whole.rename(naming, &self.profiles);
        let mut before = std::mem::take(&mut self.profiles);
        for profile in profiles {
            let known = before.iter().position(|view| view.profile.name == profile.name);
            self.profiles.push(match known {
                Some(index) => {
                    let mut view = before.swap_remove(index);
                    view.become_other(profile, &self.whole);
                    view
                }
                None => ProfileView::of(profile, &self.whole),
            });
        }
    }

    /// How any agent's tools are named, that of the whole first.
    pub(super) fn namings(&self) -> Vec<Naming> {
        [&self.whole].into_iter().chain(&self.profiles).map(|view| view.profile.naming.clone()).collect()
    }

    /// Says which profiles there are.
    pub(super) fn serve_profiles(&self) {
        let served =
            |view: &ProfileView| ServedProfile { profile: Arc::clone(&view.profile), view: view.view.subscribe() };
        self.served.send_replace(self.profiles.iter().map(served).collect());
    }

    /// What an agent sees of its profile, if that is still there.
    pub(super) fn follow(&mut self, session: u64, profile: &str) -> Option<watch::Receiver<Arc<View>>> {
        let view = self.profiles.iter_mut().find(|view| *view.profile.name == *profile)?;
        Some(view.follow(session, &mut self.whole))
    }
}

impl Entry {
    pub(super) fn new(running: Running, config: Arc<ServerConfig>, enablement: Enablement) -> Self {
        Self { running, config, enablement, due: 0, refused: None, follows: Vec::new() }
    }

    /// As it is seen where it is configured as `config`.
    pub(super) fn member(&self, config: Arc<ServerConfig>, lists: &Lists) -> Member {
        let (handle, vouched) = (self.running.handle.clone(), self.running.control.vouched());
        let refused = self.refused.as_ref().map(|(_, failed)| failed.reason.as_str().into());
        Member { handle, config, enablement: self.enablement, vouched, lists: lists.clone(), refused }
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
        let mut task = ManagerTask::start(setup, servers.into(), Vec::new());
        let other = task.servers[1].running.handle.clone();
        task.servers[0].running.task = tokio::spawn(async { panic!("a bug") });
        let (sender, stop) = StopOrder::channel();
        sender.send_replace(Stop::Drain);
        let (_orders, receiver) = mpsc::channel(1);
        let ended = tokio::spawn(task.run(receiver, stop)).await;
        assert!(ended.expect_err("it was no ordered end").is_panic());
        assert!(other.published().pid.is_none() && other.has_ended(), "the other server was ended");
    }
}
