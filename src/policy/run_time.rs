//! What is denied while a server runs: by a program that embeds mcpd, or by an operator. The configured rules hold beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::Glob;

use super::Hidden;
use super::patterns::Patterns;

/// What is denied at run time. It is no part of the configuration, so no change of the configuration changes it.
#[derive(Debug, Clone, Default)]
pub struct RunTimeDeny {
    /// Disabled tools, by their names on the server.
    off: BTreeSet<Arc<str>>,
    /// Patterns on tools. Joining policies concatenates the lists.
    patterns: Vec<Patterns>,
}

impl RunTimeDeny {
    /// The disabled tools, by their names on the server.
    pub(crate) fn off(&self) -> &BTreeSet<Arc<str>> {
        &self.off
    }

    /// Replaces the disabled tools.
    pub(crate) fn set_off(&mut self, off: BTreeSet<Arc<str>>) {
        self.off = off;
    }

    /// Replaces the patterns.
    pub(crate) fn set_patterns(&mut self, deny: &[Glob]) -> Result<(), globset::Error> {
        self.patterns = if deny.is_empty() { Vec::new() } else { vec![Patterns::of(deny)?] };
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.off.is_empty() && self.patterns.is_empty()
    }

    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.off.extend(other.off.iter().cloned());
        self.patterns.extend(other.patterns.iter().cloned());
    }

    pub(super) fn verdict(&self, tool: &str) -> Result<(), Hidden<'_>> {
        if self.off.contains(tool) {
            return Err(Hidden::Off);
        }
        let denial = self.patterns.iter().find_map(|patterns| Some((patterns.first(tool)?, &patterns.table)));
        denial.map_or(Ok(()), |(pattern, table)| Err(Hidden::Denied { pattern, table }))
    }
}
