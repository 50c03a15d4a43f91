//! What of a server is exposed. The one function that decides it is [`Policy::permits`].
//!
//! Pure: it knows kinds, names and patterns, nothing else. Listing and asking both go through the catalog, which asks here.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::kind::{Kind, PerKind};

/// What of one server is exposed: `allow` narrows first; `deny` wins. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Policy(PerKind<Rules>);

#[derive(Debug, Clone, Default)]
struct Rules {
    allow: Option<GlobSet>,
    deny: GlobSet,
}

impl Policy {
    /// A policy of `allow` patterns (`None`: everything) and `deny` patterns on tools, which hides nothing else.
    ///
    /// # Errors
    /// If the patterns together cannot be compiled, which is a matter of their size.
    pub fn new(allow: Option<&[Glob]>, deny: &[Glob]) -> Result<Self, globset::Error> {
        let mut policy = Self::default();
        policy.0[Kind::Tools] = Rules { allow: allow.map(set).transpose()?, deny: set(deny)? };
        Ok(policy)
    }

    /// The same policy with other `deny` patterns on tools.
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn denying(&self, deny: &[Glob]) -> Result<Self, globset::Error> {
        let mut policy = self.clone();
        policy.0[Kind::Tools].deny = set(deny)?;
        Ok(policy)
    }

    /// Whether what the server calls `key` (a name, a URI, a URI template) is exposed.
    #[must_use]
    pub fn permits(&self, kind: Kind, key: &str) -> bool {
        // Templates and URIs are two ways to the same resources.
        let Rules { allow, deny } = &self.0[if kind == Kind::Templates { Kind::Resources } else { kind }];
        allow.as_ref().is_none_or(|allow| allow.is_match(key)) && !deny.is_match(key)
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
        assert_eq!(policy.permits(Kind::Tools, tool), permitted, "allow {allow:?} deny {deny:?} tool {tool:?}");
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
