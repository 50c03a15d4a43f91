//! A server that is started by its first call and stopped when it was idle for long.
//!
//! It can sleep only while its lists are known, from an instance before or from [`crate::server::cache`]: what is in them stays listed.

use std::sync::Arc;
use std::time::Instant;

use super::shutdown::LIST_GRACE;
use super::{ServerTask, startable};
use crate::config::Start;
use crate::server::cache::Cache;
use crate::server::control::Wanted;
use crate::server::instance::Instance;
use crate::server::lifecycle::Event;

impl ServerTask {
    /// Waits until an instance is to run again; `false` if none ever is.
    pub(super) async fn start_again(&mut self) -> bool {
        loop {
            if self.may_sleep() && self.orders.wants(self.revision) && self.publisher.knows_lists() {
                if self.sleep_until_called().await {
                    break;
                }
                continue;
            }
            if !self.orders.wants_any() {
                self.forget_at = None;
                self.refuse_parked();
                self.publisher.disabled();
            }
            let mut orders = self.orders.clone();
            let Some(Wanted { config, revision, .. }) = self.holding(orders.next()).await else { return false };
            (self.config, self.revision) = (config, revision);
            self.publisher.update(|published| (published.revision, published.attempted) = (revision, false));
            self.recall_lists().await;
            if !self.may_sleep() || !self.publisher.knows_lists() {
                break;
            }
        }
        self.on(Event::Start { startable: startable(&self.config), backoff_reset: self.config.settings.backoff_reset });
        true
    }

    pub(super) fn is_lazy(&self) -> bool {
        self.config.settings.start == Start::Lazy
    }

    /// Who has subscribed to something is told of changes, which only an instance can tell.
    fn may_sleep(&self) -> bool {
        self.is_lazy() && self.agents.want_nothing()
    }

    /// `false` if something else is wanted before there is a call.
    async fn sleep_until_called(&mut self) -> bool {
        self.forget_at = None;
        self.publisher.update(|published| (published.asleep, published.attempted) = (true, true));
        let (mut orders, revision) = (self.orders.clone(), self.revision);
        let called = loop {
            if !self.parked.is_empty() || !self.may_sleep() {
                break true;
            }
            tokio::select! {
                Some(command) = self.commands.recv() => self.hold(command),
                () = orders.unwanted(revision) => break false,
            }
        };
        self.publisher.update(|published| published.asleep = false);
        called
    }

    /// When the instance has been idle for long enough, if it may sleep at all.
    pub(super) fn idle_at(&mut self, instance: &Instance) -> Option<Instant> {
        let waits = !self.parked.is_empty() || !self.queued.is_empty();
        if !self.may_sleep() || instance.is_busy() || waits {
            self.idle_since = None;
            return None;
        }
        Some(*self.idle_since.get_or_insert_with(Instant::now) + self.config.settings.idle_timeout)
    }

    /// Takes the lists of the server from where they were kept: they are listed until it has listed itself.
    pub(super) async fn recall_lists(&mut self) {
        let Some(cache) = self.cache() else { return };
        let name = Arc::clone(&self.config.name);
        if let Some(known) = self.holding(cache.recall(name)).await {
            self.publisher.recalled(known);
            self.forget_at = Some(Instant::now() + LIST_GRACE);
        }
    }

    /// Keeps the lists of the server, once they are all told: written one after another, an older state could be the last on
    /// the disk.
    pub(super) fn keep_lists_if(&self, settled: bool) {
        // Of one for agents its group knows how it is configured, whatever directory this instance is for.
        let is_kept = self.is_lazy() || !self.config.settings.sharing.is_by_agent();
        if let Some(cache) = self.cache().filter(|_| settled && is_kept) {
            cache.keep(Arc::clone(&self.config.name), self.publisher.known());
        }
    }

    fn cache(&self) -> Option<Cache> {
        Cache::of(self.host.cache.clone()?, &self.config)
    }
}
