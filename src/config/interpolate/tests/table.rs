//! An environment and files as a table, for tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::super::{FileText, Permissions, Sources};

/// Variables by name, files by absolute path, the home directory under `~`, the working directory under `.`.
///
/// By default a file belongs to the user and has no access for others, and a directory is readable by all. A row with the path and ` owner`,
/// ` group` or ` mode` (octal) changes it. A row with ` link` makes the path a link.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<String, String>);

/// The user of the table.
const USER: u32 = 1000;

impl<const N: usize> From<[(&str, &str); N]> for Table {
    fn from(rows: [(&str, &str); N]) -> Self {
        Self::from_rows(&rows)
    }
}

impl Table {
    /// If two rows have one name, the last one is used.
    pub(crate) fn from_rows(rows: &[(&str, &str)]) -> Self {
        Self(rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }
}

impl Table {
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    fn of(&self, path: &str, what: &str) -> Option<&str> {
        self.0.get(&format!("{path} {what}")).map(String::as_str)
    }
}

impl Sources for Table {
    fn var(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let all = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn file(&self, path: &Path, _limit: u64) -> io::Result<FileText> {
        let path = path.to_str().expect("text");
        let path = self.of(path, "link").unwrap_or(path);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is none");
        let text = self.0.get(path).ok_or_else(missing)?.clone();
        let id = (0, self.0.range(..path.to_owned()).count() as u64);
        Ok(FileText { text, id, permissions: self.permissions(Path::new(path))?[0] })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let inside = self.0.keys().filter_map(|path| Path::new(path).strip_prefix(directory).ok());
        let names = inside.filter(|path| path.components().count() == 1).map(|path| path.display().to_string());
        let names: Vec<_> = names.filter(|name| !name.contains(' ')).collect();
        if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names) }
    }

    fn exists(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.0.contains_key(path))
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        path.to_str().and_then(|path| self.of(path, "link")).map(PathBuf::from)
    }

    fn is_program(&self, path: &Path) -> bool {
        self.permissions(path).is_ok_and(|all| all[0].mode & 0o100 != 0)
    }

    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>> {
        if !self.exists(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let of = |path: &Path, mode: &str| {
            let row = |what: &str| path.to_str().and_then(|path| self.of(path, what));
            let id = |what: &str| row(what).map_or(USER, |id| id.parse().expect("a number"));
            let mode = u32::from_str_radix(row("mode").unwrap_or(mode), 8).expect("a mode");
            Permissions { mode, owner: id("owner"), group: id("group") }
        };
        let directories = path.ancestors().skip(1).map(|path| of(path, "755"));
        Ok(std::iter::once(of(path, "600")).chain(directories).collect())
    }

    fn home(&self) -> Option<PathBuf> {
        self.0.get("~").map(PathBuf::from)
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.0.get(".").map(PathBuf::from)
    }

    fn user(&self) -> u32 {
        USER
    }

    fn system_config(&self) -> PathBuf {
        "/etc/mcpd/config.toml".into()
    }
}
