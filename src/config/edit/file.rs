//! Reads a configuration file and writes it back atomically, unless another program changed it meanwhile. Presents edited files as if they
//! were written, so that the configuration is checked first.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Uid, fchown, flock};

use super::super::interpolate::{FileText, Permissions, Process, Sources};
use super::super::load::MAX_FILE;

/// Maximum symbolic links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file as it was read, or a missing file. `Debug` prints only its path, because the text may contain secrets.
pub(crate) struct ConfigFile {
    path: PathBuf,
    was: Option<String>,
    /// The largest size that is read.
    limit: u64,
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigFile").field(&self.path).finish()
    }
}

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Another program changed it since it was read.
    #[error("{} was changed by another program: run the command again", .0.display())]
    Changed(PathBuf),
    /// A system call failed.
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ConfigFile {
    /// Reads the file at `path`, following symbolic links.
    ///
    /// # Errors
    /// If it exists and cannot be read, is not a regular file, is not UTF-8, or is larger than the maximum.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::open_up_to(path, MAX_FILE)
    }

    /// As [`Self::open`], with `limit` as the maximum size.
    pub(crate) fn open_up_to(path: &Path, limit: u64) -> io::Result<Self> {
        let path = target(path)?;
        let was = read(&path, limit)?;
        Ok(Self { path, was, limit })
    }

    /// Its path, with symbolic links resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it exists.
    pub(crate) fn exists(&self) -> bool {
        self.was.is_some()
    }

    /// Whether `path` leads to it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        target(path).is_ok_and(|path| path == self.path)
    }

    /// Its text. Empty if it does not exist.
    pub(crate) fn text(&self) -> &str {
        self.was.as_deref().unwrap_or_default()
    }

    /// Replaces its text by `text`, and keeps its mode and owner. A new file and new directories are accessible to their owner only. After
    /// any failure, the file has either the complete old or the complete new text.
    ///
    /// # Errors
    /// If it changed since it was read, or cannot be written.
    pub(crate) fn write(self, text: &str) -> Result<(), WriteError> {
        let done = self.replace(text);
        self.outcome(done)
    }

    /// Deletes it.
    ///
    /// # Errors
    /// If it changed since it was read, or cannot be deleted.
    pub(crate) fn remove(self) -> Result<(), WriteError> {
        let done = self.delete();
        self.outcome(done)
    }

    fn outcome(self, done: io::Result<bool>) -> Result<(), WriteError> {
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(WriteError::Changed(self.path)),
            Err(source) => Err(WriteError::Io { path: self.path, source }),
        }
    }

    /// Whether it still has the text that was read.
    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(read(&self.path, self.limit)? == self.was)
    }

    /// Deletes it if it has not changed. Returns whether it had not.
    fn delete(&self) -> io::Result<bool> {
        let directory = File::open(directory(&self.path))?;
        let _ = flock(&directory, FlockOperation::LockExclusive);
        let is_unchanged = self.is_unchanged()?;
        if is_unchanged {
            fs::remove_file(&self.path)?;
        }
        Ok(is_unchanged)
    }

    /// Replaces the text if it has not changed. Returns whether it had not.
    fn replace(&self, text: &str) -> io::Result<bool> {
        let Self { path, was, .. } = self;
        let directory = directory(path);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut beside = tempfile::Builder::new().prefix(".mcpd-").tempfile_in(directory)?;
        beside.write_all(text.as_bytes())?;
        match fs::metadata(path) {
            Ok(other) => resemble(beside.as_file(), &other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        beside.as_file().sync_all()?;
        // The lock excludes other calls of this function. Other programs can still write between the comparison and the rename.
        let directory = File::open(directory)?;
        let _ = flock(&directory, FlockOperation::LockExclusive);
        if !self.is_unchanged()? {
            return Ok(false);
        }
        match was {
            Some(_) => drop(beside.persist(path).map_err(|refused| refused.error)?),
            None => match beside.persist_noclobber(path) {
                Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                done => drop(done.map_err(|refused| refused.error)?),
            },
        }
        // The file is written. A failed sync of the directory is ignored: it matters only after a power cut.
        let _ = directory.sync_all();
        Ok(true)
    }
}

/// The end of a chain of symbolic links, which need not exist.
pub(super) fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = directory(&path).join(next),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

fn read(path: &Path, limit: u64) -> io::Result<Option<String>> {
    match Process.read(path, limit) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives `file` the owner and the mode of another.
fn resemble(file: &File, other: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let differing = |own: u32, other: u32| (own != other).then_some(other);
    let (uid, gid) = (differing(own.uid(), other.uid()), differing(own.gid(), other.gid()));
    if uid.is_some() || gid.is_some() {
        fchown(file, uid.map(Uid::from_raw), gid.map(Gid::from_raw))?;
    }
    file.set_permissions(fs::Permissions::from_mode(other.mode() & 0o7777))
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

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
