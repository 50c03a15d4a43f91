//! What agents see that come by one socket: some of the servers, and of those what policy leaves, under names of its own.
//!
//! A profile only narrows: what a server's own policy hides, no profile shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{Glob, GlobMatcher};

use super::ServerConfig;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::{Naming, is_server_name};
use crate::policy::Policy;

/// Most `[profiles.NAME]` tables. Each has a socket, and lists that are built and kept for it.
pub const MAX_PROFILES: usize = 100;
/// The user id that stands for all that are unknown here, as those of other user namespaces are (user_namespaces(7)).
pub(super) const UNKNOWN_USER: u32 = 65_534;

/// One agent socket, and what is seen there.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `default`, or as in `[profiles.NAME]`.
    pub name: Arc<str>,
    /// The only ones it has; `None`: all.
    pub servers: Option<BTreeSet<Arc<str>>>,
    /// What of them is hidden beyond their own policy.
    pub narrowing: Narrowing,
    /// How tools and prompts are named.
    pub naming: Naming,
    /// Users who may connect, beside the one whom mcpd runs as.
    pub allow_uids: BTreeSet<u32>,
}

/// What a profile hides. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowing {
    /// Those of resources are those of templates.
    pub(super) rules: PerKind<ScopedRules>,
    /// The only kinds that are exposed; `None`: all.
    pub(super) expose: Option<Vec<ListKind>>,
    /// Only tools that are annotated as reading only.
    pub(super) read_only: bool,
}

/// `allow` narrows first; `deny` wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ScopedRules {
    pub(super) allow: Option<Vec<ScopedPattern>>,
    pub(super) deny: Vec<ScopedPattern>,
}

/// A pattern of the form `server/tool`.
#[derive(Debug, Clone)]
pub(super) struct ScopedPattern {
    server: GlobMatcher,
    key: Glob,
}

impl Profile {
    /// The one that is always there, while it hides nothing.
    #[must_use]
    pub fn whole(naming: Naming) -> Self {
        let name = Arc::from(Self::DEFAULT);
        Self { name, servers: None, narrowing: Narrowing::default(), naming, allow_uids: BTreeSet::new() }
    }

    /// The name of the profile that is always there.
    pub const DEFAULT: &str = "default";

    /// What of `server` is seen in it; `None` if the server is not in it at all.
    #[must_use]
    pub fn policy(&self, server: &ServerConfig) -> Option<Policy> {
        if self.servers.as_ref().is_some_and(|servers| !servers.contains(&server.name)) {
            return None;
        }
        // Patterns that fit together when they were read fit in any part. If they did not, nothing would be shown.
        let narrowing = self.narrowing.of(&server.name).ok()?.with_table(&format!("profiles.{}", self.name));
        Some(server.policy.clone().and(&narrowing))
    }

    /// `server` with what of it is seen; `None` if it is not in the profile.
    pub(crate) fn seen(&self, server: &Arc<ServerConfig>) -> Option<Arc<ServerConfig>> {
        if self.is_whole() {
            return Some(Arc::clone(server));
        }
        let policy = self.policy(server)?;
        Some(Arc::new(ServerConfig { policy, ..(**server).clone() }))
    }

    /// Whether agents see all that servers' own policies leave.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.servers.is_none() && self.narrowing == Narrowing::default()
    }
}

impl Narrowing {
    /// As a policy of one server.
    fn of(&self, server: &str) -> Result<Policy, globset::Error> {
        let mut policy = Policy::default().read_only(self.read_only);
        if let Some(kinds) = &self.expose {
            policy = policy.exposing(kinds);
        }
        let keys = |patterns: &[ScopedPattern]| -> Vec<Glob> {
            let of_server = patterns.iter().filter(|pattern| pattern.server.is_match(server));
            of_server.map(|pattern| pattern.key.clone()).collect()
        };
        for kind in ListKind::ALL {
            let ScopedRules { allow, deny } = &self.rules[kind];
            if allow.is_some() || !deny.is_empty() {
                policy = policy.with(kind, allow.as_deref().map(keys).as_deref(), &keys(deny))?;
            }
        }
        Ok(policy)
    }
}

impl ScopedRules {
    /// Whether they can be compiled together, which is a matter of their size.
    pub(super) fn compile(&self, kind: ListKind) -> Result<(), globset::Error> {
        let keys = |patterns: &[ScopedPattern]| patterns.iter().map(|pattern| pattern.key.clone()).collect::<Vec<_>>();
        Policy::default().with(kind, self.allow.as_deref().map(keys).as_deref(), &keys(&self.deny)).map(drop)
    }
}

impl ScopedPattern {
    pub(super) fn new(server: &Glob, key: Glob) -> Self {
        Self { server: server.compile_matcher(), key }
    }

    /// That on the server's name, and that on what it offers.
    pub(super) fn globs(&self) -> (&Glob, &Glob) {
        (self.server.glob(), &self.key)
    }

    /// As it is written.
    pub(super) fn source(&self) -> String {
        format!("{}/{}", self.server.glob(), self.key.glob())
    }
}

impl PartialEq for ScopedPattern {
    fn eq(&self, other: &Self) -> bool {
        self.server.glob() == other.server.glob() && self.key == other.key
    }
}

/// Why a profile cannot have this name, if it cannot: its socket is `NAME.sock`.
#[must_use]
pub(super) fn profile_name_taken(name: &str) -> Option<&'static str> {
    match name {
        "mcp" => Some("`mcp.sock` is the socket of the profile `default`"),
        "admin" => Some("`admin.sock` is the operator's"),
        _ => None,
    }
}

/// Whether `name` may name a profile.
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    is_server_name(name) && profile_name_taken(name).is_none()
}

#[cfg(test)]
mod tests;
