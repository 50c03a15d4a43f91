//! The lock of a runtime directory: who holds it, and what a former holder has left.
//!
//! The file contains the names of all profiles, one per line, from before their sockets are created until they are removed. So a
//! socket is found even if its profile is no longer configured, and no other file in the directory is touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::profile_directories::{DirectoriesFile, ProfileDirectories};
use super::{Listener, MAX_PATH, PassedSockets, RuntimeDir, SocketError, SocketMode, agent_socket};

/// The file that a daemon holds the lock of.
pub(crate) const LOCK: &str = "lock";
/// Maximum number of bytes read from the lock file.
const MAX_LOCK_FILE: u64 = 64 << 10;
/// How often `/proc/locks` is read before a lock counts as absent. The kernel shows a long list in several parts, and a lock can be
/// missing between two of them while others come and go.
const READS: usize = 8;

impl RuntimeDir {
    /// Creates the directory if it is absent, and takes the lock for a daemon that starts.
    ///
    /// # Errors
    /// If the directory is not this user's alone, or another daemon serves there.
    pub fn lock(&self) -> Result<Lock, SocketError> {
        // A daemon whose lock file was deleted takes it again soon; until then its socket shows that it runs.
        if self.has_daemon() {
            return Err(SocketError::AlreadyRunning(self.path.clone()));
        }
        self.take_lock()
    }

    /// Continues with the lock of the program before, which was passed on.
    ///
    /// # Errors
    /// If its file was deleted, and another daemon has locked a new one.
    pub(crate) fn continue_lock(&self, file: File) -> Result<Lock, SocketError> {
        let lock = Lock { file, directory: self.clone(), names: Vec::new(), directories: None };
        if lock.is_in_place() { Ok(lock) } else { self.take_lock() }
    }

    /// Takes the lock, whoever listens.
    fn take_lock(&self) -> Result<Lock, SocketError> {
        self.create()?;
        let path = self.path.join(LOCK);
        let io = |source| SocketError::Io { operation: "lock", path: path.clone(), source };
        loop {
            let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
            let file = opened.map_err(io)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(SocketError::AlreadyRunning(self.path.clone())),
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            let lock = Lock { file, directory: self.clone(), names: Vec::new(), directories: None };
            // The file may have been deleted before it was locked: another daemon would not find it.
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }

    /// The process that holds the lock, as far as the system shows it.
    pub(crate) fn lock_holder(&self) -> Option<u32> {
        holder_of(&self.socket(LOCK))
    }

    /// The profiles with sockets, without the default profile. Empty if they cannot be read.
    #[must_use]
    pub fn profiles(&self) -> Vec<String> {
        File::open(self.socket(LOCK)).and_then(|file| names(&file)).unwrap_or_default()
    }
}

/// The right to serve in a directory, held as long as this lives.
#[derive(Debug)]
pub struct Lock {
    /// The file with the directories of profiles; `None` before it is written. It is removed before the lock is released.
    directories: Option<DirectoriesFile>,
    file: File,
    directory: RuntimeDir,
    /// The profiles whose sockets the file says there may be.
    names: Vec<String>,
}

impl Lock {
    /// Whether its file is where another daemon would look for it.
    fn is_in_place(&self) -> bool {
        let locked = self.file.metadata().map(|file| (file.dev(), file.ino()));
        let found = std::fs::metadata(self.directory.socket(LOCK)).map(|file| (file.dev(), file.ino()));
        locked.is_ok_and(|locked| found.is_ok_and(|found| found == locked))
    }

    /// Takes the lock on a new file if its file was deleted, because another daemon would find no lock. Writes the directories of
    /// profiles again if their file was deleted or changed.
    pub(super) fn keep(&mut self) -> Result<(), SocketError> {
        if !self.is_in_place() {
            let recreated = self.directory.take_lock()?;
            let (names, directories) = (std::mem::take(&mut self.names), self.directories.take());
            *self = Self { names, directories, ..recreated };
            self.write_names()?;
        }
        self.directories.as_mut().map_or(Ok(()), DirectoriesFile::keep)
    }

    /// Publishes the directories of profiles for agents that name no profile.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn publish(&mut self, directories: ProfileDirectories) -> Result<(), SocketError> {
        let published = DirectoriesFile::write(&self.directory, directories)?;
        if let Some(former) = self.directories.replace(published) {
            // Its file is the new one's, or is there no more.
            former.leave();
        }
        Ok(())
    }

    /// Takes over the socket `name` if it was passed to this process, else listens as [`Lock::listen`] does.
    ///
    /// # Errors
    /// As [`Lock::listen`]; if what was opened is not this user's alone.
    pub(crate) fn listen_or_take(
        &self,
        name: &str,
        mode: SocketMode,
        passed: &mut PassedSockets,
    ) -> Result<Listener, SocketError> {
        match passed.take(name, mode)? {
            Some(passed) => Listener::taken_over(passed, mode),
            None => self.listen(name, mode),
        }
    }

