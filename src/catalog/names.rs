//! Which exposed name a tool or prompt gets.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::{Naming, Scheme};

/// The names given out so far that have to be remembered: one, once given, never leads anywhere else. Of the schemes only that of
/// bare names needs a memory, since in the others a name is a function of the server's and the tool's; all do, once the scheme
/// has changed.
#[derive(Debug, Default, Clone)]
pub struct Names {
    given: PerKind<HashMap<Bytes, Owner>>,
    /// The scheme has changed.
    mixed: bool,
}

/// The server, and its own name for what is exposed under another.
type Owner = (Arc<str>, Arc<str>);

/// Most names remembered. A server that cache_hints inventing tools gets prefixed names from there on.
const MAX_NAMES: usize = 50_000;

impl Names {
    /// The first candidate that is free or this one's own; none, if each is another's, which takes a forged hash.
    pub(super) fn assign(
        &mut self,
        kind: ListKind,
        naming: &Naming,
        server: &Arc<str>,
        own: &Arc<str>,
    ) -> Option<Bytes> {
        let given = &mut self.given[kind];
        let mut last = None;
        for name in naming.candidates(server, own).map(Bytes::from) {
            if naming.scheme != Scheme::Bare && !self.mixed {
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

    /// Before the scheme changes: has every name that `catalog` lists lead where it leads, or nowhere. `server` tells the name of
    /// each of its servers.
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
