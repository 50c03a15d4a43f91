//! Which era a server was found to speak in: it is asked once, not at every start.
//!
//! What it has said holds. That it died when it was asked, or broke the connection, and then opened as legacy servers do, may
//! be chance: only where that happens twice one after the other it is held for one that takes the question so.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions".

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::ServerConfig;
use crate::era::Era;

/// What was found, over all instances of one server; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict(watch::Sender<Option<Found>>);

#[derive(Debug)]
struct Found {
    /// As it was run, or reached.
    config: Arc<ServerConfig>,
    /// `None` if it seemed to be a legacy one, once.
    era: Option<Era>,
}

impl Verdict {
    /// What was found of a server that is run or reached like this, if anything.
    pub(super) fn of(&self, config: &ServerConfig) -> Option<Era> {
        self.found_of(config)?
    }

    fn found_of(&self, config: &ServerConfig) -> Option<Option<Era>> {
        self.0.borrow().as_ref().filter(|found| found.config.launch == config.launch).map(|found| found.era)
    }

    /// It speaks in this era.
    pub(super) fn found(&self, config: &Arc<ServerConfig>, era: Era) {
        self.0.send_replace(Some(Found { config: Arc::clone(config), era: Some(era) }));
    }

    /// It speaks in the legacy one, by how it took the question rather than by what it said.
    pub(super) fn seems_legacy(&self, config: &Arc<ServerConfig>) {
        let was_so_before = matches!(self.found_of(config), Some(None | Some(Era::Legacy)));
        let era = was_so_before.then_some(Era::Legacy);
        self.0.send_replace(Some(Found { config: Arc::clone(config), era }));
    }

    /// It seems to be another than it was.
    pub(super) fn forget(&self) {
        self.0.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_holds_for_what_is_run_the_same_way() {
        let (verdict, config) = (Verdict::default(), Arc::new(ServerConfig::new("a", "x")));
        assert_eq!(verdict.of(&config), None);
        verdict.clone().found(&config, Era::Legacy);
        assert_eq!(verdict.of(&ServerConfig::new("b", "x")), Some(Era::Legacy));
        assert_eq!(verdict.of(&ServerConfig::new("a", "y")), None);
        verdict.forget();
        assert_eq!(verdict.of(&config), None);
    }

    #[test]
    fn what_was_not_said_holds_the_second_time() {
        let (verdict, config) = (Verdict::default(), Arc::new(ServerConfig::new("a", "x")));
        let other = Arc::new(ServerConfig::new("a", "y"));
        for (config, expected) in [
            (&config, None),
            (&other, None),
            (&config, None),
            (&config, Some(Era::Legacy)),
            (&config, Some(Era::Legacy)),
        ] {
            verdict.seems_legacy(config);
            assert_eq!(verdict.of(config), expected);
        }
        verdict.forget();
        verdict.seems_legacy(&config);
        assert_eq!(verdict.of(&config), None);
        verdict.found(&config, Era::Modern);
        assert_eq!(verdict.of(&config), Some(Era::Modern));
        verdict.seems_legacy(&config);
        assert_eq!(verdict.of(&config), None);
    }
}
