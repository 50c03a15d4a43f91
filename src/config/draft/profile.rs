//! A profile as one file asks for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::profile::{Narrowing, Profile, Scoped, ScopedRules};
use super::super::sourced::{Sourced, or_unset, values};
use super::NamingDraft;
use crate::kind::{Kind, PerKind};
use crate::naming::Naming;

/// One profile of one file.
#[derive(Debug)]
pub(in crate::config) struct ProfileDraft {
    pub(in crate::config) name: Sourced<Arc<str>>,
    pub(in crate::config) servers: Option<Sourced<Vec<Sourced<Arc<str>>>>>,
    pub(in crate::config) rules: PerKind<ScopedDraft>,
    pub(in crate::config) expose: Option<Sourced<Vec<Kind>>>,
    pub(in crate::config) read_only: Option<Sourced<bool>>,
    pub(in crate::config) naming: NamingDraft,
    pub(in crate::config) allow_uids: Option<Sourced<BTreeSet<u32>>>,
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(in crate::config) struct ScopedDraft {
    pub(in crate::config) allow: Option<Sourced<Vec<Sourced<Scoped>>>>,
    pub(in crate::config) deny: Option<Sourced<Vec<Sourced<Scoped>>>>,
}

impl ScopedDraft {
    pub(in crate::config) fn settle(&self) -> ScopedRules {
        let all = |patterns: &Sourced<Vec<Sourced<Scoped>>>| values(&patterns.value);
        ScopedRules { allow: self.allow.as_ref().map(all), deny: self.deny.as_ref().map(all).unwrap_or_default() }
    }
}

impl ProfileDraft {
    /// With what all profiles have that say nothing else.
    pub(in crate::config) fn settle(&self, naming: &Naming) -> Profile {
        let servers = self.servers.as_ref().map(|servers| values(&servers.value).into_iter().collect());
        let narrowing = Narrowing {
            rules: PerKind::from_fn(|kind| self.rules[kind].settle()),
            expose: self.expose.as_ref().map(|kinds| kinds.value.clone()),
            read_only: or_unset(self.read_only.as_ref(), false),
        };
        let allow_uids = or_unset(self.allow_uids.as_ref(), BTreeSet::new());
        Profile {
            name: Arc::clone(&self.name.value),
            servers,
            narrowing,
            naming: self.naming.settle(naming),
            allow_uids,
        }
    }
}
