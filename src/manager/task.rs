//! The task that owns the servers of one manager.
//!
//! It handles one order at a time, and publishes the resulting views before it answers the order. So a removed server is absent
//! from every list that is read after the answer.

mod apply;
mod handle;
mod profile_view;
mod replacement;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinError;
use tokio::time::sleep_until;

use self::apply::Changing;
use self::profile_view::ProfileView;
use super::changes::{ServerFailure, ViewConfig};
use super::changes_report::ChangesReport;
use super::commands::ManagerCommand;
use super::pins::{DoneWork, ObservedServer, PinnedServers};
use super::setup::Setup;
use super::view::{Enablement, Member, ServedProfile, View};
use crate::catalog::Lists;
use crate::config::{Profile, ServerConfig};
use crate::naming::Naming;
use crate::policy::RunTimeDeny;
use crate::server::{self, Running, ServerHandle, SharedState, StopLevel, StopReceiver};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) running: Running,
    /// The configuration that is in force.
    pub(super) config: Arc<ServerConfig>,
    pub(super) enablement: Enablement,
    /// The revision that the server must reach for the configuration to be in force.
    pub(super) due: u64,
    /// The configuration whose instance failed to start, and the failure. The former instance continues.
    pub(super) refused: Option<(Arc<ServerConfig>, ServerFailure)>,
    /// Instances that must end before this one may start.
    pub(super) waits_for: Vec<ServerHandle>,
    /// Its definitions that are not approved, if there is anything to report.
    changes: Option<Arc<ChangesReport>>,
}

#[derive(Debug)]
pub(super) struct ManagerTask {
    setup: Setup,
    /// In the order of the set.
    servers: Vec<Entry>,
    /// What is denied at run time, by the name of the server, whether there is such a server or not.
    denied: BTreeMap<String, RunTimeDeny>,
    pins: PinnedServers,
    /// Servers that were removed or replaced and still have processes.
    leaving: Vec<Running>,
    changing: Changing,
    changed: Arc<Notify>,
    /// Empty lists, for servers that are disabled.
    nothing: Lists,
    /// Everything that the servers' own policies permit.
    whole: ProfileView,
    profiles: Vec<ProfileView>,
    served: watch::Sender<Arc<[ServedProfile]>>,
}

impl ManagerTask {
    /// Starts all `servers` in parallel. The caller has checked their names.
    pub(super) fn start(setup: Setup, servers: Vec<ServerConfig>, profiles: Vec<Arc<Profile>>) -> Self {
        // Without agents, no list has to fit into a message.
        let max_message = if setup.host.serves_agents { setup.host.max_message } else { usize::MAX };
        let whole = ProfileView::whole(setup.naming, max_message);
        let mut task = Self {
            servers: Vec::new(),
            denied: BTreeMap::new(),
            pins: PinnedServers::read(setup.pins.clone(), &servers),
            leaving: Vec::new(),
            changing: Changing::default(),
            changed: Arc::default(),
            nothing: Lists::default(),
            profiles: profiles.into_iter().map(|profile| ProfileView::of(profile, &whole)).collect(),
            whole,
            served: watch::Sender::new([].into()),
            setup,
        };
        task.servers = servers.into_iter().map(|config| task.start_one(Arc::new(config))).collect();
        task.publish(false);
        task.serve_profiles();
        task
    }

    pub(super) fn start_one(&self, config: Arc<ServerConfig>) -> Entry {
        let enablement = Enablement::configured(&config);
        let record = self.setup.host.state_of(Arc::clone(&config.name));
        let waits_for = self.predecessors(&config);
        let running = self.start_running(Arc::clone(&config), enablement.runs() && waits_for.is_empty(), record);
        Entry { waits_for, ..Entry::new(running, config) }
    }

    pub(super) fn start_running(&self, config: Arc<ServerConfig>, enabled: bool, record: SharedState) -> Running {
        server::start(config, enabled, self.setup.host.clone(), Arc::clone(&self.changed), record)
    }

