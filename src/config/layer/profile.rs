//! The profiles of one file.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::Quotas;
use super::super::daemon::NAMING_KEYS;
use super::super::diagnostic::{Spanned, or_default, values};
use super::super::keys::KeyLayer;
use super::super::profile::{Narrowing, Profile, ScopedPattern, ScopedRules};
use super::ExposeList;
use crate::list_kind::PerKind;
use crate::naming::Naming;

/// One profile of one file.
#[derive(Debug)]
pub(in crate::config) struct ProfileLayer {
    pub(in crate::config) name: Spanned<Arc<str>>,
    pub(in crate::config) servers: Option<Spanned<Vec<Spanned<Arc<str>>>>>,
    pub(in crate::config) rules: PerKind<ScopedRulesLayer>,
    pub(in crate::config) expose: Option<Spanned<ExposeList>>,
    pub(in crate::config) read_only: Option<Spanned<bool>>,
    pub(in crate::config) naming: KeyLayer,
    pub(in crate::config) allow_uids: Option<Spanned<BTreeSet<u32>>>,
    pub(in crate::config) workspace_roots: Option<Spanned<Vec<PathBuf>>>,
    pub(in crate::config) quotas: KeyLayer,
    pub(in crate::config) http: Option<Spanned<SocketAddr>>,
    pub(in crate::config) http_origins: Option<Spanned<Vec<String>>>,
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(in crate::config) struct ScopedRulesLayer {
    pub(in crate::config) allow: Option<Spanned<Vec<Spanned<ScopedPattern>>>>,
    pub(in crate::config) deny: Option<Spanned<Vec<Spanned<ScopedPattern>>>>,
}

impl ScopedRulesLayer {
    pub(in crate::config) fn resolve(&self) -> ScopedRules {
        let all = |patterns: &Spanned<Vec<Spanned<ScopedPattern>>>| values(&patterns.value);
        ScopedRules { allow: self.allow.as_ref().map(all), deny: self.deny.as_ref().map(all).unwrap_or_default() }
    }
}

impl ProfileLayer {
    /// The profile, with the given naming for unset keys.
    pub(in crate::config) fn resolve(&self, naming: Naming) -> Profile {
        let servers = self.servers.as_ref().map(|servers| values(&servers.value).into_iter().collect());
        let narrowing = Narrowing {
            rules: PerKind::from_fn(|kind| self.rules[kind].resolve()),
            expose: self.expose.as_ref().map(|exposed| exposed.value.clone()),
            read_only: or_default(self.read_only.as_ref(), false),
        };
        let roots = self.workspace_roots.as_ref().map_or(&[][..], |roots| &roots.value);
        // An agent states its directory without links.
        let real = roots.iter().filter_map(|root| std::fs::canonicalize(root).ok().filter(|real| real != root));
        let allow_uids = or_default(self.allow_uids.as_ref(), BTreeSet::new());
        Profile {
            name: Arc::clone(&self.name.value),
            servers,
            narrowing,
            naming: self.naming.apply(NAMING_KEYS, naming),
            allow_uids,
            workspace_roots: roots.iter().cloned().chain(real).collect(),
            quotas: self.quotas.apply(Quotas::KEYS, Quotas::default()),
            http: self.http.as_ref().map(|address| address.value),
            http_origins: self.http_origins.as_ref().map(|origins| origins.value.clone()).unwrap_or_default().into(),
        }
    }
}
