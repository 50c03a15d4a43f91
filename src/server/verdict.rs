//! Which era a server was found to speak in: it is asked once, not at every start.
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
    era: Era,
}

impl Verdict {
    /// What was found of a server that is run or reached like this, if anything.
    pub(super) fn of(&self, config: &ServerConfig) -> Option<Era> {
        self.0.borrow().as_ref().filter(|found| found.config.launch == config.launch).map(|found| found.era)
    }

    /// It speaks in this era.
    pub(super) fn found(&self, config: &Arc<ServerConfig>, era: Era) {
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
}
