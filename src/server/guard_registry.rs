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
}

impl GuardRegistry {
    /// Records a guard before its server is started.
    pub(super) fn record(&self, pid: u32, config: Arc<ServerConfig>) -> GuardEntry {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, config);
        GuardEntry { guards: Arc::clone(&self.0), pid }
    }

    /// The server below the guard `pid`.
    pub(crate) fn server_below(&self, pid: u32) -> Option<Arc<ServerConfig>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&pid).cloned()
    }
}

impl Drop for GuardEntry {
    fn drop(&mut self) {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}
