//! A compiled list of glob patterns that can name the first match.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{pattern, uri};

/// The patterns of one list.
#[derive(Debug, Clone)]
pub(super) struct Patterns {
    set: GlobSet,
    /// The texts of the patterns, in the order of the set: one for each spelling of a pattern.
    texts: Arc<[Box<str>]>,
    /// Their configuration table. Empty if they were built in code.
    pub(super) table: Arc<str>,
}

impl Patterns {
    pub(super) fn of(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().map(|glob| (glob.clone(), glob)))
    }

    /// Compiles patterns on URIs. Each matches literally and in normal form.
    pub(super) fn of_uris(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().flat_map(|glob| {
            let mut spellings = uri::pattern_spellings(glob.glob());
            spellings.retain(|spelling| spelling != glob.glob());
            // A spelling that is not a valid glob (only with unusual character classes) is skipped; it would add nothing.
            let others = spellings.into_iter().filter_map(|spelling| pattern(&spelling).ok());
            std::iter::once(glob.clone()).chain(others).map(move |spelling| (spelling, glob))
        }))
    }

    /// Compiles pairs of a glob and the pattern that it is a spelling of.
    fn compile<'a>(globs: impl Iterator<Item = (Glob, &'a Glob)>) -> Result<Self, globset::Error> {
        let (mut builder, mut texts) = (GlobSetBuilder::new(), Vec::new());
        for (glob, written) in globs {
            builder.add(glob);
            texts.push(written.glob().into());
        }
        Ok(Self { set: builder.build()?, texts: texts.into(), table: Arc::default() })
    }

    /// The texts of the patterns.
    pub(super) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    pub(super) fn match_any(&self, key: &str) -> bool {
        self.set.is_match(key)
    }

    /// The first pattern that matches `key`.
    pub(super) fn first(&self, key: &str) -> Option<&str> {
        // Finding the match is expensive and matches are rare, so first check whether there is any.
        let index = self.match_any(key).then(|| self.set.matches(key).into_iter().min()).flatten()?;
        Some(&self.texts[index])
    }
}