    /// The view of all servers.
    pub(super) fn view(&self) -> watch::Receiver<Arc<View>> {
        self.whole.view.subscribe()
    }

    /// The profiles, each with its view.
    pub(super) fn profiles(&self) -> watch::Receiver<Arc<[ServedProfile]>> {
        self.served.subscribe()
    }

    /// Handles commands and publishes changes of servers until `stop` is raised, then stops all servers in parallel.
    /// Returns when no server process is left, or else the processes that could not be ended.
    ///
    /// # Panics
    /// If the task of a server panicked, with the same panic, after all servers have stopped.
    pub(super) async fn run(
        mut self,
        mut commands: mpsc::Receiver<ManagerCommand>,
        mut stop: StopReceiver,
    ) -> Vec<u32> {
        let deadline = tokio::time::Instant::now() + self.setup.first_list_wait;
        let changed = Arc::clone(&self.changed);
        loop {
            let settled = self.whole.view.borrow().settled;
            let due = self.changing.due(self.pins.is_reading());
            tokio::select! {
                () = changed.notified() => {
                    self.advance();
                    self.publish(false);
                    self.drop_ended();
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.advance(),
                Some(command) = commands.recv() => self.handle(command),
                Some(done) = self.pins.done() => self.apply_file_work(done),
                () = sleep_until(deadline), if !settled => self.publish(true),
                () = stop.at_least(StopLevel::FinishRunning) => break,
            }
        }
        let panicked = self.stop_all(stop).await;
        self.pins.end().await;
        let left = self.setup.host.reaper.close().await;
        if !left.is_empty() {
            tracing::error!(processes = left.len(), "not all processes of servers could be ended");
        }
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic.into_panic());
        }
        left
    }

    /// Stops all servers. Returns the error of a server task that panicked, if any.
    async fn stop_all(&mut self, stop: StopReceiver) -> Option<JoinError> {
        self.leaving.extend(self.servers.drain(..).map(|entry| entry.running));
        self.leaving.extend(self.changing.replacements.drain(..).map(|one| one.running));
        server::stop_all(&mut self.leaving, stop).await
    }

    /// Publishes the current lists and states of the servers in all views. `deadline_passed`: views no longer wait for first lists.
    pub(super) fn publish(&mut self, deadline_passed: bool) {
        self.compare_definitions();
        let servers: Vec<_> = self.servers.iter().map(|entry| (entry, self.lists(entry))).collect();
        self.whole.publish(&servers, deadline_passed);
        for view in &mut self.profiles {
            view.publish_beside(&mut self.whole, &servers);
        }
    }

    /// Notes what the servers offer, and puts what is approved of them into their policies.
    fn compare_definitions(&mut self) {
        if self.pins.are_off() {
            return;
        }
        let views: Vec<_> =
            [&self.whole].into_iter().chain(&self.profiles).map(|shown| Arc::clone(&shown.view.borrow())).collect();
        let observed: Vec<_> = self.servers.iter().map(|entry| self.observed(entry)).collect();
        self.pins.observe(&observed, &views);
        for entry in &mut self.servers {
            if let Some(config) = self.pins.approved(&entry.config) {
                entry.config = config;
            }
            entry.changes = self.pins.report(&entry.config).cloned();
        }
    }

    fn observed<'a>(&self, entry: &'a Entry) -> ObservedServer<'a> {
        ObservedServer { config: &entry.config, handle: &entry.running.handle, lists: self.lists(entry) }
    }

    /// A pin file was read or written.
    fn apply_file_work(&mut self, done: DoneWork) {
        let answer = self.pins.finish(done);
        self.publish(false);
        if let Some(answer) = answer {
            answer.send();
        }
        self.advance();
    }

    fn lists(&self, entry: &Entry) -> Lists {
        match entry.enablement {
            Enablement::Enabled => entry.running.handle.published().lists.clone(),
            Enablement::Disabled | Enablement::Stopped => self.nothing.clone(),
        }
    }

    /// Sets the names and profiles for the next [`Self::publish`].
    pub(super) fn expose(&mut self, ViewConfig { naming, profiles }: ViewConfig) {
        self.whole.rename(naming, &self.profiles);
        let mut before = std::mem::take(&mut self.profiles);
        for profile in profiles {
            let known = before.iter().position(|view| view.profile.name == profile.name);
            self.profiles.push(match known {
                Some(index) => {
                    let mut view = before.swap_remove(index);
                    view.set_profile(profile, &self.whole);
                    view
                }
                None => ProfileView::of(profile, &self.whole),
            });
        }
    }

    /// The naming of the whole, then that of each profile.
    pub(super) fn namings(&self) -> Vec<Naming> {
        [&self.whole].into_iter().chain(&self.profiles).map(|view| view.profile.naming).collect()
    }

    /// Publishes the list of profiles.
    pub(super) fn serve_profiles(&self) {
        let served =
            |view: &ProfileView| ServedProfile { profile: Arc::clone(&view.profile), view: view.view.subscribe() };
        self.served.send_replace(self.profiles.iter().map(served).collect());
    }

    /// Drops removed servers whose processes have ended, with the durations of those whose name is not configured any more.
    fn drop_ended(&mut self) {
        let ended: Vec<_> = self.leaving.extract_if(.., |running| running.handle.has_ended()).collect();
        for Running { handle, .. } in &ended {
            if !self.servers.iter().any(|entry| entry.config.name == *handle.name()) {
                self.setup.host.durations.forget(handle.name());
            }
        }
    }

    /// The view of one agent of `profile`; `None` if the profile was removed.
    pub(super) fn follow(&mut self, session: u64, profile: &str) -> Option<watch::Receiver<Arc<View>>> {
        let view = self.profiles.iter_mut().find(|view| *view.profile.name == *profile)?;
        Some(view.follow(session, &mut self.whole))
    }
}

