//! What outlives one task of a server, and is shared with the task that replaces it: output on stderr, interned lists, supported eras,
//! counters.

#![expect(
    clippy::disallowed_types,
    reason = "the tasks of several instances share the interner, and no lock is held across an await"
)]

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::era_cache::EraCache;
use super::stats::Stats;
use super::stderr;
use crate::catalog::List;
use crate::durations::Durations;
use crate::list_kind::{ListKind, PerKind};
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
    /// The state of a new server. `output` keeps what it writes to stderr, `durations` counts how long its requests take.
    #[must_use]
    pub fn new(server: Arc<str>, output: ServerOutput, durations: Durations) -> Self {
        Self {
            stderr: stderr::Writer::new(server, output),
            interner: ListInterner::default(),
            eras: EraCache::default(),
            stats: Arc::new(Stats::new(durations)),
        }
    }

    /// What its tasks count.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// Lists of a kind that a new one is compared with: the newest ones. A list that equals an older one is stored again.
const MAX_COMPARED: usize = 64;

/// Keeps equal lists of a server's instances once in memory, by kind: the key of an item depends on the kind. Cheap to clone.
///
/// A thousand instances that offer the same then take the memory of one list, and catalogs compare lists by pointer.
#[derive(Debug, Clone, Default)]
pub(super) struct ListInterner(Arc<Mutex<PerKind<Vec<Weak<List>>>>>);

impl ListInterner {
    /// Returns the stored list that equals `list`. Without one, stores and returns `list`.
    pub(super) fn intern(&self, kind: ListKind, list: Arc<List>) -> Arc<List> {
        let mut interned = list;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = &mut all[kind];
        lists.retain(|other| match other.upgrade() {
            Some(other) if other == interned => {
                interned = other;
                false
            }
            other => other.is_some(),
        });
        lists.drain(..(lists.len() + 1).saturating_sub(MAX_COMPARED));
        lists.push(Arc::downgrade(&interned));
        interned
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::catalog::Item;
    use crate::pins::Fingerprint;
    use crate::validity::Validity;

    fn list(name: &str, truncated: bool) -> Arc<List> {
        let json = Bytes::from(format!("{{\"name\":{name:?}}}"));
        let item = Item {
            key: name.into(),
            raw_key: json.slice(8..json.len() - 1),
            json,
            model_bytes: 0,
            validity: Validity::default(),
            fingerprint: Fingerprint::default(),
        };
        Arc::new(List { items: vec![item], truncated, ..List::default() })
    }

    #[test]
    fn equal_lists_are_one_as_long_as_it_is_in_use() {
        let interner = ListInterner::default();
        let intern = |list| interner.clone().intern(ListKind::Tools, list);
        let first = intern(list("a", false));
        assert!(Arc::ptr_eq(&intern(list("a", false)), &first));
        assert!(!Arc::ptr_eq(&intern(list("a", true)), &first), "a truncated list differs");
        let as_prompt = interner.intern(ListKind::Prompts, list("a", false));
        assert!(!Arc::ptr_eq(&as_prompt, &first), "kinds are separate");
        let forgotten = Arc::downgrade(&intern(list("b", false)));
        assert!(forgotten.upgrade().is_none());
        for n in 0..2 * MAX_COMPARED {
            drop(intern(list(&n.to_string(), false)));
        }
        assert!(Arc::ptr_eq(&intern(list("a", false)), &first), "unused lists take no place");
        let others: Vec<_> = (1..MAX_COMPARED).map(|n| intern(list(&n.to_string(), false))).collect();
        assert!(Arc::ptr_eq(&intern(list("a", false)), &first) && others.len() + 1 == MAX_COMPARED);
        let one_more = intern(list("one more", false));
        assert!(Arc::ptr_eq(&intern(list("a", false)), &first), "it is newer than the others");
        assert!(!Arc::ptr_eq(&intern(list("1", false)), &others[0]) && one_more.items.len() == 1);
        assert_eq!(interner.0.lock().expect("a lock")[ListKind::Tools].len(), MAX_COMPARED);
    }
}
