//! An agent's calls at servers.

use bytes::Bytes;

use super::account::Account;
use super::stated_tasks::MayTell;
use crate::server::ServerHandle;
use crate::server::messages::call::CallKey;

/// A call that is unanswered.
pub(super) struct InFlight {
    pub(super) key: CallKey,
    pub(super) server: ServerHandle,
    pub(super) account: Account,
    pub(super) may_tell: Option<MayTell>,
}

/// All of one agent, by its own raw ids. There are at most [`crate::server::messages::call::MAX_PER_SESSION`], mostly a few: a list
/// is searched faster than an id is hashed.
#[derive(Default)]
pub(super) struct Calls {
    by_id: Vec<(Bytes, InFlight)>,
    /// What the agent sent for them.
    bytes: usize,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn contains_key(&self, id: &Bytes) -> bool {
        self.by_id.iter().any(|(own, _)| own == id)
    }

    pub(super) fn contains(&self, key: CallKey) -> bool {
        self.by_id.iter().any(|(_, call)| call.key == key)
    }

    /// The bytes of their requests.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call whose id no other has.
    pub(super) fn insert(&mut self, id: Bytes, call: InFlight) {
        self.bytes += call.account.request_bytes();
        self.by_id.push((id, call));
    }

    pub(super) fn remove(&mut self, id: &Bytes) -> Option<InFlight> {
        Some(self.remove_where(|own, _| own == id)?.1)
    }

    /// Removes the call `key`, with its id, unless it was cancelled.
    pub(super) fn end(&mut self, key: CallKey) -> Option<(Bytes, InFlight)> {
        self.remove_where(|_, call| call.key == key)
    }

    /// Removes all, each with its id.
    pub(super) fn drain(&mut self) -> Vec<(Bytes, InFlight)> {
        self.bytes = 0;
        std::mem::take(&mut self.by_id)
    }

    fn remove_where(&mut self, is_it: impl Fn(&Bytes, &InFlight) -> bool) -> Option<(Bytes, InFlight)> {
        let index = self.by_id.iter().position(|(id, call)| is_it(id, call))?;
        let (id, call) = self.by_id.swap_remove(index);
        self.bytes -= call.account.request_bytes();
        Some((id, call))
    }
}
