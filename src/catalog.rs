//! What is exposed after policy, and where each exposed name leads.
//!
//! Pure. Knows tool lists, policy and naming. One [`Catalog`] is built for each agent socket and never changed: a name
//! is callable on that socket if and only if it is listed in it, because both answers come from the same table.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::jsonrpc::splice::{Edit, splice_into};
use crate::naming::Naming;
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
    routes: HashMap<Bytes, Route>,
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
        let mut routes = HashMap::new();
        let mut list = BytesMut::from(&br#"{"tools":["#[..]);
        let mut exposure = vec![Exposure::default(); sources.len()];
        for (server, source) in sources.iter().enumerate() {
            for tool in source.tools {
                let name = names.assign(naming, source.name, &tool.name);
                if !source.policy.permits(&tool.name) {
                    exposure[server].denied += 1;
                    continue;
                }
                let route = Route { server, raw_name: tool.raw_name.clone(), tool: Arc::clone(&tool.name) };
                // A server that lists one name twice: the first stands, as it does for the server's own callers.
                if routes.insert(name.clone(), route).is_none() {
                    if exposure.iter().any(|e| e.exposed > 0) {
                        list.put_u8(b',');
                    }
                    exposure[server].exposed += 1;
                    rename(&mut list, tool, &name);
                }
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

/// The names given out so far: a name, once given, never leads anywhere else.
#[derive(Debug, Default)]
pub struct Names {
    given: HashMap<(Arc<str>, Arc<str>), Bytes>,
    taken: HashMap<Bytes, (Arc<str>, Arc<str>)>,
}

impl Names {
    fn assign(&mut self, naming: &Naming, server: &Arc<str>, tool: &Arc<str>) -> Bytes {
        let owner = (Arc::clone(server), Arc::clone(tool));
        if let Some(name) = self.given.get(&owner) {
            return name.clone();
        }
        let name = self.first_free(naming, server, tool);
        self.taken.insert(name.clone(), owner.clone());
        self.given.insert(owner, name.clone());
        name
    }

    fn first_free(&self, naming: &Naming, server: &str, tool: &str) -> Bytes {
        let mut candidates = naming.candidates(server, tool).map(Bytes::from);
        let free = candidates.find(|name| !self.taken.contains_key(name));
        // Only a forged hash gets here; a number in its place keeps the two tools apart all the same.
        free.unwrap_or_else(|| {
            let last = naming.candidates(server, tool).last().unwrap_or_default();
            let numbered = (2_u32..).map(|n| Bytes::from(format!("{}{n:06}", &last[..last.len() - 6])));
            numbered.into_iter().find(|name| !self.taken.contains_key(name)).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests;
