//! An environment and files as a table, for tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::Sources;

/// Variables by their name, files by their whole path, the home directory under `~`, the working directory under `.`.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<String, String>);

impl<const N: usize> From<[(&str, &str); N]> for Table {
    fn from(rows: [(&str, &str); N]) -> Self {
        Self::from_rows(&rows)
    }
}

impl Table {
    pub(crate) fn from_rows(rows: &[(&str, &str)]) -> Self {
        Self(rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }
}

impl Sources for Table {
    fn var(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn read(&self, path: &Path, _limit: u64) -> io::Result<String> {
        let found = path.to_str().and_then(|path| self.0.get(path));
        found.cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is none"))
    }

    fn home(&self) -> Option<PathBuf> {
        self.0.get("~").map(PathBuf::from)
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.0.get(".").map(PathBuf::from)
    }
}
