//! A profile as one file asks for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::profile::{Narrowing, Profile, Scoped, ScopedRules};
use super::super::spanned::{Spanned, or_default, values};
use super::NamingLayer;
use crate::kind::{Kind, PerKind};
use crate::naming::Naming;

/// One profile of one file.
#[derive(Debug)]
pub(in crate::config) struct ProfileLayer {
    pub(in crate::config) name: Spanned<Arc<str>>,
    pub(in crate::config) servers: Option<Spanned<Vec<Spanned<Arc<str>>>>>,
    pub(in crate::config) rules: PerKind<ScopedRulesLayer>,
    pub(in crate::config) expose: Option<Spanned<Vec<Kind>>>,
    pub(in crate::config) read_only: Option<Spanned<bool>>,
    pub(in crate::config) naming: NamingLayer,
    pub(in crate::config) allow_uids: Option<Spanned<BTreeSet<u32>>>,
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(in crate::config) struct ScopedRulesLayer {
    pub(in crate::config) allow: Option<Spanned<Vec<Spanned<Scoped>>>>,
    pub(in crate::config) deny: Option<Spanned<Vec<Spanned<Scoped>>>>,
}

impl ScopedRulesLayer {
    pub(in crate::config) fn settle(&self) -> ScopedRules {
        let all = |patterns: &Spanned<Vec<Spanned<Scoped>>>| values(&patterns.value);
        ScopedRules { allow: self.allow.as_ref().map(all), deny: self.deny.as_ref().map(all).unwrap_or_default() }
    }
}

impl ProfileLayer {
    /// With what all profiles have that say nothing else.
    pub(in crate::config) fn settle(&self, naming: &Naming) -> Profile {
        let servers = self.servers.as_ref().map(|servers| values(&servers.value).into_iter().collect());
        let narrowing = Narrowing {
            rules: PerKind::from_fn(|kind| self.rules[kind].settle()),
            expose: self.expose.as_ref().map(|kinds| kinds.value.clone()),
            read_only: or_default(self.read_only.as_ref(), false),
        };
        let allow_uids = or_default(self.allow_uids.as_ref(), BTreeSet::new());
        Profile {
            name: Arc::clone(&self.name.value),
            servers,
            narrowing,
            naming: self.naming.settle(naming),
            allow_uids,
        }
    }
}
