//! Assigns exposed names to tools and prompts.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::Naming;

/// The names assigned so far. An assigned name never maps to another tool.
///
/// Only bare names are remembered: in the other schemes a name is a function of the server and the tool. After a change of the scheme,
/// all names are remembered.
#[derive(Debug, Default, Clone)]
pub struct Names {
    given: PerKind<HashMap<Bytes, QualifiedName>>,
    /// The scheme has changed at least once.
    mixed: bool,
}

/// Whether the names that begin as `name` does belong to another one of `servers`.
fn is_reserved(name: &[u8], server: &str, servers: &[&str]) -> bool {
    let is_of = |server: &str| Naming::Prefixed.may_be_of(server, name);
    servers.iter().any(|other| *other != server && is_of(other)) && !is_of(server)
}

/// A server and the name of an item on that server.
type QualifiedName = (Arc<str>, Arc<str>);

/// Maximum number of remembered names. Beyond it, new tools get prefixed names.
const MAX_NAMES: usize = 50_000;

impl Names {
    /// The first candidate that is free or already assigned to this item, and is not reserved. `None` only if a server forged the hash of
    /// the last one.
    ///
    /// The names that begin with the name of a server and `__` are reserved for that server, one of `servers`, so that no other server
    /// can have its place in an agent's permissions. `own` is the server's own name of the item, `shown` the one that it gets in its place.
    pub(super) fn assign(
        &mut self,
        kind: ListKind,
        naming: Naming,
        server: &Arc<str>,
        (own, shown): (&Arc<str>, &str),
        servers: &[&str],
    ) -> Option<Bytes> {
        let given = &mut self.given[kind];
        let mut last = None;
        let is_bare = naming == Naming::Bare;
        for (index, name) in naming.candidates(server, shown).map(Bytes::from).enumerate() {
            if is_bare && index == 0 && is_reserved(&name, server, servers) {
                continue;
            }
            if naming != Naming::Bare && !self.mixed {
                return Some(name);
            }
            match given.get(&name) {
                Some((owner, owned)) if owner == server && owned == own => return Some(name),
                Some(_) => last = Some(name),
                None if given.len() >= MAX_NAMES => last = Some(name),
                None => {
                    given.insert(name.clone(), (Arc::clone(server), Arc::clone(own)));
                    return Some(name);
                }
            }
        }
        last.filter(|name| !given.contains_key(name))
    }

    /// Remembers every name that `catalog` lists, before the scheme changes. `server` returns the name of a server by its index.
    pub fn keep(&mut self, catalog: &Catalog, server: impl Fn(usize) -> Arc<str>) {
        self.mixed = true;
        for (kind, routes) in catalog.routes.iter() {
            for (name, route) in routes {
                let given = &mut self.given[kind];
                if given.len() < MAX_NAMES {
                    given.entry(name.clone()).or_insert_with(|| (server(route.server), Arc::clone(&route.name)));
                }
            }
        }
    }
}
