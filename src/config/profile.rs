//! Profiles: what agents see on one socket, as servers, rules and naming, and what they may use together, as quotas.
//!
//! A profile only narrows: it never exposes an item that the server's own policy hides.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use globset::{Glob, GlobMatcher};

use super::ServerConfig;
use super::keys::{Key, count, size};
use super::settings::MAX_MESSAGE;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::{Naming, is_server_name};
use crate::policy::Policy;

/// Maximum number of `[profiles.NAME]` tables. Each has a socket and its own lists in memory.
pub const MAX_PROFILES: usize = 100;
/// The user id of all unmapped users, such as those of other user namespaces (user_namespaces(7)).
pub(super) const UNKNOWN_USER: u32 = 65_534;

/// One agent socket and what it exposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `default`, or the name in `[profiles.NAME]`.
    pub name: Arc<str>,
    /// The servers of the profile. `None` for all.
    pub servers: Option<BTreeSet<Arc<str>>>,
    /// What it hides in addition to the servers' policies.
    pub narrowing: Narrowing,
    /// The naming of tools and prompts.
    pub naming: Naming,
    /// Users who may connect, in addition to the user who runs mcpd.
    pub allow_uids: BTreeSet<u32>,
    /// The directories below which these users may choose one for a server.
    pub workspace_roots: Arc<[PathBuf]>,
    /// The directories whose agents use this profile unless they name one, as written.
    pub directories: Arc<[PathBuf]>,
    /// What its agents may use together.
    pub quotas: Quotas,
    /// The loopback address where it is served over HTTP, besides its socket.
    pub http: Option<SocketAddr>,
    /// The origins whose pages may send requests over HTTP.
    pub http_origins: Arc<[String]>,
}

/// What a profile hides. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Narrowing {
    /// Resource rules also apply to resource templates.
    pub(super) rules: PerKind<ScopedRules>,
    /// What is exposed. `None` for everything.
    pub(super) expose: Option<ExposeList>,
    /// Only tools annotated as read-only are exposed.
    pub(super) read_only: bool,
}

/// The patterns of one kind. `deny` wins over `allow`.
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
    /// The default profile without a table, which hides nothing.
    #[must_use]
    pub fn whole(naming: Naming) -> Self {
        let name = Arc::from(Self::DEFAULT);
        Self {
            name,
            servers: None,
            narrowing: Narrowing::default(),
            naming,
            allow_uids: BTreeSet::new(),
            workspace_roots: Arc::default(),
            directories: Arc::default(),
            quotas: Quotas::default(),
            http: None,
            http_origins: Arc::default(),
        }
    }

    /// The name of the default profile, which always exists.
    pub const DEFAULT: &str = "default";

    /// The policy of `server` in this profile. `None` if the server is not in it.
    #[must_use]
    pub fn policy(&self, server: &ServerConfig) -> Option<Policy> {
        if self.servers.as_ref().is_some_and(|servers| !servers.contains(&server.name)) {
            return None;
        }
        // The patterns were compiled together when they were read, so a part of them compiles too. Otherwise nothing would be exposed.
        let narrowing = self.narrowing.of(&server.name).ok()?.with_table(&format!("profiles.{}", self.name));
        Some(server.policy.clone().and(&narrowing))
    }

    /// `server` with its policy in this profile. `None` if it is not in the profile.
    pub(crate) fn seen(&self, server: &Arc<ServerConfig>) -> Option<Arc<ServerConfig>> {
        if self.is_whole() {
            return Some(Arc::clone(server));
        }
        let policy = self.policy(server)?;
        Some(Arc::new(ServerConfig { policy, ..(**server).clone() }))
    }

    /// Whether the profile hides nothing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.servers.is_none() && self.narrowing == Narrowing::default()
    }
}

