//! The exposure rules of one table.

use std::sync::Arc;

use globset::Glob;

use super::super::diagnostic::{Spanned, values};
use crate::list_kind::{ListKind, PerKind};
use crate::policy::Policy;

/// The exposure rules of one table for a server.
#[derive(Debug, Default)]
pub(in crate::config) struct Exposure {
    /// All rules as a policy.
    pub(in crate::config) policy: Policy,
    pub(in crate::config) expose: Option<Spanned<ExposeList>>,
    pub(in crate::config) read_only: Option<Spanned<bool>>,
    /// Resource rules also apply to resource templates.
    pub(in crate::config) patterns: PerKind<Patterns>,
}

/// The value of `expose`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::config) struct ExposeList {
    pub(in crate::config) kinds: Vec<ListKind>,
    /// The ids of extensions.
    pub(in crate::config) extensions: Vec<Arc<str>>,
}

impl ExposeList {
    /// `policy` with everything else hidden.
    pub(in crate::config) fn narrow(&self, policy: Policy) -> Policy {
        policy.exposing(&self.kinds).exposing_extensions(&self.extensions)
    }
}

/// `allow` and `deny` of one kind.
#[derive(Debug, Default)]
pub(in crate::config) struct Patterns {
    pub(in crate::config) allow: Option<Spanned<Vec<Spanned<Glob>>>>,
    pub(in crate::config) deny: Vec<Spanned<Glob>>,
}

impl Exposure {
    /// Adds these patterns to the policy.
    ///
    /// # Errors
    /// If the compiled patterns are too large.
    pub(in crate::config) fn with(mut self, kind: ListKind, patterns: Patterns) -> Result<Self, globset::Error> {
        let allow = patterns.allow.as_ref().map(|allow| values(&allow.value));
        self.policy = self.policy.with(kind, allow.as_deref(), &values(&patterns.deny))?;
        self.patterns[kind] = patterns;
        Ok(self)
    }

    pub(in crate::config) fn exposing(mut self, exposed: Option<Spanned<ExposeList>>) -> Self {
        if let Some(exposed) = &exposed {
            self.policy = exposed.value.narrow(self.policy);
        }
        Self { expose: exposed, ..self }
    }

    /// Sets the table of all rules.
    pub(in crate::config) fn with_table(self, table: &str) -> Self {
        Self { policy: self.policy.with_table(table), ..self }
    }

    pub(in crate::config) fn reading_only(self, read_only: Option<Spanned<bool>>) -> Self {
        let policy = self.policy.read_only(read_only.as_ref().is_some_and(|read_only| read_only.value));
        Self { policy, read_only, ..self }
    }
}