    /// Listens on the socket `name`, mode 0600 from the first instant, in place of one left by a killed daemon.
    ///
    /// # Errors
    /// If the path is too long, taken by something else, or the system refuses.
    pub fn listen(&self, name: &str, mode: SocketMode) -> Result<Listener, SocketError> {
        let path = self.directory.socket(name);
        if path.as_os_str().len() > MAX_PATH {
            return Err(SocketError::PathTooLong(path));
        }
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path)),
            Ok(_) => std::fs::remove_file(&path).map_err(|source| SocketError::Io {
                operation: "remove",
                path: path.clone(),
                source,
            })?,
            Err(_) => {}
        }
        Listener::at(path, mode)
    }

    /// Removes sockets of an earlier daemon for profiles other than `profiles`, and records `profiles`.
    ///
    /// # Errors
    /// If the lock file cannot be read or written, or a socket cannot be removed.
    pub(crate) fn remove_stale(&mut self, profiles: Vec<String>) -> Result<(), SocketError> {
        let before = names(&self.file).map_err(|source| self.unusable(source))?;
        for left in before.iter().filter(|name| !profiles.contains(name)) {
            let path = self.directory.socket(&agent_socket(left));
            if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
                std::fs::remove_file(&path).map_err(|source| SocketError::Io { operation: "remove", path, source })?;
            }
        }
        self.record_names(profiles)
    }

    /// Records that there may be sockets of these profiles, and of no others.
    ///
    /// # Errors
    /// As [`Lock::remove_stale`].
    pub(crate) fn record_names(&mut self, profiles: Vec<String>) -> Result<(), SocketError> {
        self.names = profiles;
        self.write_names()
    }

    /// Writes the recorded names to the lock file.
    fn write_names(&self) -> Result<(), SocketError> {
        let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        // After a crash between the two steps, the rest of the old text names only sockets that no longer exist.
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        written.map_err(|source| self.unusable(source))
    }

    /// The lock for the program that takes the place of this one. The file with the directories stays.
    pub(crate) fn hand_over(self) -> OwnedFd {
        if let Some(directories) = self.directories {
            directories.leave();
        }
        self.file.into()
    }

    fn unusable(&self, source: io::Error) -> SocketError {
        SocketError::Io { operation: "use", path: self.directory.socket(LOCK), source }
    }
}

fn names(mut file: &File) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_LOCK_FILE).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The file may have been written by another program: a name must not point outside the directory or to a file of no profile.
    Ok(text.lines().filter(|name| crate::config::is_profile_name(name)).map(str::to_owned).collect())
}

/// The process that holds the lock on the file `path`. Some file systems and namespaces do not show it.
pub(super) fn holder_of(path: &Path) -> Option<u32> {
    let file = LockedFile::at(path)?;
    (0..READS).find_map(|_| {
        holders(&fs::read_to_string("/proc/locks").ok()?).find_map(|(pid, locked)| file.is(locked).then_some(pid))
    })
}

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
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn of_what_a_daemon_before_has_left_only_sockets_of_other_profiles_are_removed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = RuntimeDir::resolve(Some(place.path().join("run")), |_| None).expect("it was given");
        let mut lock = directory.lock().expect("nobody else's");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        lock.remove_stale(names(&["old", "kept", "file", "a-very-long-name-that-is-shortened-next"]))
            .expect("writable");
        for name in ["old.sock", "kept.sock", "other.sock", "mcp.sock", "admin.sock"] {
            drop(UnixListener::bind(directory.socket(name)).expect("free"));
        }
        std::fs::write(directory.socket("file.sock"), "precious").expect("writable");
        drop(lock);

        let mut lock = directory.lock().expect("nobody holds it");
        assert_eq!(directory.profiles().len(), 4);
        lock.remove_stale(names(&["kept", "new"])).expect("writable");
        assert_eq!(directory.profiles(), ["kept", "new"]);
        let is_left = |name: &str| directory.socket(name).exists();
        assert!(!is_left("old.sock"), "it is of no profile any more");
        for name in ["kept.sock", "other.sock", "mcp.sock", "admin.sock", "file.sock"] {
            assert!(is_left(name), "{name}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_passed_over() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it was given");
        std::fs::write(directory.socket(LOCK), "../a\nadmin\nmcp\n\n/x\ngood\n\u{0}\n").expect("writable");
        assert_eq!(directory.profiles(), ["good"]);
    }

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
        assert_eq!((holds_lock(file.path(), own), holder_of(file.path())), (Some(false), None));
        file.as_file().lock().expect("nobody else's");
        assert_eq!((holds_lock(file.path(), own), holds_lock(file.path(), 1)), (Some(true), Some(false)));
    }
}
