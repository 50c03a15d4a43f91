//! What outlives one task of a server, and is shared with the task that replaces it: output on stderr, interned lists, supported eras,
//! counters.

use std::sync::Arc;

use super::era_cache::EraCache;
use super::list_interner::ListInterner;
use super::stats::Stats;
use super::stderr;
use crate::logging::ServerOutput;

/// The state of a server that passes from one task to the task that replaces it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedState {
    pub(super) stderr: stderr::Writer,
    pub(super) interner: ListInterner,
    pub(super) eras: EraCache,
    pub(super) stats: Arc<Stats>,
}

impl SharedState {
    /// The state of a new server. `output` keeps what it writes to stderr.
    #[must_use]
    pub fn new(server: Arc<str>, output: ServerOutput) -> Self {
        Self {
            stderr: stderr::Writer::new(server, output),
            interner: ListInterner::default(),
            eras: EraCache::default(),
            stats: Arc::default(),
        }
    }

    /// What its tasks count.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
