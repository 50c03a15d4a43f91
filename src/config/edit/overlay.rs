//! Presents edited files as if they were written, to check a configuration before it is written.

use std::io;
use std::path::{Path, PathBuf};

use super::super::interpolate::{FileText, Permissions, Sources};
use super::file::target;

/// Sources with some files replaced.
pub(crate) struct Overlay<'a> {
    under: &'a dyn Sources,
    files: Vec<(PathBuf, &'a str)>,
}

impl<'a> Overlay<'a> {
    /// `under` without replaced files.
    pub(crate) fn new(under: &'a dyn Sources) -> Self {
        Self { under, files: Vec::new() }
    }

    /// Replaces the file at `path`, which must not be a symbolic link, by `text`.
    pub(crate) fn with(mut self, path: &Path, text: &'a str) -> Self {
        self.files.push((path.to_owned(), text));
        self
    }

    fn overlaid(&self, path: &Path) -> Option<(usize, &'a str)> {
        let path = target(path).ok()?;
        let at = self.files.iter().position(|(overlaid, _)| *overlaid == path)?;
        Some((at, self.files[at].1))
    }
}

impl Sources for Overlay<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.under.var(name)
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        self.under.variables(prefix)
    }

    fn file(&self, path: &Path, limit: u64) -> io::Result<FileText> {
        let Some((number, text)) = self.overlaid(path) else { return self.under.file(path, limit) };
        if text.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // An existing file keeps its owner and mode. A new one is accessible to the user only.
        let user = self.under.user();
        let permissions = Permissions { mode: 0o600, owner: user, group: user };
        let new = || FileText { text: String::new(), id: (u64::MAX, number as u64), permissions };
        Ok(FileText { text: text.to_owned(), ..self.under.file(path, limit).unwrap_or_else(|_| new()) })
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.under.list(directory)
    }

    fn user(&self) -> u32 {
        self.under.user()
    }

    fn system_config(&self) -> PathBuf {
        self.under.system_config()
    }

    fn exists(&self, path: &Path) -> bool {
        self.overlaid(path).is_some() || self.under.exists(path)
    }

    fn is_program(&self, path: &Path) -> bool {
        self.under.is_program(path)
    }

    fn permissions(&self, path: &Path) -> io::Result<Vec<Permissions>> {
        self.under.permissions(path)
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.under.current_dir()
    }

    fn home(&self) -> Option<PathBuf> {
        self.under.home()
    }
}
