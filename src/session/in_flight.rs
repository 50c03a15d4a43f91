//! An agent's calls at servers.

use bytes::Bytes;

use super::account::Account;
use crate::server::ServerHandle;
use crate::server::call::CallKey;

/// A call that is unanswered.
pub(super) struct InFlight {
    pub(super) key: CallKey,
    pub(super) server: ServerHandle,
    pub(super) account: Account,
}

/// All of one agent, by its own raw ids. There are at most [`crate::server::call::MAX_PER_SESSION`], mostly a few: a list
/// is searched faster than an id is hashed.
#[derive(Default)]
pub(super) struct Calls(Vec<(Bytes, InFlight)>);

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains_key(&self, id: &Bytes) -> bool {
        self.0.iter().any(|(own, _)| own == id)
    }

    pub(super) fn contains(&self, key: CallKey) -> bool {
        self.0.iter().any(|(_, call)| call.key == key)
    }

    /// Adds a call whose id no other has.
    pub(super) fn insert(&mut self, id: Bytes, call: InFlight) {
        self.0.push((id, call));
    }

    pub(super) fn remove(&mut self, id: &Bytes) -> Option<InFlight> {
        self.remove_where(|own, _| own == id)
    }

    /// Removes the call `key`, unless it was cancelled.
    pub(super) fn end(&mut self, key: CallKey) -> Option<InFlight> {
        self.remove_where(|_, call| call.key == key)
    }

    pub(super) fn drain(&mut self) -> Vec<InFlight> {
        self.0.drain(..).map(|(_, call)| call).collect()
    }

    fn remove_where(&mut self, is_it: impl Fn(&Bytes, &InFlight) -> bool) -> Option<InFlight> {
        let index = self.0.iter().position(|(id, call)| is_it(id, call))?;
        Some(self.0.swap_remove(index).1)
    }
}
