//! The modern sessions by their agents.
//!
//! Modern requests name no session, and clients spread them over several connections. Servers distinguish agents, though. So an agent is
//! one process, with the directory that its requests state. Its session ends with the last connection that has used it. If one process
//! has several clients, ids of their requests may collide: a request goes to the first session where its id is free.

#![expect(clippy::disallowed_types, reason = "all connections look agents up; nothing waits while they are locked")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::caller::{Caller, Origin};
use super::hub::{Hub, PostError, Reader};
use crate::session::AgentMessage;

/// A session, while connections use it.
#[derive(Debug)]
struct Entry {
    caller: Caller,
    hub: Arc<Hub>,
    /// How many connections use it.
    connections: usize,
}

/// The modern sessions of all listeners. A clone has the same sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Agents(Arc<Mutex<HashMap<Origin, Vec<Entry>>>>);

/// The use of a session by a connection. The session ends with its last use.
#[derive(Debug)]
struct Lease {
    agents: Agents,
    origin: Origin,
    hub: Arc<Hub>,
}

/// The sessions that one connection uses.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<Vec<Lease>>);

/// The hub of a session that the daemon has to open.
pub(super) type NewHub = Option<Arc<Hub>>;

impl Agents {
    fn entries(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a message to a session of its caller, for a connection with these leases. `None` if it is about no request that runs, and
    /// so means nothing.
    ///
    /// # Errors
    /// If the session is ending.
    pub(super) fn post(
        &self,
        caller: &Caller,
        leases: &Leases,
        message: AgentMessage,
        line: Bytes,
    ) -> Result<Option<(Reader, NewHub)>, PostError> {
        let (mut all, mut leases) = (self.entries(), leases.all());
        let entries = all.entry(caller.origin).or_default();
        let may_serve = |Entry { caller: Caller { owner, directory, .. }, hub, .. }: &&mut Entry| {
            let is_callers = *owner == caller.owner && (*directory == caller.directory || caller.directory.is_none());
            is_callers && hub.accepts(&message)
        };
        let (hub, new) = match entries.iter_mut().find(may_serve) {
            Some(entry) => {
                let hub = Arc::clone(&entry.hub);
                if leases.iter().any(|lease| Arc::ptr_eq(&lease.hub, &hub)) {
                    return hub.post(message, line).map(|reader| Some((reader, None)));
                }
                entry.connections += 1;
                (hub, None)
            }
            None if caller.directory.is_none() => {
                if entries.is_empty() {
                    all.remove(&caller.origin);
                }
                return Ok(None);
            }
            None => {
                let hub = Hub::new(false);
                entries.push(Entry { caller: caller.clone(), hub: Arc::clone(&hub), connections: 1 });
                (Arc::clone(&hub), Some(hub))
            }
        };
        leases.push(Lease { agents: self.clone(), origin: caller.origin, hub: Arc::clone(&hub) });
        hub.post(message, line).map(|reader| Some((reader, new)))
    }
}

impl Leases {
    fn all(&self) -> MutexGuard<'_, Vec<Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut all = self.agents.entries();
        let Some(entries) = all.get_mut(&self.origin) else { return };
        let Some(at) = entries.iter().position(|entry| Arc::ptr_eq(&entry.hub, &self.hub)) else { return };
        entries[at].connections -= 1;
        if entries[at].connections == 0 {
            entries.swap_remove(at).hub.close();
        }
        if entries.is_empty() {
            all.remove(&self.origin);
        }
    }
}
