//! Paths that are opened once: what was checked is what is mounted, or what gets a rule.
//!
//! A server or a guest can replace a path between two looks at it. So the stage opens each part of a path once, below the part before
//! it, and reads links itself. Then it uses only the descriptor of the last part.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::disk::WRITABLE_BY_OTHERS;

/// Maximum number of links on the way, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file or directory that is open as a path (`O_PATH`).
#[derive(Debug)]
pub(super) struct OpenedPath {
    /// Its path without links, at the time of opening.
    pub(super) real: PathBuf,
    pub(super) fd: OwnedFd,
    /// The links on the way.
    pub(super) links: Vec<Link>,
}

/// A link on the way to a path.
#[derive(Debug)]
pub(super) struct Link {
    /// Where it stands, without links.
    pub(super) place: PathBuf,
    pub(super) target: PathBuf,
    /// Whether only root can replace it, and this is not root.
    pub(super) is_of_system: bool,
}

impl OpenedPath {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
        let (mut pending, mut real, mut links) = (parts(path), PathBuf::from("/"), Vec::new());
        // Those of `real`, beginning with the root.
        let mut opened = vec![open_part(CWD, Path::new("/"))?];
        while let Some((part, directory)) = pending.pop().zip(opened.last()) {
            match Path::new(&part).components().next() {
                Some(Component::Normal(_)) => {}
                Some(Component::ParentDir) => {
                    opened.truncate((opened.len() - 1).max(1));
                    real.pop();
                    continue;
                }
                Some(Component::RootDir) => {
                    opened.truncate(1);
                    real = PathBuf::from("/");
                    continue;
                }
                _ => continue,
            }
            let (fd, place) = (open_part(directory, Path::new(&part))?, real.join(part));
            if FileType::from_raw_mode(fstat(&fd)?.st_mode) != FileType::Symlink {
                real = place;
                opened.push(fd);
                continue;
            }
            if links.len() == MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = PathBuf::from(OsString::from_vec(readlinkat(&fd, "", Vec::new())?.into_bytes()));
            pending.extend(parts(&target));
            links.push(Link { place, target, is_of_system: is_of_system(directory)? });
        }
        let fd = opened.pop().ok_or(Errno::NOENT)?;
        Ok(Self { real, fd, links })
    }

    pub(super) fn is_directory(&self) -> io::Result<bool> {
        Ok(FileType::from_raw_mode(fstat(&self.fd)?.st_mode).is_dir())
    }

    /// Whether `other` is the same file or directory.
    pub(super) fn is_same(&self, other: impl AsFd) -> io::Result<bool> {
        let [this, other] = [fstat(&self.fd)?, fstat(other)?].map(|stat| (stat.st_dev, stat.st_ino));
        Ok(this == other)
    }
}

/// Opens one part of a path. As a directory first, since only that mounts what is mounted on demand.
fn open_part(directory: impl AsFd, part: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&directory, part, flags | OFlags::DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR) => openat(directory, part, flags, Mode::empty()),
        opened => opened,
    }
}

/// Whether only root can replace what stands in `directory`, and this is not root.
fn is_of_system(directory: &OwnedFd) -> io::Result<bool> {
    let found = fstat(directory)?;
    Ok(found.st_uid == 0 && found.st_mode & WRITABLE_BY_OTHERS == 0 && !geteuid().is_root())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_is_opened_part_by_part_and_its_links_are_read() {
        let place = tempfile::tempdir().expect("a directory");
        let place = fs::canonicalize(place.path()).expect("it exists");
        fs::create_dir_all(place.join("real/inner")).expect("a fresh directory");
        fs::write(place.join("real/file"), "").expect("a fresh file");
        symlink("../real", place.join("real/up")).expect("a fresh link");
        symlink(place.join("real/up/inner"), place.join("absolute")).expect("a fresh link");
        symlink("loop", place.join("loop")).expect("a fresh link");
        for (path, real, links) in [
            ("real/inner", "real/inner", &[][..]),
            ("absolute/../file", "real/file", &["absolute", "real/up"]),
            ("real/up/./up", "real", &["real/up", "real/up"]),
            ("real/../../../../../../../..", "/", &[]),
        ] {
            let opened = OpenedPath::open(&place.join(path)).expect("it exists");
            assert_eq!(opened.real, place.join(real), "{path}");
            let places: Vec<_> = opened.links.iter().map(|link| link.place.clone()).collect();
            assert_eq!(places, links.iter().map(|link| place.join(link)).collect::<Vec<_>>(), "{path}");
            assert!(opened.links.iter().all(|link| !link.is_of_system));
            assert!(opened.is_same(fs::File::open(place.join(real)).expect("it exists")).expect("it is open"));
        }
        for (path, error) in [("missing", Errno::NOENT), ("real/file/x", Errno::NOTDIR), ("loop", Errno::LOOP)] {
            let failed = OpenedPath::open(&place.join(path)).map(|opened| opened.real);
            assert_eq!(failed.map_err(|error| Errno::from_io_error(&error)), Err(Some(error)), "{path}");
        }
    }
}