impl Entry {
    pub(super) fn new(running: Running, config: Arc<ServerConfig>) -> Self {
        let enablement = Enablement::configured(&config);
        Self { running, config, enablement, due: 0, refused: None, waits_for: Vec::new(), changes: None }
    }

    /// The enablement under `config`, a changed configuration of this server: the operator's, unless the configured one has changed.
    pub(super) fn enablement_under(&self, config: &ServerConfig) -> Enablement {
        if self.config.settings.enabled == config.settings.enabled {
            self.enablement
        } else {
            Enablement::configured(config)
        }
    }

    /// The server as part of a view, with the configuration and lists of that view.
    pub(super) fn member(&self, config: Arc<ServerConfig>, lists: &Lists) -> Member {
        let handle = self.running.handle.clone();
        let refused = self.refused.as_ref().map(|(_, failed)| failed.reason.as_str().into());
        let changes = self.changes.clone();
        Member { handle, config, enablement: self.enablement, lists: lists.clone(), refused, changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::GuardProgram;

    #[tokio::test]
    async fn panic_of_a_server_task_is_reported_after_the_other_servers_ended() {
        let mut setup = Setup::default();
        setup.host.guard = GuardProgram::None;
        let servers = ["a", "b"].map(|name| ServerConfig::new(name, "cat"));
        let mut task = ManagerTask::start(setup, servers.into(), Vec::new());
        let other = task.servers[1].running.handle.clone();
        task.servers[0].running.task = tokio::spawn(async { panic!("a bug") });
        let (sender, stop) = StopReceiver::channel();
        sender.send_replace(StopLevel::FinishRunning);
        let (_orders, receiver) = mpsc::channel(1);
        let ended = tokio::spawn(task.run(receiver, stop)).await;
        assert!(ended.expect_err("the task panicked").is_panic());
        assert!(other.published().pid.is_none() && other.has_ended(), "the other server was ended");
    }
}
