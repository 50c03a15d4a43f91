//! Where logins are kept.

use std::path::{Path, PathBuf};

/// Where logins are kept, as `mcpd login` leaves them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
}

impl Logins {
    /// Those in this directory, which need not be there yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}
