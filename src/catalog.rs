//! What is exposed after policy, and where each exposed name leads.
//!
//! Pure. Knows tool lists, policy, naming, and how long calls may take. One [`Catalog`] is built for each agent socket
//! and never changed: a name is callable on that socket if and only if it is listed in it, because both answers come from
//! the same table.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::config::{CallLimit, Settings};
use crate::jsonrpc::splice::{Edit, splice_into};
use crate::naming::{Naming, Scheme};
use crate::policy::Policy;

/// A tool as its server described it.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The server's own name for it.
    pub name: Arc<str>,
    /// That name as the server spelled it in JSON: a slice of `definition`.
    pub raw_name: Bytes,
    /// The whole tool object, raw.
    pub definition: Bytes,
}

/// One server's part in a catalog.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its configured name.
    pub name: &'a Arc<str>,
    /// What of it is exposed.
    pub policy: &'a Policy,
    /// How it is kept: how long its calls may take.
    pub settings: &'a Settings,
    /// Its tools in its own order; empty while none are known.
    pub tools: &'a [Tool],
}

/// Where an exposed name leads.
#[derive(Debug, Clone)]
pub struct Route {
    /// Index of the server, in file order.
    pub server: usize,
    /// The server's own name for the tool, as raw JSON.
    pub raw_name: Bytes,
    /// The same, as text.
    pub tool: Arc<str>,
    /// How long a call of it may take.
    pub limit: CallLimit,
}

/// How many of a server's tools agents see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exposure {
    /// Listed and callable.
    pub exposed: usize,
    /// Hidden by policy.
    pub denied: usize,
}

/// The deny-filtered aggregate of all servers.
#[derive(Debug)]
pub struct Catalog {
    routes: BTreeMap<Bytes, Route>,
    list: Bytes,
    exposure: Vec<Exposure>,
}

/// Nothing is exposed.
impl Default for Catalog {
    fn default() -> Self {
        Self::build(&mut Names::default(), &Naming::default(), &[])
    }
}

impl Catalog {
    /// The catalog of `sources`, which come in file order; that is also the order of the list.
    pub fn build(names: &mut Names, naming: &Naming, sources: &[Source<'_>]) -> Self {
        let mut routes = BTreeMap::new();
        let mut list = BytesMut::from(&br#"{"tools":["#[..]);
        let mut exposure = vec![Exposure::default(); sources.len()];
        for (server, source) in sources.iter().enumerate() {
            for tool in source.tools {
                let Some(name) = names.assign(naming, source.name, &tool.name) else { continue };
                if !source.policy.permits(&tool.name) {
                    exposure[server].denied += 1;
                    continue;
                }
                let limit = source.settings.call_limit(&tool.name);
                let route = Route { server, raw_name: tool.raw_name.clone(), tool: Arc::clone(&tool.name), limit };
                // Of one name that is listed twice the first stands, in the list as in the table.
                let Entry::Vacant(vacant) = routes.entry(name) else { continue };
                if list.last() == Some(&b'}') {
                    list.put_u8(b',');
                }
                exposure[server].exposed += 1;
                rename(&mut list, tool, vacant.key());
                vacant.insert(route);
            }
        }
        list.put_slice(b"]}");
        Self { routes, list: list.freeze(), exposure }
    }

    /// Where the exposed name `name` leads; `None` for an unknown and for a denied one alike.
    #[must_use]
    pub fn route(&self, name: &[u8]) -> Option<&Route> {
        self.routes.get(name)
    }

    /// The raw result of `tools/list`.
    #[must_use]
    pub fn list(&self) -> &Bytes {
        &self.list
    }

    /// Counts for each server, in file order.
    #[must_use]
    pub fn exposure(&self) -> &[Exposure] {
        &self.exposure
    }

    /// How many tools are listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

/// An exposed name consists of characters that need no escape in JSON.
fn rename(list: &mut BytesMut, tool: &Tool, name: &Bytes) {
    let quoted = [b"\"", &name[..], b"\""].concat();
    splice_into(list, &tool.definition, &mut [Edit { part: &tool.raw_name, replacement: &quoted }]);
}

/// The bare names given out so far: one, once given, never leads anywhere else. The other schemes need no memory, since
/// there a name is a function of the server's and the tool's.
#[derive(Debug, Default)]
pub struct Names {
    bare: HashMap<Bytes, (Arc<str>, Arc<str>)>,
}

/// Most bare names remembered. A server that keeps inventing tools gets prefixed names from there on.
const MAX_BARE: usize = 50_000;

impl Names {
    /// The first candidate that is free or this tool's own; none, if each is another's, which takes a forged hash.
    fn assign(&mut self, naming: &Naming, server: &Arc<str>, tool: &Arc<str>) -> Option<Bytes> {
        let mut last = None;
        for name in naming.candidates(server, tool).map(Bytes::from) {
            if naming.scheme != Scheme::Bare {
                return Some(name);
            }
            match self.bare.get(&name) {
                Some((owner, owned)) if owner == server && owned == tool => return Some(name),
                Some(_) => last = Some(name),
                None if self.bare.len() >= MAX_BARE => last = Some(name),
                None => {
                    self.bare.insert(name.clone(), (Arc::clone(server), Arc::clone(tool)));
                    return Some(name);
                }
            }
        }
        last.filter(|name| !self.bare.contains_key(name))
    }
}

#[cfg(test)]
mod tests;
