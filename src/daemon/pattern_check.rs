//! Reports patterns of the configuration that match nothing, once servers have listed what they offer.
//!
//! A `deny` that matches nothing hides nothing, so it is reported after the start and after each reload. A server that lists later is
//! checked then. Each warning is logged once per configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::catalog::Lists;
use crate::config::LoadedConfig;
use crate::config_lints::unmatched_patterns;
use crate::manager::{Manager, Member, View};
use crate::server::{ServerHandle, ServerSnapshot};

/// The patterns of one configuration, and what was reported of them.
pub(super) struct PatternCheck {
    loaded: Arc<LoadedConfig>,
    view: watch::Receiver<Arc<View>>,
    /// Servers whose lists a check has had.
    checked: BTreeSet<Arc<str>>,
    reported: BTreeSet<String>,
}

impl PatternCheck {
    pub(super) fn new(loaded: Arc<LoadedConfig>, manager: &Manager) -> Self {
        Self { loaded, view: manager.view(), checked: BTreeSet::new(), reported: BTreeSet::new() }
    }

    /// Checks another configuration from now on. Returns the former one.
    pub(super) fn replace(&mut self, loaded: Arc<LoadedConfig>) -> Arc<LoadedConfig> {
        (self.checked, self.reported) = (BTreeSet::new(), BTreeSet::new());
        std::mem::replace(&mut self.loaded, loaded)
    }

    /// Returns when a server has listed that no check has had. The first check waits for all first starts.
    pub(super) async fn due(&mut self) {
        // Nobody is left to list anything once the manager has ended.
        if self.view.wait_for(|view| view.settled).await.is_err() {
            return pending().await;
        }
        loop {
            let view = Arc::clone(&self.view.borrow_and_update());
            let handles = self.unchecked(&view);
            let mut waiting: FuturesUnordered<_> = handles.iter().map(|handle| handle.wait_for(has_listed)).collect();
            // A server that has ended lists nothing any more.
            let listed = async {
                while waiting.next().await != Some(true) {
                    if waiting.is_empty() {
                        pending::<()>().await;
                    }
                }
            };
            tokio::select! {
                () = listed => return,
                changed = self.view.changed() => if changed.is_err() { return pending().await },
            }
        }
    }

    /// The warnings of the configuration, as they are printed; they count as logged.
    pub(super) async fn warnings(&mut self) -> Vec<String> {
        let found = self.check().await;
        self.reported.extend(found.iter().cloned());
        found
    }

    /// Logs the warnings that were not reported before.
    pub(super) async fn log(&mut self) {
        for warning in self.check().await {
            if self.reported.insert(warning.clone()) {
                tracing::warn!("{warning}");
            }
        }
    }

    async fn check(&mut self) -> Vec<String> {
        let view = Arc::clone(&self.view.borrow());
        let listed: BTreeMap<_, _> = view.servers.iter().filter_map(lists).collect();
        let known = self.loaded.config.servers.iter().map(|server| listed.get(&server.name).cloned()).collect();
        self.checked.extend(listed.into_keys());
        let loaded = Arc::clone(&self.loaded);
        // Many patterns over many names take a while.
        let found = spawn_blocking(move || {
            unmatched_patterns(&loaded, known).iter().map(|warning| warning.render(false)).collect()
        });
        found.await.unwrap_or_default()
    }

    /// Servers that no check has had.
    fn unchecked(&self, view: &View) -> Vec<ServerHandle> {
        let members = view.servers.iter().filter(|member| !self.checked.contains(&member.config.name));
        members.map(|member| member.handle.clone()).collect()
    }
}

/// What a server offers, by its name, if that is known.
fn lists(member: &Member) -> Option<(Arc<str>, Lists)> {
    let published = member.handle.published();
    has_listed(&published).then(|| (Arc::clone(&member.config.name), published.lists.clone()))
}

/// Whether a server has listed all that it offers, or sleeps and has done so before.
fn has_listed(published: &ServerSnapshot) -> bool {
    published.lists_known && !published.may_list_more()
}
