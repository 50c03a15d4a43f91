//! What is exposed after policy, and the route of each exposed name.
//!
//! One immutable [`Catalog`] is built for each agent socket. Lists and routes come from the same tables. So a name is callable on a
//! socket if and only if it is listed there, and a URI is readable if it is listed, belongs to a listed skill or matches a listed template.
//!
//! Pure: no I/O and no clock.

mod build;
mod list;
mod names;
mod overrides;
mod skills;
mod template;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

pub use self::list::{
    CacheHint, Identity, Item, List, Lists, estimate_tokens, identity, interface_in, is_same, offer_any, sent_bytes,
    tokens_of,
};
pub use self::names::Names;
pub use self::overrides::{OverrideDefect, override_defects};
pub use self::skills::visible_response;
use self::template::UriTemplate;
use crate::config::{CallLimit, Settings};
use crate::era::Era;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::Naming;
use crate::policy::{Hidden, Policy, Uri};
use crate::tool_overrides::{ToolOverride, ToolOverrides};

/// One server's part in a catalog.
#[derive(Debug)]
pub struct Source<'a> {
    /// Its configured name.
    pub name: &'a Arc<str>,
    /// Which of its items are exposed.
    pub policy: &'a Policy,
    /// Its settings, for the time limits of calls.
    pub settings: &'a Settings,
    /// What the configuration changes of its tools.
    pub overrides: &'a ToolOverrides,
    /// Its lists, as last received.
    pub lists: &'a Lists,
}

/// The server and name that an exposed name maps to.
#[derive(Debug, Clone)]
pub struct Route {
    /// Index of the server, in file order.
    pub server: usize,
    /// The server's own name, as raw JSON.
    pub raw_name: Bytes,
    /// The same, as text.
    pub name: Arc<str>,
    /// The time limit of one call.
    pub limit: CallLimit,
    /// Only legacy agents can call it ([`List::legacy_only`]).
    pub is_legacy_only: bool,
    /// Its results have structured content, by its output schema.
    pub has_output_schema: bool,
    /// What the configuration changes of the tool.
    pub tool_override: Option<Arc<ToolOverride>>,
}

impl Route {
    /// Whether agents of this era can use it.
    #[must_use]
    pub fn is_for(&self, era: Era) -> bool {
        era == Era::Legacy || !self.is_legacy_only
    }
}

/// Counts of one list of a server: what agents see, and what they do not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exposure {
    /// Listed.
    pub exposed: usize,
    /// Hidden by the rules of policy.
    pub denied: usize,
    /// Hidden because their definitions are not approved.
    pub withheld: usize,
    /// Not listed, because its name is too long or has invisible characters.
    pub unfit: usize,
    /// Not listed, because the URI belongs to another server.
    pub shadowed: usize,
    /// The estimated tokens of the listed definitions. Only for tools.
    pub tokens: usize,
}

/// A listed resource template.
#[derive(Debug)]
struct ListedTemplate {
    text: Arc<str>,
    template: UriTemplate,
    /// The index of its server.
    server: usize,
}

/// Everything that one agent socket exposes.
#[derive(Debug)]
pub struct Catalog {
    /// Routes of tools and prompts, by exposed name.
    routes: PerKind<BTreeMap<Bytes, Route>>,
    /// The server of each listed resource.
    resources: HashMap<Arc<str>, usize>,
    /// The server of each user interface that a listed tool names. Servers need not list these resources.
    interfaces: HashMap<Box<str>, usize>,
    templates: Vec<ListedTemplate>,
    /// The server of each listed skill, by the URI of the skill's directory.
    skills: HashMap<Box<str>, usize>,
    /// The policy of each server, for URIs that are not listed themselves.
    policies: Vec<Policy>,
    lists: PerKind<Bytes>,
    /// The list of tools for modern agents, if it differs.
    modern_tools: Option<Bytes>,
    versions: PerKind<u64>,
    cache_hints: PerKind<CacheHint>,
    exposure: Vec<PerKind<Exposure>>,
    /// Items that did not fit into their list, each with the index of its server.
    cut: PerKind<Vec<(usize, Arc<str>)>>,
    /// Tools whose name another tool of their server has, each with the index of its server.
    name_taken: Vec<(usize, Arc<str>)>,
}

/// Nothing is exposed.
impl Default for Catalog {
    fn default() -> Self {
        Self::build(&mut Names::default(), Naming::default(), &[], usize::MAX)
    }
}

