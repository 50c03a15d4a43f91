//! The world as it will be once some files hold something else: a configuration is checked before it is written.

use std::io;
use std::path::{Path, PathBuf};

use super::super::interpolate::{Permissions, Sources};
use super::file::target;

/// What is there, but for some files.
pub(crate) struct Proposed<'a> {
    under: &'a dyn Sources,
    files: Vec<(PathBuf, &'a str)>,
}

impl<'a> Proposed<'a> {
    /// `under`, where nothing is proposed yet.
    pub(crate) fn new(under: &'a dyn Sources) -> Self {
        Self { under, files: Vec::new() }
    }

    /// The same, where the file at `path`, which is no symbolic link, holds `text`.
    pub(crate) fn with(mut self, path: &Path, text: &'a str) -> Self {
        self.files.push((path.to_owned(), text));
        self
    }

    fn proposed(&self, path: &Path) -> Option<&'a str> {
        let path = target(path).ok()?;
        self.files.iter().find(|(proposed, _)| *proposed == path).map(|(_, text)| *text)
    }
}

impl Sources for Proposed<'_> {
    fn var(&self, name: &str) -> Option<String> {
        self.under.var(name)
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<String> {
        match self.proposed(path) {
            Some(text) if text.len() as u64 > limit => Err(io::ErrorKind::FileTooLarge.into()),
            Some(text) => Ok(text.to_owned()),
            None => self.under.read(path, limit),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.proposed(path).is_some() || self.under.exists(path)
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
