//! The definitions that a server offers, in all its instances.

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::{List, Lists, is_same};
use crate::list_kind::{ListKind, PerKind};
use crate::pins::{Definition, Digest, Fingerprint, PinnedKind};
use crate::policy::{INSTRUCTIONS_KEY, instructions_json};
use crate::server::{ServerIdentity, ServerSnapshot};

/// Different lists, and different instructions, of one server that are compared. More are not reported; under `hold` they are withheld all the
/// same.
const MAX_VARIANTS: usize = 64;

/// What a server offers.
#[derive(Debug, Default)]
pub(super) struct Offered {
    lists: Vec<Lists>,
    identities: Vec<Arc<ServerIdentity>>,
    /// A running instance has listed completely.
    is_complete: bool,
    /// The lists that could not be fetched.
    failed: PerKind<bool>,
}

/// One definition.
#[derive(Debug)]
pub(super) struct OfferedDefinition<'a> {
    pub(super) kind: PinnedKind,
    /// `None` for instructions.
    pub(super) list: Option<ListKind>,
    pub(super) key: Arc<str>,
    pub(super) json: Bytes,
    fingerprint: &'a Fingerprint,
}

impl OfferedDefinition<'_> {
    pub(super) fn definition(&self) -> Definition<'_> {
        Definition::new(&self.json, self.fingerprint)
    }

    pub(super) fn digest(&self) -> Digest {
        self.definition().digest()
    }
}

impl Offered {
    pub(super) fn of(published: &ServerSnapshot) -> Self {
        let mut lists = vec![published.lists.clone()];
        let others = published.instance_lists.iter().filter(|one| !is_same(one, &published.lists));
        lists.extend(others.take(MAX_VARIANTS - 1).cloned());
        let identities = published.identities.iter().chain(published.agent_identities.values()).cloned();
        Self {
            lists,
            identities: identities.collect(),
            is_complete: published.lists_complete,
            failed: PerKind::from_fn(|kind| published.list_errors[kind].is_some()),
        }
    }

    /// Whether both are the same values, without comparing their contents.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let are_same_lists = || self.lists.iter().zip(&other.lists).all(|(one, other)| is_same(one, other));
        let mut identities = self.identities.iter().zip(&other.identities);
        (self.lists.len(), self.identities.len()) == (other.lists.len(), other.identities.len())
            && (self.is_complete, self.failed) == (other.is_complete, other.failed)
            && are_same_lists()
            && identities.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Whether a running instance has listed all that it has.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether a list could not be fetched.
    pub(super) fn has_failed(&self, kind: ListKind) -> bool {
        self.failed[kind]
    }

    /// All definitions. Equal ones of several instances may come several times.
    pub(super) fn definitions(&self) -> impl Iterator<Item = OfferedDefinition<'_>> {
        let lists = ListKind::ALL.into_iter().filter_map(|list| Some((list, PinnedKind::of(list)?)));
        let items = lists.flat_map(|(list, kind)| {
            let items = self.variants(list).flat_map(|variant| &variant.items);
            items.map(move |item| OfferedDefinition {
                kind,
                list: Some(list),
                key: Arc::clone(&item.key),
                json: item.json.clone(),
                fingerprint: &item.fingerprint,
            })
        });
        let key: Arc<str> = INSTRUCTIONS_KEY.into();
        let instructions = self.instructions().into_iter().map(move |(text, fingerprint)| OfferedDefinition {
            kind: PinnedKind::Instructions,
            list: None,
            key: Arc::clone(&key),
            json: instructions_json(text),
            fingerprint,
        });
        items.chain(instructions)
    }

    /// The different lists of a kind.
    fn variants(&self, kind: ListKind) -> impl Iterator<Item = &List> {
        let is_new =
            move |at: usize, list: &Arc<List>| !self.lists[..at].iter().any(|before| Arc::ptr_eq(&before[kind], list));
        let lists = self.lists.iter().map(move |lists| &lists[kind]).enumerate();
        lists.filter(move |(at, list)| is_new(*at, list)).map(|(_, list)| &**list)
    }

    fn instructions(&self) -> Vec<(&str, &Fingerprint)> {
        let mut different: Vec<(&str, &Fingerprint)> = Vec::new();
        for identity in &self.identities {
            if let Some(text) = &identity.instructions
                && different.len() < MAX_VARIANTS
                && !different.iter().any(|(other, _)| **other == **text)
            {
                different.push((text, &identity.fingerprint));
            }
        }
        different
    }
}
