//! What a server lists, as it came.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::CacheHint;
use crate::list_kind::{ListKind, PerKind};
use crate::policy::{Hidden, Policy};

/// Something that is listed, as its server described it.
#[derive(Debug, Clone)]
pub struct Item {
    /// The server's own name for it, or its URI.
    pub key: Arc<str>,
    /// That as the server spelled it in JSON: a slice of `definition`.
    pub raw_key: Bytes,
    /// The whole object, raw.
    pub definition: Bytes,
    /// Bytes that clients pass on to a model of a tool beside its name ([`crate::tokens`]); 0 of other things.
    pub passed_on: usize,
}

/// Of things of one kind: there the rest follows from the definition.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition
    }
}

impl Eq for Item {}

/// One of a server's lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// In the server's own order.
    pub items: Vec<Item>,
    /// The list was cut at a limit, or at a cursor that came again.
    pub truncated: bool,
    /// How long it may be kept, if the server says that.
    pub keep: Option<CacheHint>,
    /// Of tools: their server makes tasks of calls as it sees fit, and says so for all of them at once.
    pub makes_tasks: bool,
}

impl List {
    /// What policy hides, by key, and why. A key that is listed several times is hidden if any of its definitions is,
    /// because only the server knows which definition a call would reach.
    pub(crate) fn hidden<'a>(&'a self, kind: ListKind, policy: &'a Policy) -> HashMap<&'a str, Hidden<'a>> {
        let mut hidden = HashMap::new();
        for item in &self.items {
            if let Err(why) = policy.verdict(kind, &item.key, Some(&item.definition)) {
                hidden.entry(&*item.key).or_insert(why);
            }
        }
        hidden
    }

    /// Whether policy permits every definition of `key`. One that is not listed is judged by its key alone.
    pub(crate) fn permits(&self, kind: ListKind, policy: &Policy, key: &str) -> bool {
        let mut definitions =
            self.items.iter().filter(|item| *item.key == *key).map(|item| &item.definition).peekable();
        if definitions.peek().is_none() {
            return policy.permits(kind, key, None);
        }
        definitions.all(|definition| policy.permits(kind, key, Some(definition)))
    }

    /// How long an aggregate may be kept for its sake; `None` if there is nothing in it of which anything could be said.
    pub(super) fn keep(&self) -> Option<CacheHint> {
        self.keep.or_else(|| (!self.items.is_empty()).then(CacheHint::default))
    }
}

/// All of a server's lists, as last known.
pub type Lists = PerKind<Arc<List>>;

/// Whether anything is in them.
#[must_use]
pub fn offer_any(lists: &Lists) -> bool {
    lists.iter().any(|(_, list)| !list.items.is_empty())
}

/// What is kept once: no two lists that are there at the same time have the same.
pub type Identity = PerKind<usize>;

/// Tells lists apart without a look into them. All that are empty are one.
#[must_use]
pub fn identity(lists: &Lists) -> Identity {
    PerKind::from_fn(|kind| match &lists[kind] {
        list if list.items.is_empty() && !list.truncated => 0,
        list => Arc::as_ptr(list).addr(),
    })
}

/// Whether both are the same lists, kept once.
#[must_use]
pub fn is_same(one: &Lists, other: &Lists) -> bool {
    identity(one) == identity(other)
}
