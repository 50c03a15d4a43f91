//! Patterns that are matched together, and told apart when somebody asks which it was.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{pattern, uri};

/// Those of one list.
#[derive(Debug, Clone)]
pub(super) struct Patterns {
    set: GlobSet,
    /// As they are written, in the order of the set: one text for each spelling of a pattern.
    texts: Arc<[Box<str>]>,
    /// Where they stand; empty where a program has made them.
    pub(super) table: Arc<str>,
}

impl Patterns {
    pub(super) fn of(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().map(|glob| (glob.clone(), glob)))
    }

    /// Patterns on URIs. Each matches as it is written, and the same URIs in normal form.
    pub(super) fn of_uris(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().flat_map(|glob| {
            let mut spellings = uri::pattern_spellings(glob.glob());
            spellings.retain(|spelling| spelling != glob.glob());
            // A spelling that is not a valid glob (only with unusual character classes) is skipped; it would add nothing.
            let others = spellings.into_iter().filter_map(|spelling| pattern(&spelling).ok());
            std::iter::once(glob.clone()).chain(others).map(move |spelling| (spelling, glob))
        }))
    }

    /// Compiles globs, each with the one that it stands for.
    fn compile<'a>(globs: impl Iterator<Item = (Glob, &'a Glob)>) -> Result<Self, globset::Error> {
        let (mut builder, mut texts) = (GlobSetBuilder::new(), Vec::new());
        for (glob, written) in globs {
            builder.add(glob);
            texts.push(written.glob().into());
        }
        Ok(Self { set: builder.build()?, texts: texts.into(), table: Arc::default() })
    }

    /// The patterns as they are written.
    pub(super) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    pub(super) fn match_any(&self, key: &str) -> bool {
        self.set.is_match(key)
    }

    /// The first that `key` matches.
    pub(super) fn first(&self, key: &str) -> Option<&str> {
        // Which one it is costs more to find out than whether there is one, and there seldom is.
        let index = self.match_any(key).then(|| self.set.matches(key).into_iter().min()).flatten()?;
        Some(&self.texts[index])
    }
}
