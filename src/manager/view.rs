//! What is seen of the servers at one moment: by agents of a profile, by one of them, or by the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::enablement::Enablement;
use crate::catalog::{Catalog, Lists, Names, Offer, Source, is_same};
use crate::config::{Profile, ServerConfig};
use crate::naming::{Naming, Scheme};
use crate::server::messages::call::{Exposure, Target};
use crate::server::{HealthOverride, ServerHandle};

/// What agents of one profile see, or some of them, at one moment; or all there is, but for what servers' own policies hide.
#[derive(Debug)]
pub struct View {
    /// What is exposed.
    pub catalog: Catalog,
    /// The servers its routes lead to, by index.
    pub servers: Vec<Member>,
    /// How what it exposes is named.
    pub naming: Naming,
    /// What each server offers is known, if only from memory, or will not be soon: its first start attempt has ended, or
    /// `first_list_wait` has passed.
    pub settled: bool,
    /// No other view has the same.
    version: u64,
}

/// A profile, and what its agents see.
#[derive(Debug, Clone)]
pub(crate) struct ServedProfile {
    pub(crate) profile: Arc<Profile>,
    pub(crate) view: watch::Receiver<Arc<View>>,
}

/// One server of a manager.
#[derive(Debug, Clone)]
pub struct Member {
    /// The way to it.
    pub handle: ServerHandle,
    /// As it is to be run; its policy is what is seen here.
    pub config: Arc<ServerConfig>,
    /// Whether it is there for agents at all.
    pub enablement: Enablement,
    /// What it offers those who see this, as last listed; nothing, if it is not there for agents.
    pub lists: Lists,
    /// What a person says of how it is.
    pub health_override: HealthOverride,
    /// Why it is run as it was before it was changed last, if the change failed.
    pub refused: Option<Arc<str>>,
}

impl View {
    /// One that has nothing yet.
    pub(super) fn empty(naming: Naming) -> Self {
        Self::of(Catalog::default(), Vec::new(), naming, false)
    }

    /// What `servers` offer. A bare name belongs to the first of them, so none is given before all had their chance.
    pub(super) fn new(names: &mut Names, naming: Naming, servers: Vec<Member>, settled: bool) -> Self {
        let may_name = naming.scheme != Scheme::Bare || settled;
        let sources: Vec<_> = servers.iter().map(source).collect();
        let catalog = if may_name { Catalog::build(names, &naming, &sources) } else { Catalog::default() };
        Self::of(catalog, servers, naming, settled)
    }

    fn of(catalog: Catalog, servers: Vec<Member>, naming: Naming, settled: bool) -> Self {
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        Self { catalog, servers, naming, settled, version: VERSIONS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Tells this view from every other one.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The servers that may still list what has this name, or, without one, anything.
    pub(crate) fn may_still_list(&self, name: Option<&[u8]>) -> impl Iterator<Item = &Member> {
        let may_be_of = move |member: &Member| name.is_none_or(|name| self.naming.may_be_of(&member.config.name, name));
        let is_it = move |member: &&Member| member.enablement == Enablement::Enabled && may_be_of(member);
        self.servers.iter().filter(is_it).filter(|member| member.may_list_more())
    }

    /// Whether `target` of `server` is exposed here. `lists` is what the server lists now, which may be newer than what this view
    /// was built from.
    pub(crate) fn exposure(&self, server: &str, target: &Target, lists: Option<&Lists>) -> Exposure {
        let is_it = |member: &Member| *member.config.name == *server && member.enablement == Enablement::Enabled;
        let Some(index) = self.servers.iter().position(is_it) else { return Exposure::Hidden };
        let member = &self.servers[index];
        let policy = &member.config.policy;
        let now = lists.unwrap_or(&member.lists);
        let (leads_here, offer) = match target {
            Target::Named { kind, exposed, name } => {
                let route = self.catalog.route(*kind, exposed);
                let leads_here = route.map(|route| route.server == index && route.name == *name);
                (leads_here, Offer::of_name(policy, *kind, &now[*kind], name))
            }
            Target::Uri(uri) => {
                let Ok(uri) = std::str::from_utf8(uri) else { return Exposure::Hidden };
                let leads_here = self.catalog.server_of(uri).map(|owner| owner == index);
                (leads_here, Offer::of_uri(policy, now, uri))
            }
        };
        match (leads_here, offer) {
            (Some(false), _) | (_, Offer::Denied) => Exposure::Hidden,
            (_, Offer::NotListed) => Exposure::NotListed,
            (Some(true), Offer::Permitted) => Exposure::Exposed,
            // Built from the same lists, the catalog would have it.
            (None, Offer::Permitted) if is_same(now, &member.lists) => Exposure::Hidden,
            (None, Offer::Permitted) => Exposure::Exposed,
        }
    }
}

fn source(Member { config, lists, .. }: &Member) -> Source<'_> {
    Source { name: &config.name, policy: &config.policy, settings: &config.settings, lists }
}

impl Member {
    /// Whether the server may list more than is seen here: it has not listed yet, or has, and this is not up to date.
    fn may_list_more(&self) -> bool {
        let published = self.handle.published();
        let is_seen = |lists: &Lists| is_same(lists, &self.lists);
        let is_outdated = !is_seen(&published.lists) && !published.agent_lists.values().any(is_seen);
        !self.handle.has_ended() && (published.may_list_more() || is_outdated)
    }

    /// Whether a view has of this what it has of the other.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let Self { handle, config, enablement, health_override, lists, refused } = self;
        handle.is_same(&other.handle)
            && Arc::ptr_eq(config, &other.config)
            && (*enablement, *health_override, refused) == (other.enablement, other.health_override, &other.refused)
            && is_same(lists, &other.lists)
    }
}

/// Has the names of a view lead where they lead, or nowhere, under whatever naming.
pub(super) fn keep_names(names: &mut Names, view: &View) {
    names.keep(&view.catalog, |server| Arc::clone(&view.servers[server].config.name));
}
