//! Reads a configuration file and writes it back atomically, unless another program changed it meanwhile.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Uid, fchown, flock};

use super::super::interpolate::{Process, Sources};
use super::super::load::MAX_FILE;

/// Maximum symbolic links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file as it was read, or a missing file. `Debug` prints only its path, because the text may contain secrets.
pub(crate) struct ConfigFile {
    path: PathBuf,
    was: Option<String>,
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
        let path = target(path)?;
        let was = read(&path)?;
        Ok(Self { path, was })
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
        let Self { path, was } = self;
        match replace(&path, was.as_deref(), text) {
            Ok(true) => Ok(()),
            Ok(false) => Err(WriteError::Changed(path)),
            Err(source) => Err(WriteError::Io { path, source }),
        }
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

fn read(path: &Path) -> io::Result<Option<String>> {
    match Process.read(path, MAX_FILE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the text if the file still has the text `was`. Returns whether it had.
fn replace(path: &Path, was: Option<&str>, text: &str) -> io::Result<bool> {
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
    if read(path)?.as_deref() != was {
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

/// Gives `file` the owner and the mode of another.
fn resemble(file: &File, other: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let differing = |own: u32, other: u32| (own != other).then_some(other);
    let (uid, gid) = (differing(own.uid(), other.uid()), differing(own.gid(), other.gid()));
    if uid.is_some() || gid.is_some() {
        fchown(file, uid.map(Uid::from_raw), gid.map(Gid::from_raw))?;
    }
    file.set_permissions(Permissions::from_mode(other.mode() & 0o7777))
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