impl Catalog {
    /// Builds the catalog of `sources`, which are in file order. Every list has the same order, and at most `max_list` bytes.
    #[must_use]
    pub fn build(names: &mut Names, naming: Naming, sources: &[Source<'_>], max_list: usize) -> Self {
        build::build(names, naming, sources, max_list)
    }

    /// The route of an exposed tool or prompt. `None` if the name is unknown or denied. Agents of one era may not use it
    /// ([`Route::is_for`]).
    #[must_use]
    pub fn route(&self, kind: ListKind, name: &[u8]) -> Option<&Route> {
        self.routes[kind].get(name)
    }

    /// Every exposed name of a kind with its route.
    pub fn routes(&self, kind: ListKind) -> impl Iterator<Item = (&str, &Route)> {
        self.routes[kind].iter().map(|(name, route)| (std::str::from_utf8(name).unwrap_or_default(), route))
    }

    /// The index of the server that a resource is read from. The server that lists it comes first, then the one with the
    /// skill that it belongs to, then one with a matching template, then one with a tool that names it as its UI resource. `None` if the URI is unknown or denied.
    #[must_use]
    pub fn server_of(&self, uri: &str) -> Option<usize> {
        let readings = Uri::new(uri);
        let of_template = |is_it: &dyn Fn(&UriTemplate) -> bool| {
            let found = self.templates.iter().filter(|listed| is_it(&listed.template));
            // Policy permitted the text of a template when it was listed.
            let mut permitted =
                found.filter(|listed| *listed.text == *uri || self.policies[listed.server].permits_uri(&readings));
            permitted.next().map(|listed| listed.server)
        };
        // A completion names a template itself. A template of another server may match it too.
        let parsed = uri.contains('{').then(|| UriTemplate::parse(uri));
        let listed = || parsed.as_ref().and_then(|parsed| of_template(&|template| template == parsed));
        let matching = || of_template(&|template| template.matches(uri));
        let named = || self.interfaces.get(uri).copied();
        let in_skill = || self.server_of_skill(uri);
        self.resources.get(uri).copied().or_else(in_skill).or_else(listed).or_else(matching).or_else(named)
    }

    /// The index of the server with the listed skill that a URI belongs to. `None` if there is none, or policy hides the URI.
    fn server_of_skill(&self, uri: &str) -> Option<usize> {
        let server = *skills::directories(uri).find_map(|directory| self.skills.get(directory))?;
        self.policies[server].permits(ListKind::Skills, uri, None).then_some(server)
    }

    /// The raw result of the method that lists `kind`.
    #[must_use]
    pub fn list(&self, kind: ListKind) -> &Bytes {
        &self.lists[kind]
    }

    /// Like [`Self::list`], for a modern agent: without tools that only legacy agents can call.
    #[must_use]
    pub fn modern_list(&self, kind: ListKind) -> &Bytes {
        self.modern_tools.as_ref().filter(|_| kind == ListKind::Tools).unwrap_or_else(|| self.list(kind))
    }

    /// A hash of the list of a kind. Equal bytes have equal versions in all catalogs.
    #[must_use]
    pub fn version(&self, kind: ListKind) -> u64 {
        self.versions[kind]
    }

    /// How long agents may cache the list of a kind.
    #[must_use]
    pub fn keep(&self, kind: ListKind) -> CacheHint {
        self.cache_hints[kind]
    }

    /// How many of a kind are listed.
    #[must_use]
    pub fn count(&self, kind: ListKind) -> usize {
        self.exposure.iter().map(|one| one[kind].exposed).sum()
    }

    /// The items of a kind that are not listed because the list would be too large, each with the index of its server.
    #[must_use]
    pub fn cut(&self, kind: ListKind) -> &[(usize, Arc<str>)] {
        &self.cut[kind]
    }

    /// The renamed tools that are not listed because another tool of their server has the name, each with the index of its server.
    #[must_use]
    pub fn name_taken(&self) -> &[(usize, Arc<str>)] {
        &self.name_taken
    }

    /// The counts of each server, in file order.
    #[must_use]
    pub fn exposure(&self) -> &[PerKind<Exposure>] {
        &self.exposure
    }
}

#[cfg(test)]
mod tests;

/// Whether a server offers an item, after policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is listed and permitted.
    Permitted,
    /// Policy would permit it, but it is not listed.
    NotListed,
    /// Policy hides it, or agents of the era cannot call it.
    Denied,
}

impl Offer {
    /// The offer of a tool or prompt to agents of this era. If a name is listed twice, policy must permit both definitions.
    #[must_use]
    pub fn of_name(policy: &Policy, kind: ListKind, list: &List, name: &str, era: Era) -> Self {
        let is_listed = list.items.iter().any(|item| *item.key == *name);
        match policy.verdict(kind, name, None) {
            _ if era == Era::Modern && list.legacy_only().contains(name) => Self::Denied,
            _ if is_listed && list.permits(kind, policy, name) => Self::Permitted,
            // Without its definition, a tool cannot be known to be read-only.
            Ok(()) | Err(Hidden::Writes { .. }) if !is_listed => Self::NotListed,
            _ => Self::Denied,
        }
    }

    /// The offer of a listed resource, of a URI that belongs to a skill or matches a template, or of a template.
    #[must_use]
    pub fn of_uri(policy: &Policy, lists: &Lists, uri: &str) -> Self {
        let templates: Vec<_> =
            lists[ListKind::Templates].items.iter().filter(|item| !item.validity.is_left_out()).collect();
        let permits = |template: &str| lists[ListKind::Templates].permits(ListKind::Templates, policy, template);
        // A completion can name a template itself.
        if templates.iter().any(|item| *item.key == *uri) {
            return if permits(uri) { Self::Permitted } else { Self::Denied };
        }
        if !policy.permits(ListKind::Resources, uri, None) {
            return Self::Denied;
        }
        let is_resource =
            lists[ListKind::Resources].items.iter().any(|item| *item.key == *uri && !item.validity.is_left_out());
        let has_template = |key: &str| UriTemplate::parse(key).matches(uri) && permits(key);
        let names_it = |tool: &&Item| tool.interface().is_some_and(|named| *named == *uri);
        let tools = &lists[ListKind::Tools];
        let is_interface = || {
            let mut tools =
                tools.items.iter().filter(names_it).filter(|tool| tools.permits(ListKind::Tools, policy, &tool.key));
            policy.permits_interface(uri) && tools.next().is_some()
        };
        let permits_skill = |uri: &str| policy.permits(ListKind::Skills, uri, None);
        let has_file = |skill: &str| skills::directories(uri).any(|directory| directory == skills::directory(skill));
        let skills = lists[ListKind::Skills].items.iter().filter(|item| !item.validity.is_left_out());
        let mut listed = skills.map(|item| &*item.key);
        let in_skill = permits_skill(uri) && listed.any(|skill| has_file(skill) && permits_skill(skill));
        let is_listed =
            is_resource || in_skill || templates.iter().any(|item| has_template(&item.key)) || is_interface();
        if is_listed { Self::Permitted } else { Self::NotListed }
    }
}
