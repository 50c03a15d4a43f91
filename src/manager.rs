//! Owns the servers and publishes what agents see of them.
//!
//! Knows: server handles, [`crate::catalog`]. Must not touch: JSON-RPC, sockets, sessions. Publishes a [`View`] on a watch,
//! so nobody waits for it: a session reads the latest, and a change wakes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, sleep_until};

use crate::catalog::{Catalog, Names, Source};
use crate::config::Config;
use crate::naming::{Naming, Scheme};
use crate::server::listing::ToolList;
use crate::server::{self, Host, Running, ServerHandle, Stop, StopOrder};

/// How long first lists wait for servers that are starting for the first time.
const FIRST_LISTS: Duration = Duration::from_secs(5);
/// Until a stray that did not die is killed again.
const KILL_AGAIN: Duration = Duration::from_millis(20);

/// What agents of one profile see, at one moment.
#[derive(Debug)]
pub struct View {
    /// What is exposed.
    pub catalog: Catalog,
    /// The servers its routes lead to, by index.
    pub servers: Vec<ServerHandle>,
    /// Every first start attempt has ended, or the deadline for first lists has passed.
    pub settled: bool,
    /// Changes whenever the list does.
    pub version: u64,
}

/// Runs the servers of one daemon.
#[derive(Debug)]
pub struct Manager {
    naming: Naming,
    servers: Vec<Running>,
    changed: Arc<Notify>,
    names: Names,
    /// The lists that the current catalog was built from.
    built_from: Vec<Arc<ToolList>>,
    view: watch::Sender<Arc<View>>,
    /// How many guards have been lost and cleaned up after.
    lost_guards: u64,
    /// Descendants of this process from before the first server.
    not_ours: Vec<u32>,
}

impl Manager {
    /// Starts every server of `config`, all at once. Call [`Manager::run`] to have their lists published.
    #[must_use]
    pub fn start(config: Config, host: &Host) -> Self {
        let changed = Arc::new(Notify::new());
        let start = |server| server::start(Arc::new(server), host.clone(), Arc::clone(&changed));
        let servers: Vec<Running> = config.servers.into_iter().map(start).collect();
        let handles = servers.iter().map(|server| server.handle.clone()).collect();
        let first = View { catalog: Catalog::default(), servers: handles, settled: servers.is_empty(), version: 0 };
        let mut manager = Self {
            naming: config.daemon.naming,
            servers,
            changed,
            names: Names::default(),
            built_from: Vec::new(),
            view: watch::Sender::new(Arc::new(first)),
            lost_guards: 0,
            not_ours: server::present(),
        };
        manager.publish(false);
        manager
    }

    /// The view of the default profile.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// Publishes what servers bring until `stop` says how to end, then stops them all in parallel. Returns when no
    /// process of theirs is left.
    pub async fn run(mut self, mut stop: StopOrder) {
        let deadline = tokio::time::Instant::now() + FIRST_LISTS;
        let changed = Arc::clone(&self.changed);
        loop {
            let settled = self.view.borrow().settled;
            tokio::select! {
                () = changed.notified() => {
                    self.publish(false);
                    self.after_lost_guards().await;
                }
                () = sleep_until(deadline), if !settled => self.publish(true),
                () = stop.at_least(Stop::Stop) => break,
            }
        }
        self.stop_all(stop).await;
        self.kill_strays().await;
    }

    async fn stop_all(&mut self, mut stop: StopOrder) {
        let orders: Vec<_> = self.servers.iter().map(|server| server.stop.clone()).collect();
        let pass_on = |stop| {
            for order in &orders {
                order.send_replace(stop);
            }
        };
        pass_on(stop.now());
        let all_ended = async {
            for server in &mut self.servers {
                // A task that panicked has dropped its process, and so its lifeline.
                let _ = (&mut server.task).await;
            }
        };
        let mut all_ended = std::pin::pin!(all_ended);
        tokio::select! {
            () = &mut all_ended => return,
            () = stop.at_least(Stop::Kill) => pass_on(Stop::Kill),
        }
        all_ended.await;
    }

    fn publish(&mut self, deadline_passed: bool) {
        let lists: Vec<Arc<ToolList>> =
            self.servers.iter().map(|server| Arc::clone(&server.handle.published().tools)).collect();
        let last = Arc::clone(&self.view.borrow());
        let attempted = || self.servers.iter().all(|server| server.handle.published().attempted);
        let settled = last.settled || deadline_passed || attempted();
        let same_lists =
            lists.len() == self.built_from.len() && lists.iter().zip(&self.built_from).all(|(a, b)| Arc::ptr_eq(a, b));
        // A bare name belongs to the first server in file order, so none is given before all had their chance.
        let names_open = self.naming.scheme == Scheme::Bare && !settled;
        if (same_lists || names_open) && settled == last.settled {
            return;
        }
        let catalog = if names_open { Catalog::default() } else { self.build(&lists) };
        let version = last.version + u64::from(catalog.list() != last.catalog.list());
        self.built_from = lists;
        let servers = last.servers.clone();
        self.view.send_replace(Arc::new(View { catalog, servers, settled, version }));
    }

    fn build(&mut self, lists: &[Arc<ToolList>]) -> Catalog {
        let sources: Vec<Source<'_>> = self
            .servers
            .iter()
            .zip(lists)
            .map(|(server, list)| {
                let config = server.handle.config();
                Source { name: &config.name, policy: &config.policy, tools: &list.tools }
            })
            .collect();
        Catalog::build(&mut self.names, &self.naming, &sources)
    }

    /// What a guard leaves behind that is itself killed comes to mcpd, which is a child subreaper too.
    async fn after_lost_guards(&mut self) {
        let lost = self.servers.iter().map(|server| server.handle.published().lost_guards).sum();
        if std::mem::replace(&mut self.lost_guards, lost) != lost {
            self.kill_strays().await;
        }
    }

    /// Ends every descendant of mcpd that is in no known guard's subtree and was not there before, outside of mcpd's own
    /// session, which every guard leaves.
    async fn kill_strays(&self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            let guards = self.servers.iter().filter_map(|server| server.handle.published().guard_pid);
            let spared: Vec<u32> = guards.chain(self.not_ours.iter().copied()).collect();
            if !server::kill_strays(&spared) || Instant::now() > deadline {
                return;
            }
            sleep(KILL_AGAIN).await;
        }
    }
}
