//! Which eras a server supports, as far as its instances have found out. A server is asked once, not at every start.
//!
//! An answer of the server is conclusive. A process that died of an opening, or a connection that broke, is not: it may be
//! chance, so it counts only when it happens twice in a row.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions".

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::config::{EraChoice, Launch, ServerConfig, Sharing};
use crate::era::{Era, Eras};

/// For whom an instance is opened, where the server may support both eras and the configuration leaves the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum EraPreference {
    /// Agents of both eras: the legacy one. At a URL, the handshake also finds out whether the server has both.
    Shared,
    /// Agents of this era.
    Of(Era),
}

/// What is known of one era of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Support {
    #[default]
    Unknown,
    /// An instance was opened in this era, or the server has said that it has it.
    Confirmed,
    /// It was confirmed, and the last opening has failed, as it may while a server of both eras has trouble with one of them.
    Failing,
    /// Opening in this era failed in a way that may be chance.
    Doubtful,
    /// The server refuses this era.
    Absent,
}

/// What is known of both eras of a server, or what one handshake has found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EraSupport {
    pub(super) legacy: Support,
    pub(super) modern: Support,
    /// The extensions in its result of `server/discover`, raw.
    pub(super) extensions: Option<Bytes>,
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

    /// The eras that it has been opened in, and has not refused since.
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
        if learned.modern == Support::Confirmed {
            self.extensions.clone_from(&learned.extensions);
        }
    }
}

/// Most ways to run one server of which something is known: instances for agents in different directories may differ.
const MAX_ENTRIES: usize = 64;

/// Shared by all instances of one server; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct EraCache(watch::Sender<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    /// As the server was run or reached.
    config: Arc<ServerConfig>,
    support: EraSupport,
}

impl EraCache {
    /// What is known of a server that is run or reached like this.
    pub(super) fn of(&self, config: &ServerConfig) -> EraSupport {
        let entries = self.0.borrow();
        let known = entries.iter().find(|entry| entry.config.launch == config.launch);
        known.map(|entry| entry.support.clone()).unwrap_or_default()
    }

    /// Adds what a handshake has found out.
    pub(super) fn learn(&self, config: &Arc<ServerConfig>, learned: &EraSupport) {
        let mut support = self.of(config);
        support.learn(learned);
        self.set(config, support);
    }

    /// The entry that was changed longest ago makes room.
    fn set(&self, config: &Arc<ServerConfig>, support: EraSupport) {
        self.0.send_modify(|entries| {
            entries.retain(|entry| entry.config.launch != config.launch);
            entries.truncate(MAX_ENTRIES - 1);
            entries.push_front(Entry { config: Arc::clone(config), support });
        });
    }

    /// Opening in `era` has failed: the server may be another than it was.
    pub(super) fn forget(&self, config: &Arc<ServerConfig>, era: Era) {
        let mut support = self.of(config);
        if support.expected() == Era::ALL.into_iter().collect() {
            support.set(era, Support::Failing);
        } else {
            support = EraSupport::default();
        }
        self.set(config, support);
    }
}

/// Whether a server has an instance for each of its eras, if it has both.
pub(super) fn has_instance_for_each_era(config: &ServerConfig) -> bool {
    let settings = &config.settings;
    is_remote(config) && settings.sharing == Sharing::Shared && settings.era == EraChoice::Auto
}

pub(super) fn is_remote(config: &ServerConfig) -> bool {
    matches!(config.launch, Ok(Launch::Remote(_)))
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
    fn what_is_known_holds_for_what_is_run_the_same_way() {
        let (cache, config) = (EraCache::default(), Arc::new(ServerConfig::new("a", "x")));
        cache.clone().learn(&config, &learned(Era::Legacy, Support::Confirmed));
        assert_eq!(cache.of(&ServerConfig::new("b", "x")).legacy, Support::Confirmed);
        assert_eq!(cache.of(&ServerConfig::new("a", "y")), EraSupport::default());
        cache.learn(&config, &learned(Era::Modern, Support::Confirmed));
        assert!(cache.of(&config).has_both());
        let other = Arc::new(ServerConfig::new("a", "y"));
        cache.learn(&other, &learned(Era::Legacy, Support::Absent));
        assert!(cache.of(&config).has_both(), "what is learned of another definition does not count");
        for number in 0..MAX_ENTRIES {
            let config = Arc::new(ServerConfig::new("a", format!("z{number}")));
            cache.learn(&config, &learned(Era::Legacy, Support::Confirmed));
        }
        assert_eq!(cache.0.borrow().len(), MAX_ENTRIES);
        assert_eq!(cache.of(&config), EraSupport::default());
    }

    #[test]
    fn an_inconclusive_failure_counts_the_second_time_in_a_row() {
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
    fn a_failed_opening_says_nothing_of_the_other_era_of_a_server_that_has_both() {
        use Support::{Absent, Confirmed, Failing, Unknown};
        for (other, legacy, modern) in [(Confirmed, Failing, Confirmed), (Absent, Unknown, Unknown)] {
            let (cache, config) = (EraCache::default(), Arc::new(ServerConfig::new("a", "x")));
            cache.learn(&config, &learned(Era::Legacy, Support::Confirmed));
            cache.learn(&config, &learned(Era::Modern, other));
            cache.forget(&config, Era::Legacy);
            let known = cache.of(&config);
            assert_eq!((known.legacy, known.modern), (legacy, modern));
        }
    }
}
