//! The eras that a server supports, as its instances have found out, so that not every start has to try both.
//!
//! A response of the server is conclusive. A process that died at its first request, or a connection that broke, may be
//! chance: such a failure counts only if it happens twice in a row.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions".

#![expect(
    clippy::disallowed_types,
    reason = "the tasks of several instances share the cache, and no lock is held across an await"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::identity::Identities;
use crate::config::{EraChoice, Launch, ServerConfig, Sharing};
use crate::era::{Era, Eras};

/// Whose era an instance speaks, if the server may support both and the configuration leaves the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum EraPreference {
    /// The legacy one, for agents of both eras. At a URL, the handshake also finds out whether the server has both.
    Shared,
    /// Agents of this era.
    Of(Era),
}

/// Whether a server supports one era.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Support {
    #[default]
    Unknown,
    /// An instance was opened in this era, or the server has declared it.
    Confirmed,
    /// It was confirmed, and the last opening failed: a server of both eras may have trouble with one of them.
    Failing,
    /// Opening in this era failed in a way that may be chance.
    Doubtful,
    /// The server refuses this era.
    Absent,
}

/// Both eras of a server, or the findings of one handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EraSupport {
    pub(super) legacy: Support,
    pub(super) modern: Support,
    /// What the server has declared in each era.
    pub(super) identities: Identities,
}

impl EraSupport {
    pub(super) fn of(&self, era: Era) -> Support {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => self.modern,
        }
    }

    pub(super) fn set(&mut self, era: Era, support: Support) {
        match era {
            Era::Legacy => self.legacy = support,
            Era::Modern => self.modern = support,
        }
    }

    /// The eras in which an instance was opened, and which the server has not refused since.
    pub(super) fn expected(&self) -> Eras {
        let is_expected = |era: &Era| matches!(self.of(*era), Support::Confirmed | Support::Failing);
        Era::ALL.into_iter().filter(is_expected).collect()
    }

    pub(super) fn has_both(&self) -> bool {
        (self.legacy, self.modern) == (Support::Confirmed, Support::Confirmed)
    }

    fn learn(&mut self, learned: &Self) {
        for era in Era::ALL {
            match (self.of(era), learned.of(era)) {
                (_, Support::Unknown) => {}
                (Support::Doubtful | Support::Absent, Support::Doubtful) => self.set(era, Support::Absent),
                (_, found) => self.set(era, found),
            }
        }
        learned.identities.iter().cloned().for_each(|identity| self.identities.insert(identity));
        for era in Era::ALL {
            if self.of(era) == Support::Absent {
                self.identities.remove(era);
            }
        }
    }
}

/// Entries of one server: instances for agents in different directories may be launched differently.
const MAX_ENTRIES: usize = 64;

/// Shared by all instances of one server; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct EraCache(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Debug)]
struct Entry {
    /// With the way in which the server was launched.
    config: Arc<ServerConfig>,
    support: EraSupport,
}

impl EraCache {
    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The eras of a server that is launched like this.
    pub(super) fn of(&self, config: &ServerConfig) -> EraSupport {
        let entries = self.entries();
        let known = entries.iter().find(|entry| entry.config.launch == config.launch);
        known.map(|entry| entry.support.clone()).unwrap_or_default()
    }

    /// Adds the findings of a handshake.
    pub(super) fn learn(&self, config: &Arc<ServerConfig>, learned: &EraSupport) {
        let mut support = self.of(config);
        support.learn(learned);
        self.set(config, support);
    }

    /// Replaces the entry of this launch, or else the oldest one if the cache is full.
    fn set(&self, config: &Arc<ServerConfig>, support: EraSupport) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.config.launch != config.launch);
        entries.truncate(MAX_ENTRIES - 1);
        entries.push_front(Entry { config: Arc::clone(config), support });
    }

    /// Opening in `era` has failed: the server may have been replaced by another one.
    pub(super) fn record_failed_opening(&self, config: &Arc<ServerConfig>, era: Era) {
        let mut support = self.of(config);
        if support.expected() == Era::ALL.into_iter().collect() {
            support.set(era, Support::Failing);
        } else {
            support = EraSupport::default();
        }
        self.set(config, support);
    }
}

/// Whether a server that supports both eras has an instance for each. A program that mcpd starts runs once, in the legacy era.
pub(super) fn may_split_by_era(config: &ServerConfig) -> bool {
    let (settings, is_remote) = (&config.settings, matches!(config.launch, Ok(Launch::Remote(_))));
    is_remote && settings.sharing == Sharing::Shared && settings.era == EraChoice::Auto
}

/// Whether the server is reached at a URL.
pub(super) fn has_url(config: &ServerConfig) -> bool {
    config.launch.as_ref().is_ok_and(|launch| launch.remote().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(era: Era, support: Support) -> EraSupport {
        let mut learned = EraSupport::default();
        learned.set(era, support);
        learned
    }

    #[test]
    fn entry_applies_to_servers_with_the_same_launch() {
        let (cache, config) = (EraCache::default(), Arc::new(ServerConfig::new("a", "x")));
        cache.clone().learn(&config, &learned(Era::Legacy, Support::Confirmed));
        assert_eq!(cache.of(&ServerConfig::new("b", "x")).legacy, Support::Confirmed);
        assert_eq!(cache.of(&ServerConfig::new("a", "y")), EraSupport::default());
        cache.learn(&config, &learned(Era::Modern, Support::Confirmed));
        assert!(cache.of(&config).has_both());
        let other = Arc::new(ServerConfig::new("a", "y"));
        cache.learn(&other, &learned(Era::Legacy, Support::Absent));
        assert!(cache.of(&config).has_both(), "another launch has its own entry");
        for number in 0..MAX_ENTRIES {
            let config = Arc::new(ServerConfig::new("a", format!("z{number}")));
            cache.learn(&config, &learned(Era::Legacy, Support::Confirmed));
        }
        assert_eq!(cache.entries().len(), MAX_ENTRIES);
        assert_eq!(cache.of(&config), EraSupport::default());
    }

    #[test]
    fn inconclusive_failure_counts_the_second_time_in_a_row() {
        use Support::{Absent, Confirmed, Doubtful};
        let (cache, config) = (EraCache::default(), Arc::new(ServerConfig::new("a", "x")));
        for (found, expected) in [
            (Doubtful, Doubtful),
            (Doubtful, Absent),
            (Doubtful, Absent),
            (Confirmed, Confirmed),
            (Doubtful, Doubtful),
            (Confirmed, Confirmed),
            (Absent, Absent),
        ] {
            cache.learn(&config, &learned(Era::Modern, found));
            assert_eq!(cache.of(&config).modern, expected, "{found:?}");
        }
    }

    #[test]
    fn failed_opening_leaves_the_other_era_of_a_server_with_both() {
        use Support::{Absent, Confirmed, Failing, Unknown};
        for (other, legacy, modern) in [(Confirmed, Failing, Confirmed), (Absent, Unknown, Unknown)] {
            let (cache, config) = (EraCache::default(), Arc::new(ServerConfig::new("a", "x")));
            cache.learn(&config, &learned(Era::Legacy, Support::Confirmed));
            cache.learn(&config, &learned(Era::Modern, other));
            cache.record_failed_opening(&config, Era::Legacy);
            let known = cache.of(&config);
            assert_eq!((known.legacy, known.modern), (legacy, modern));
        }
    }
}
