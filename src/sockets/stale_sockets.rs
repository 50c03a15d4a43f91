//! Removes sockets of profiles that an earlier daemon has left behind.
//!
//! The lock file contains the names of all profiles, one per line, from before their sockets are created until they are removed. So a
//! socket is found even if its profile is no longer configured, and no other file in the directory is touched.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};

use super::{LOCK, Lock, RuntimeDir, SocketError, agent_socket};

/// Maximum number of bytes read from the lock file.
const MAX_LOCK_FILE: u64 = 64 << 10;

impl RuntimeDir {
    /// The profiles with sockets, without the default profile. Empty if they cannot be read.
    #[must_use]
    pub fn profiles(&self) -> Vec<String> {
        File::open(self.socket(LOCK)).and_then(|file| names(&file)).unwrap_or_default()
    }
}

impl Lock {
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
    pub(super) fn write_names(&self) -> Result<(), SocketError> {
        let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        // After a crash between the two steps, the rest of the old text names only sockets that no longer exist.
        let written = self.file.write_all_at(text.as_bytes(), 0).and_then(|()| self.file.set_len(text.len() as u64));
        written.map_err(|source| self.unusable(source))
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
}
