//! Which exposed name a tool or prompt gets.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::kind::{Kind, PerKind};
use crate::naming::{Naming, Scheme};

/// The bare names given out so far: one, once given, never leads anywhere else. The other schemes need no memory, since
/// there a name is a function of the server's and the tool's.
#[derive(Debug, Default)]
pub struct Names {
    bare: PerKind<HashMap<Bytes, Owner>>,
}

/// The server, and its own name for what is exposed under another.
type Owner = (Arc<str>, Arc<str>);

/// Most bare names remembered. A server that keeps inventing tools gets prefixed names from there on.
const MAX_BARE: usize = 50_000;

impl Names {
    /// The first candidate that is free or this one's own; none, if each is another's, which takes a forged hash.
    pub(super) fn assign(&mut self, kind: Kind, naming: &Naming, server: &Arc<str>, own: &Arc<str>) -> Option<Bytes> {
        let bare = &mut self.bare[kind];
        let mut last = None;
        for name in naming.candidates(server, own).map(Bytes::from) {
            if naming.scheme != Scheme::Bare {
                return Some(name);
            }
            match bare.get(&name) {
                Some((owner, owned)) if owner == server && owned == own => return Some(name),
                Some(_) => last = Some(name),
                None if bare.len() >= MAX_BARE => last = Some(name),
                None => {
                    bare.insert(name.clone(), (Arc::clone(server), Arc::clone(own)));
                    return Some(name);
                }
            }
        }
        last.filter(|name| !bare.contains_key(name))
    }
}
