//! The guards of all servers, to find the server that a process belongs to.

#![expect(clippy::disallowed_types, reason = "server tasks register guards, and the daemon looks them up")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ServerConfig;

type Guards = Arc<Mutex<BTreeMap<u32, Arc<ServerConfig>>>>;

/// Guard processes and the servers below them.
#[derive(Debug, Clone, Default)]
pub struct GuardRegistry(Guards);

/// The entry of a guard. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct GuardEntry {
    guards: Guards,
    pid: u32,
    config: Arc<ServerConfig>,
}

impl GuardRegistry {
    /// Records a guard before its server is started.
    pub(super) fn record(&self, pid: u32, config: Arc<ServerConfig>) -> GuardEntry {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, Arc::clone(&config));
        GuardEntry { guards: Arc::clone(&self.0), pid, config }
    }

    /// The server below the guard `pid`.
    pub(crate) fn server_below(&self, pid: u32) -> Option<Arc<ServerConfig>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&pid).cloned()
    }
}

impl Drop for GuardEntry {
    fn drop(&mut self) {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        // Another guard may have this id by now.
        if guards.get(&self.pid).is_some_and(|config| Arc::ptr_eq(config, &self.config)) {
            guards.remove(&self.pid);
        }
    }
}
