//! The directory of a trial, which has everything that the server keeps, and its removal.
//!
//! It is locked as long as the trial runs. The next trial removes the directories that are not locked any more. A server may leave
//! anything in its own: directories without permissions, or nested deeper than paths can be long.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::random;

/// Entries of a directory that are read at once.
const BATCH: usize = 10_000;

/// A directory that was made for one trial.
#[derive(Debug)]
pub(super) struct TrialDirectory {
    path: PathBuf,
    /// Holds the lock.
    opened: File,
}

impl TrialDirectory {
    /// Creates one in `parent`, and removes those of trials that were killed.
    pub(super) fn create(parent: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        // Links to it would be other paths for the server.
        let parent = &fs::canonicalize(parent)?;
        remove_abandoned(parent);
        loop {
            let path = parent.join(random::token().map_err(io::Error::other)?);
            DirBuilder::new().mode(0o700).create(&path)?;
            // Another trial may take it for abandoned before it is locked.
            if let Some(opened) = lock(&path)? {
                return Ok(Self { path, opened });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with everything in it. Nothing may change it meanwhile.
    pub(super) fn remove(self) -> Result<(), (PathBuf, io::Error)> {
        let removed = remove_tree(&self.path);
        drop(self.opened);
        removed.map_err(|error| (self.path, error))
    }
}

/// Opens and locks the directory at `path`. `None` if another process has the lock, or it is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let opened = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_locked = opened.try_lock().is_ok();
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let is_in_place = fs::symlink_metadata(path).map(id).ok() == opened.metadata().map(id).ok();
    Ok((is_locked && is_in_place).then_some(opened))
}

/// Removes the directories in `parent` that nobody has locked. One that cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    for path in fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if let Ok(Some(locked)) = lock(&path) {
            let _ = remove_tree(&path);
            drop(locked);
        }
    }
}

/// Removes `directory` with everything in it. Subdirectories are moved up into it one by one, so that only two are open.
fn remove_tree(directory: &Path) -> io::Result<()> {
    let root = open(CWD, directory)?;
    let mut moved = 0;
    let mut name = || {
        moved += 1;
        format!(".removed-{moved}")
    };
    loop {
        let entries = entries(&root)?;
        if entries.is_empty() {
            break;
        }
        for (entry, is_directory) in entries {
            if !is_directory {
                unlinkat(&root, &entry, AtFlags::empty())?;
                continue;
            }
            let inner = open(&root, &entry)?;
            empty(&inner, &root, &mut name)?;
            unlinkat(&root, &entry, AtFlags::REMOVEDIR)?;
        }
    }
    fs::remove_dir(directory)
}

/// Removes what is in `directory`. Subdirectories get another `name` in `root`.
fn empty(directory: &OwnedFd, root: &OwnedFd, mut name: impl FnMut() -> String) -> io::Result<()> {
    loop {
        let entries = entries(directory)?;
        if entries.is_empty() {
            return Ok(());
        }
        for (entry, is_directory) in entries {
            if is_directory {
                // Its own entry for its parent changes.
                chmodat(directory, &entry, Mode::RWXU, AtFlags::empty())?;
                renameat(directory, &entry, root, name())?;
            } else {
                unlinkat(directory, &entry, AtFlags::empty())?;
            }
        }
    }
}

/// Opens a directory of this user, whatever its mode is.
fn open(parent: impl AsFd, name: impl rustix::path::Arg + Copy) -> rustix::io::Result<OwnedFd> {
    chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
    openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Some entries of a directory, each with whether it is a directory. None if it is empty.
fn entries(directory: &OwnedFd) -> rustix::io::Result<Vec<(CString, bool)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            },
            known => known,
        };
        found.push((name.to_owned(), kind == FileType::Directory));
        if found.len() == BATCH {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn everything_that_a_server_may_leave_is_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let outside = parent.path().join("outside");
        fs::create_dir(&outside).expect("a fresh directory");
        fs::write(outside.join("mine"), "x").expect("a fresh file");
        let trial = TrialDirectory::create(&parent.path().join("trials")).expect("it is made");
        let place = trial.path().to_owned();
        fs::create_dir_all(place.join("closed/inner/more")).expect("a fresh directory");
        fs::write(place.join("closed/inner/file"), "x").expect("a fresh file");
        symlink(&outside, place.join("closed/link")).expect("a fresh link");
        for path in ["closed/inner/more", "closed/inner", "closed"] {
            fs::set_permissions(place.join(path), fs::Permissions::from_mode(0o0)).expect("the test's own");
        }
        // Deeper than any path, and than descriptors may be open.
        let mut at = open(CWD, &*place).expect("it exists");
        for _ in 0..5000 {
            mkdirat(&at, "deep", Mode::RWXU).expect("a fresh directory");
            at = open(&at, "deep").expect("it exists");
        }
        drop(at);
        trial.remove().expect("it is removed");
        assert!(!place.exists() && outside.join("mine").exists());
    }

    #[test]
    fn directories_of_dead_trials_are_removed_by_the_next_one() {
        let parent = tempfile::tempdir().expect("a directory");
        let living = TrialDirectory::create(parent.path()).expect("it is made");
        let dead = TrialDirectory::create(parent.path()).expect("it is made");
        let path = dead.path().to_owned();
        fs::write(path.join("file"), "x").expect("a fresh file");
        drop(dead);
        let next = TrialDirectory::create(parent.path()).expect("it is made");
        assert!(!path.exists() && living.path().exists() && next.path().exists());
    }
}
