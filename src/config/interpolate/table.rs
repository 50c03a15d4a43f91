//! An environment and files as a table, for tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Permissions, Sources};

/// Variables by their name, files by their whole path, the home directory under `~`, the working directory under `.`, the mode
/// of a file or directory under `mode PATH`, such as `640 group 100`: without one a file has 600, and a directory 755, both of
/// user and group 1000.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<String, String>);

impl<const N: usize> From<[(&str, &str); N]> for Table {
    fn from(rows: [(&str, &str); N]) -> Self {
        Self::from_rows(&rows)
    }
}

impl Table {
    /// Of two rows with one name the last counts.
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

    fn exists(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }

    fn is_program(&self, path: &Path) -> bool {
        self.permissions(path).is_ok_and(|all| all[0].mode & 0o100 != 0)
    }

    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is none");
        let row = |path: &Path| self.0.get(&format!("mode {}", path.display())).map(String::as_str);
        let file = row(path).or_else(|| self.exists(path).then_some("600")).ok_or_else(missing)?;
        let directories = path.ancestors().skip(1).map(|path| row(path).unwrap_or("755"));
        let parse = |text: &str| {
            let (mode, group) = text.split_once(" group ").unwrap_or((text, "1000"));
            let mode = u32::from_str_radix(mode, 8).expect("octal");
            Permissions { mode, owner: 1000, group: group.parse().expect("a number") }
        };
        Ok([file].into_iter().chain(directories).map(parse).collect())
    }

    fn home(&self) -> Option<PathBuf> {
        self.0.get("~").map(PathBuf::from)
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.0.get(".").map(PathBuf::from)
    }
}
