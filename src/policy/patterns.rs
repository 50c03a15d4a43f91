//! Patterns that are matched together, and told apart when somebody asks which it was.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Those of one list.
#[derive(Debug, Clone)]
pub(super) struct Patterns {
    set: GlobSet,
    /// As they are written, in the order of the set.
    texts: Arc<[Box<str>]>,
    /// Where they stand; empty where a program has made them.
    pub(super) table: Arc<str>,
}

impl Patterns {
    pub(super) fn of(globs: &[Glob]) -> Result<Self, globset::Error> {
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(glob.clone());
        }
        let texts = globs.iter().map(|glob| glob.glob().into()).collect();
        Ok(Self { set: builder.build()?, texts, table: Arc::default() })
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
