//! What is exposed after policy, and where each exposed name leads.
//!
//! Pure. Knows lists, policy, naming, and how long calls may take. One [`Catalog`] is built for each agent socket and never
//! changed: what can be asked for on that socket is what it lists, or a URI of a template it lists, because both answers come
//! from the same tables.

mod build;
mod cache_hint;
mod list;
mod names;
mod offer;
mod template;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

pub use self::cache_hint::CacheHint;
pub use self::list::{Identity, Item, List, Lists, identity, is_same, offer_any};
pub use self::names::Names;
pub use self::offer::Offer;
use self::template::Template;
use crate::config::{CallLimit, Settings};
use crate::list_kind::{ListKind, PerKind};
use crate::naming::Naming;
use crate::policy::{Policy, Uri};

/// One server's part in a catalog.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its configured name.
    pub name: &'a Arc<str>,
    /// What of it is exposed.
    pub policy: &'a Policy,
    /// How it is kept: how long its calls may take.
    pub settings: &'a Settings,
    /// What it lists, as last known.
    pub lists: &'a Lists,
}

/// Where an exposed name leads.
#[derive(Debug, Clone)]
pub struct Route {
    /// Index of the server, in file order.
    pub server: usize,
    /// The server's own name, as raw JSON.
    pub raw_name: Bytes,
    /// The same, as text.
    pub name: Arc<str>,
    /// How long a call of it may take.
    pub limit: CallLimit,
}

/// How much of one of a server's lists agents see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exposure {
    /// Listed.
    pub exposed: usize,
    /// Hidden by policy.
    pub denied: usize,
    /// Not listed, because of a name that is not fit to be shown.
    pub unfit: usize,
    /// Not listed, because a server before it has the same URI.
    pub shadowed: usize,
    /// What those listed cost an agent, in estimated tokens; of tools only.
    pub tokens: usize,
}

/// A template that is listed.
#[derive(Debug)]
struct ListedTemplate {
    text: Arc<str>,
    template: Template,
    /// The index of its server.
    server: usize,
    /// Which of the URIs that match it are exposed.
    policy: Policy,
}

/// The deny-filtered aggregate of all servers.
#[derive(Debug)]
pub struct Catalog {
    /// Of tools and prompts, by exposed name.
    routes: PerKind<BTreeMap<Bytes, Route>>,
    /// The server of each resource that is listed.
    resources: HashMap<Arc<str>, usize>,
    /// What else can be read.
    templates: Vec<ListedTemplate>,
    lists: PerKind<Bytes>,
    /// That of tools for who may ask for tasks, where that is another.
    tools_for_tasks: Option<Bytes>,
    versions: PerKind<u64>,
    cache_hints: PerKind<CacheHint>,
    exposure: Vec<PerKind<Exposure>>,
}

/// Nothing is exposed.
impl Default for Catalog {
    fn default() -> Self {
        Self::build(&mut Names::default(), &Naming::default(), &[])
    }
}

impl Catalog {
    /// The catalog of `sources`, which come in file order; that is also the order of every list.
    #[must_use]
    pub fn build(names: &mut Names, naming: &Naming, sources: &[Source<'_>]) -> Self {
        build::build(names, naming, sources)
    }

    /// Where the exposed name of a tool or prompt leads; `None` for an unknown and for a denied one alike.
    #[must_use]
    pub fn route(&self, kind: ListKind, name: &[u8]) -> Option<&Route> {
        self.routes[kind].get(name)
    }

    /// Every exposed name of a kind, and where it leads.
    pub fn routes(&self, kind: ListKind) -> impl Iterator<Item = (&str, &Route)> {
        // It consists of characters that a name may have.
        self.routes[kind].iter().map(|(name, route)| (std::str::from_utf8(name).unwrap_or_default(), route))
    }

    /// The server, by its index, that a resource is read from: the one that lists it, else the first with a template that
    /// it matches. `None` for an unknown and for a denied one alike.
    #[must_use]
    pub fn server_of(&self, uri: &str) -> Option<usize> {
        let readings = Uri::new(uri);
        let of_template = |is_it: &dyn Fn(&Template) -> bool| {
            let found = self.templates.iter().filter(|listed| is_it(&listed.template));
            // Policy has permitted the text of a template before it was listed.
            let mut permitted = found.filter(|listed| *listed.text == *uri || listed.policy.permits_uri(&readings));
            permitted.next().map(|listed| listed.server)
        };
        // A completion is for a template itself, which one of another server may match as well.
        let parsed = uri.contains('{').then(|| Template::parse(uri));
        let listed = || parsed.as_ref().and_then(|parsed| of_template(&|template| template == parsed));
        let matching = || of_template(&|template| template.matches(uri));
        self.resources.get(uri).copied().or_else(listed).or_else(matching)
    }

    /// The raw result of the method that lists `kind`.
    #[must_use]
    pub fn list(&self, kind: ListKind) -> &Bytes {
        &self.lists[kind]
    }

    /// The same for an agent of the legacy era that may ask for tasks: its tools say whether they make some, which those of servers of the
    /// modern era do not.
    ///
    /// Source: MCP 2025-11-25, `basic/utilities/tasks`, "Tool-Level Negotiation".
    #[must_use]
    pub fn list_for_tasks(&self, kind: ListKind) -> &Bytes {
        self.tools_for_tasks.as_ref().filter(|_| kind == ListKind::Tools).unwrap_or_else(|| self.list(kind))
    }

    /// Tells one list of a kind from another, whatever catalogs they are in: the same for the same bytes, whoever
    /// is shown them.
    #[must_use]
    pub fn version(&self, kind: ListKind) -> u64 {
        self.versions[kind]
    }

    /// How long the list of a kind may be kept by agents.
    #[must_use]
    pub fn keep(&self, kind: ListKind) -> CacheHint {
        self.cache_hints[kind]
    }

    /// How many of a kind are listed.
    #[must_use]
    pub fn count(&self, kind: ListKind) -> usize {
        self.exposure.iter().map(|one| one[kind].exposed).sum()
    }

    /// Counts for each server, in file order.
    #[must_use]
    pub fn exposure(&self) -> &[PerKind<Exposure>] {
        &self.exposure
    }
}

#[cfg(test)]
mod tests;
