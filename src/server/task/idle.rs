//! Lazy servers: started by the first call, and stopped when idle. So is a server that has exited by itself with nothing to do.
//!
//! A server can sleep only while its lists are known from a former instance or from [`crate::server::cache`].

use std::sync::Arc;
use std::time::Instant;

use super::shutdown::LIST_GRACE;
use super::{ServerTask, startable};
use crate::config::Start;
use crate::server::cache::ListCacheFile;
use crate::server::control::DesiredState;
use crate::server::instance::Instance;
use crate::server::lifecycle::{Event, State};

/// Whether a server is needed.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Since when a lazy instance has had no calls.
    since: Option<Instant>,
    /// The last instance has exited by itself with nothing to do, so the next one starts with the next call.
    has_finished: bool,
}

impl Idle {
    pub(super) fn set_finished(&mut self, has_finished: bool) {
        self.has_finished = has_finished;
    }
}

impl ServerTask {
    /// Waits until an instance has to run again; `false` if the server is stopped for good.
    pub(super) async fn start_again(&mut self) -> bool {
        loop {
            if self.may_sleep() && self.control.should_run_applied() && self.publisher.knows_lists() {
                if self.sleep_until_called().await {
                    break;
                }
                continue;
            }
            if !self.control.should_run() {
                self.refuse_waiting();
                self.publisher.forget_lists();
            }
            let mut control = self.control.clone();
            let Some(DesiredState { config, revision, .. }) = self.handling_commands_until(control.next()).await else {
                return false;
            };
            self.control.apply(revision);
            (self.config, self.idle.has_finished) = (config, false);
            self.publisher.update(|published| (published.revision, published.first_start_ended) = (revision, false));
            self.load_lists().await;
            if !self.may_sleep() || !self.publisher.knows_lists() {
                break;
            }
        }
        self.idle.has_finished = false;
        self.on(Event::Start { startable: startable(&self.config) });
        true
    }

    pub(super) fn is_lazy(&self) -> bool {
        self.config.settings.start == Start::Lazy
    }

    /// Subscriptions keep a server awake, as only an instance sends notifications.
    fn may_sleep(&self) -> bool {
        (self.is_lazy() || self.idle.has_finished) && self.agents.has_no_subscriptions()
    }

    /// Waits for a call; `false` if the desired state changes first.
    async fn sleep_until_called(&mut self) -> bool {
        self.publisher.keep_lists();
        self.publisher.update(|published| (published.not_started_yet, published.first_start_ended) = (true, true));
        let mut control = self.control.clone();
        let called = loop {
            if self.waiting.has_parked() || !self.may_sleep() {
                break true;
            }
            tokio::select! {
                Some(command) = self.commands.recv() => self.park_command(command),
                () = control.wait_obsolete() => break false,
            }
        };
        self.publisher.update(|published| published.not_started_yet = false);
        called
    }

    /// Whether a process that exits now without an error was not needed any more.
    pub(super) fn has_nothing_to_do(&self, instance: &Instance) -> bool {
        let is_ready = matches!(self.lifecycle.state(), State::Ready { .. } | State::Unresponsive { .. });
        let is_idle = !instance.is_busy() && self.waiting.is_empty();
        let knows_all = self.publisher.snapshot().lists_complete && self.publisher.knows_lists();
        is_ready && is_idle && knows_all && self.agents.has_no_subscriptions()
    }

    /// When the instance stops if it stays idle, if it may sleep.
    pub(super) fn idle_at(&mut self, instance: &Instance) -> Option<Instant> {
        if !self.is_lazy() || !self.may_sleep() || instance.is_busy() || !self.waiting.is_empty() {
            self.idle.since = None;
            return None;
        }
        Some(*self.idle.since.get_or_insert_with(Instant::now) + self.config.settings.idle_timeout)
    }

    /// Reads the lists from the cache. They are published until the server has listed.
    pub(super) async fn load_lists(&mut self) {
        let Some(cache) = self.cache() else { return };
        let name = Arc::clone(&self.config.name);
        if let Some(known) = self.handling_commands_until(cache.load(name)).await {
            self.publisher.publish_cached(known);
            self.publisher.forget_lists_at(Instant::now() + LIST_GRACE);
        }
    }

    /// Stores the lists once all are fetched. If each were stored separately, an older state could be written last.
    pub(super) fn store_lists_if(&self, settled: bool) {
        // An instance that belongs to agents does not store its lists, because its configuration, and so its file, depends on the
        // directory: its group stores them. A lazy one also stores its own, which it needs to sleep.
        let is_stored = self.is_lazy() || !self.config.settings.sharing.is_by_agent();
        if let Some(cache) = self.cache().filter(|_| settled && is_stored) {
            cache.store(Arc::clone(&self.config.name), self.publisher.known());
        }
    }

    fn cache(&self) -> Option<ListCacheFile> {
        ListCacheFile::of(self.context.cache.clone()?, &self.config)
    }
}
