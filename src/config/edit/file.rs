//! A configuration file that is read, edited and written back: whole or not at all, and not over what somebody else wrote.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Uid, fchown, flock};

use super::super::interpolate::{Process, Sources};
use super::super::load::MAX_FILE;

/// Symbolic links that are followed to a file: what the kernel follows.
const MAX_LINKS: usize = 40;

/// A file as it was read; it need not be there. `Debug` shows its path alone, because the text may hold secrets.
pub(crate) struct ConfigFile {
    path: PathBuf,
    was: Option<String>,
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigFile").field(&self.path).finish()
    }
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Somebody else has written to it since it was read.
    #[error("{} was changed by somebody else meanwhile: try again", .0.display())]
    Changed(PathBuf),
    /// The system refused.
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ConfigFile {
    /// Reads the file at `path`, or at what this is a symbolic link to.
    ///
    /// # Errors
    /// If it is there and cannot be read, is no regular file, is not UTF-8, or is larger than a configuration may be.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = target(path)?;
        let was = read(&path)?;
        Ok(Self { path, was })
    }

    /// Where it is; no symbolic link.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it held; nothing, if it is not there.
    pub(crate) fn text(&self) -> &str {
        self.was.as_deref().unwrap_or_default()
    }

    /// Has it hold `text`, with the mode and the owner it has. A new one is for its owner only, as are directories that
    /// are made for it. Whatever goes wrong, the file holds either all of the old text or all of the new one.
    ///
    /// # Errors
    /// If it does not hold what it did when it was read, or cannot be written.
    pub(crate) fn write(self, text: &str) -> Result<(), WriteError> {
        let Self { path, was } = self;
        match replace(&path, was.as_deref(), text) {
            Ok(true) => Ok(()),
            Ok(false) => Err(WriteError::Changed(path)),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }
}

/// Where a chain of symbolic links ends, whether or not something is there.
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

/// Whether the file held what it `was`; then it holds `text` now.
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
    // One that edits by this very function waits; anybody else has the moment between looking and renaming.
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
    // What is written stands, whether or not the file system can say that it will after a power cut.
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
