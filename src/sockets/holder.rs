//! Finds the process that holds a lock, in `/proc/locks`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The process that holds the lock on the file `path`. Some file systems and namespaces do not show it.
pub(super) fn of_lock(path: &Path) -> Option<u32> {
    let file = LockedFile::at(path)?;
    (0..READS).find_map(|_| {
        holders(&fs::read_to_string("/proc/locks").ok()?).find_map(|(pid, locked)| file.is(locked).then_some(pid))
    })
}

/// How often `/proc/locks` is read before a lock counts as absent. The kernel shows a long list in several parts, and a lock can be
/// missing between two of them while others come and go.
const READS: usize = 8;

/// Whether the process `pid` holds the lock on the file `path`. `None` if the system shows no locks.
pub(super) fn holds_lock(path: &Path, pid: u32) -> Option<bool> {
    (0..READS).map(|_| is_shown_as_holder(path, pid)).find(|held| *held != Some(false)).unwrap_or(Some(false))
}

fn is_shown_as_holder(path: &Path, pid: u32) -> Option<bool> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let Some(file) = LockedFile::at(path) else { return Some(false) };
    let is_shown = holders(&locks).any(|(_, locked)| file.is(locked));
    // Some file systems, such as btrfs, show the file on another device.
    Some(holders(&locks).any(|(holder, locked)| {
        holder == pid && (file.is(locked) || !is_shown && locked.rsplit(':').next() == Some(&*file.inode))
    }))
}

/// A file as `/proc/locks` identifies it.
struct LockedFile {
    /// Such as `fe:01`.
    device: String,
    inode: String,
}

impl LockedFile {
    fn at(path: &Path) -> Option<Self> {
        let file = fs::symlink_metadata(path).ok()?;
        let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        Some(Self { device: format!("{major:02x}:{minor:02x}"), inode: file.ino().to_string() })
    }

    fn is(&self, locked: &str) -> bool {
        locked.strip_prefix(&*self.device).and_then(|rest| rest.strip_prefix(':')) == Some(&*self.inode)
    }
}

/// The holder and the file of each lock in `/proc/locks`. Lines of waiting processes have an arrow before the type.
fn holders(locks: &str) -> impl Iterator<Item = (u32, &str)> {
    locks.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words.get(1) == Some(&"FLOCK")).then(|| Some((words.get(4)?.parse().ok()?, *words.get(5)?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_waits_for_a_lock_does_not_hold_it() {
        let locks = "1: POSIX  ADVISORY  WRITE 3 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 41 fe:00:13 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 42 fe:00:13 0 EOF\n3: FLOCK  ADVISORY  WRITE 43 00:2a:13 0 EOF\n";
        assert_eq!(holders(locks).collect::<Vec<_>>(), [(41, "fe:00:13"), (43, "00:2a:13")]);
        let file = LockedFile { device: "fe:00".to_owned(), inode: "13".to_owned() };
        assert!(file.is("fe:00:13"));
        for other in ["fe:00:1", "fe:00:131", "00:2a:13", "13"] {
            assert!(!file.is(other), "{other}");
        }
    }

    /// Before this rule, one of some thousand looks missed the lock.
    #[test]
    fn holder_is_found_while_other_locks_come_and_go() {
        let files: Vec<_> = (0..300).map(|_| tempfile::NamedTempFile::new().expect("a temporary file")).collect();
        let (held, others) = files.split_first().expect("one at least");
        held.as_file().lock().expect("nobody else's");
        if holds_lock(held.path(), std::process::id()).is_none() {
            return;
        }
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    others.iter().for_each(|file| file.as_file().lock().expect("nobody else's"));
                    others.iter().for_each(|file| file.as_file().unlock().expect("it is locked"));
                }
            });
            let misses = (0..500).filter(|_| holds_lock(held.path(), std::process::id()) != Some(true)).count();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(misses, 0);
        });
    }

    #[test]
    fn holder_of_a_lock_is_found() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let own = std::process::id();
        if holds_lock(file.path(), own).is_none() {
            return;
        }
        assert_eq!((holds_lock(file.path(), own), of_lock(file.path())), (Some(false), None));
        file.as_file().lock().expect("nobody else's");
        assert_eq!((holds_lock(file.path(), own), holds_lock(file.path(), 1)), (Some(true), Some(false)));
    }
}
