//! The directory that an agent works in, and who may choose it. Pure.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The directory that an agent works in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AgentDirectory {
    /// The agent has stated none, and the kernel does not know it either.
    #[default]
    Unknown,
    /// That of an agent of the user who runs mcpd.
    Own(Arc<str>),
    /// That of a guest, below one of `workspace_roots`. Guests can replace what lies there at any time.
    Guest(Arc<str>),
    /// That of a guest, elsewhere.
    Refused,
}

impl AgentDirectory {
    /// The directory `path`. A guest may choose it only below `guest_roots`, which are `None` for other agents.
    #[must_use]
    pub fn of(path: Arc<str>, guest_roots: Option<&[PathBuf]>) -> Self {
        let Some(roots) = guest_roots else { return Self::Own(path) };
        let lies_below = |root: &PathBuf| Path::new(&*path).starts_with(root);
        let leads_back = Path::new(&*path).components().any(|part| part == Component::ParentDir);
        if !leads_back && roots.iter().any(lies_below) { Self::Guest(path) } else { Self::Refused }
    }

    /// Its path, if a server may work there.
    #[must_use]
    pub fn path(&self) -> Option<&Arc<str>> {
        match self {
            Self::Own(path) | Self::Guest(path) => Some(path),
            Self::Unknown | Self::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_may_choose_only_directories_below_the_roots() {
        let roots = [PathBuf::from("/srv/shared"), PathBuf::from("/x/")];
        let guest = |path: &str| AgentDirectory::of(path.into(), Some(&roots));
        for path in ["/srv/shared", "/srv/shared/a", "/srv//shared/./a", "/x/y"] {
            assert_eq!(guest(path), AgentDirectory::Guest(path.into()));
        }
        for path in ["/srv", "/srv/shared2", "/srv/shared/../a", "/srv/shared/a/..", "/", "/y/x"] {
            assert_eq!(guest(path), AgentDirectory::Refused, "{path}");
        }
        assert_eq!(AgentDirectory::of("/x/y".into(), Some(&[])), AgentDirectory::Refused);
        assert_eq!(AgentDirectory::of("/y/..".into(), None), AgentDirectory::Own("/y/..".into()));
    }
}
