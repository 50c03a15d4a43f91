//! Which of a server's tools are exposed. The one function that decides it is [`Policy::permits`].
//!
//! Pure: it knows names and patterns, nothing else. Listing and calling both go through the catalog, which asks here.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// The `allow` and `deny` patterns of one server. `allow` narrows first; `deny` wins.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    allow: Option<GlobSet>,
    deny: GlobSet,
}

impl Policy {
    /// A policy of `allow` patterns (`None`: everything) and `deny` patterns.
    ///
    /// # Errors
    /// If the patterns together cannot be compiled, which is a matter of their size.
    pub fn new(allow: Option<&[Glob]>, deny: &[Glob]) -> Result<Self, globset::Error> {
        Ok(Self { allow: allow.map(set).transpose()?, deny: set(deny)? })
    }

    /// The same policy with other `deny` patterns.
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn denying(&self, deny: &[Glob]) -> Result<Self, globset::Error> {
        Ok(Self { allow: self.allow.clone(), deny: set(deny)? })
    }

    /// Whether the server's own tool name is exposed.
    #[must_use]
    pub fn permits(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.is_match(tool)) && !self.deny.is_match(tool)
    }
}

/// A pattern of `allow` or `deny`: case-sensitive, `*` matches any characters, `/` included.
///
/// # Errors
/// If `text` is no glob; the error says what is wrong in it.
pub fn pattern(text: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(false).backslash_escape(true).empty_alternates(true).build()
}

fn set(globs: &[Glob]) -> Result<GlobSet, globset::Error> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(glob.clone());
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: Option<&[&str]>, deny: &[&str], tool: &str, permitted: bool) {
        let globs = |texts: &[&str]| texts.iter().map(|t| pattern(t).expect("a glob")).collect::<Vec<_>>();
        let allow = allow.map(globs);
        let policy = Policy::new(allow.as_deref(), &globs(deny)).expect("patterns compile");
        assert_eq!(policy.permits(tool), permitted, "allow {allow:?} deny {deny:?} tool {tool:?}");
    }

    #[test]
    fn allow_narrows_then_deny_wins() {
        check(None, &[], "write_file", true);
        check(None, &["write_*", "move_file"], "write_file", false);
        check(None, &["write_*", "move_file"], "move_file", false);
        check(None, &["write_*", "move_file"], "move_files", true);
        check(Some(&["read_*"]), &[], "list", false);
        check(Some(&["read_*"]), &["read_secret"], "read_secret", false);
        check(Some(&["read_*"]), &["read_secret"], "read_file", true);
        check(Some(&[]), &[], "anything", false);
    }

    #[test]
    fn a_star_crosses_slashes_and_case_counts() {
        check(None, &["fs*"], "fs/write", false);
        check(None, &["write"], "Write", true);
        check(None, &["*"], "", false);
        check(None, &["{write,move}_*"], "move_x", false);
    }
}