impl Narrowing {
    /// The rules as a policy of one server.
    fn of(&self, server: &str) -> Result<Policy, globset::Error> {
        let mut policy = Policy::default().read_only(self.read_only);
        if let Some(exposed) = &self.expose {
            policy = exposed.narrow(policy);
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
    /// Whether the patterns are small enough to be compiled together.
    pub(super) fn compile(&self, kind: ListKind) -> Result<(), globset::Error> {
        let keys = |patterns: &[ScopedPattern]| patterns.iter().map(|pattern| pattern.key.clone()).collect::<Vec<_>>();
        Policy::default().with(kind, self.allow.as_deref().map(keys).as_deref(), &keys(&self.deny)).map(drop)
    }
}

impl ScopedPattern {
    pub(super) fn new(server: &Glob, key: Glob) -> Self {
        Self { server: server.compile_matcher(), key }
    }

    /// The globs on the server's name and on its items.
    pub(super) fn globs(&self) -> (&Glob, &Glob) {
        (self.server.glob(), &self.key)
    }

    /// The source text.
    pub(super) fn source(&self) -> String {
        format!("{}/{}", self.server.glob(), self.key.glob())
    }
}

impl PartialEq for ScopedPattern {
    fn eq(&self, other: &Self) -> bool {
        self.server.glob() == other.server.glob() && self.key == other.key
    }
}

/// Why a profile cannot have this name, if it cannot: the socket `NAME.sock` is taken.
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

/// Connections of a guest: several agents, each with some servers of its own.
const GUEST_CONNECTIONS: usize = 64;
/// Buffers of a guest, in buffer units.
const GUEST_BUFFERS: usize = 4;

/// The quotas of the agents of a profile, or of one guest. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Agents connected at a time. Only guests have this limit.
    pub max_agents: Option<usize>,
    /// Calls in flight.
    pub max_calls: Option<usize>,
    /// Calls per second. A burst of this size is permitted.
    pub rate: Option<usize>,
    /// Bytes that mcpd holds: unread responses, incomplete lines, and requests without a response. Only guests have this limit.
    pub max_bytes: Option<usize>,
    /// Maximum size of one message, in bytes.
    pub max_message: Option<usize>,
}

impl Quotas {
    /// The keys of `[profiles.NAME]`.
    pub(super) const KEYS: &[Key<Self>] = &[
        Key {
            name: "max_calls",
            doc: "Maximum number of calls of this profile that are in flight. A further call is refused.",
            rule: count(1..=65_536).example("16"),
            field: |quotas| &mut quotas.max_calls,
        },
        Key {
            name: "rate",
            doc: "Maximum number of calls of this profile per second. After a pause, as many may come at once. A further call is refused.",
            rule: count(1..=1_000_000).example("50"),
            field: |quotas| &mut quotas.rate,
        },
        Key {
            name: "max_message",
            doc: "Maximum size of one message from or to an agent of this profile, instead of `max_message` of `[daemon]`. Its lists \
                  are cut to fit.",
            rule: size(MAX_MESSAGE).example("\"64MiB\""),
            field: |quotas| &mut quotas.max_message,
        },
    ];

    /// The default quotas of one guest.
    #[must_use]
    pub fn of_guest(buffer_unit: usize) -> Self {
        Self {
            max_agents: Some(GUEST_CONNECTIONS),
            max_calls: Some(64),
            rate: Some(100),
            max_message: None,
            max_bytes: Some(buffer_unit.saturating_mul(GUEST_BUFFERS)),
        }
    }

    /// These quotas without those that `other` sets.
    #[must_use]
    pub fn without(self, other: &Self) -> Self {
        let only = |quota: Option<usize>, other: Option<usize>| quota.filter(|_| other.is_none());
        Self { max_calls: only(self.max_calls, other.max_calls), rate: only(self.rate, other.rate), ..self }
    }
}

/// The value of `expose`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ExposeList {
    pub(super) kinds: Vec<ListKind>,
    /// The ids of extensions.
    pub(super) extensions: Vec<Arc<str>>,
}

impl ExposeList {
    /// `policy` with everything else hidden.
    pub(super) fn narrow(&self, policy: Policy) -> Policy {
        policy.exposing(&self.kinds).exposing_extensions(&self.extensions)
    }
}

#[cfg(test)]
mod tests;
