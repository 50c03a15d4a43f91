//! The directories of profiles, which a daemon publishes in a file for the agents that name no profile.
//!
//! A client reads the file after it has connected to the daemon. The daemon writes the file before it creates its sockets and before it
//! closes the sockets of removed profiles, and deletes it after all sockets. So if a client finds neither the file nor a listener, its
//! daemon has ended; the client must not conclude that no profile has directories.

use std::cmp::Ordering;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::time::{sleep, timeout};

use super::{RuntimeDir, SocketError, check_private};

/// The file with the directories.
const FILE: &str = "directories.json";
/// Maximum number of bytes read from the file.
const MAX_FILE: u64 = 16 << 20;
/// Until a daemon that has locked the runtime directory has to serve.
const SERVE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The directories of all profiles that have some.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProfileDirectories {
    profiles: Vec<OfProfile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfProfile {
    name: String,
    /// As in the configuration.
    directories: Vec<PathBuf>,
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Published {
    /// The process that has written the file.
    daemon: u32,
    #[serde(flatten)]
    directories: ProfileDirectories,
}

/// The profile that a directory chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryChoice {
    pub(crate) profile: String,
    /// As in the configuration.
    pub(crate) directory: PathBuf,
}

/// Why a directory chooses neither a profile nor the default one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryError {
    /// Two profiles have the directory under different names.
    #[error("the profiles `{}` and `{}` have the same directory: {} and {}", first.profile, second.profile, first.directory.display(), second.directory.display())]
    Ambiguous { first: DirectoryChoice, second: DirectoryChoice },
    /// It is the working directory or that of a profile, and may be anywhere.
    #[error("profiles depend on the directory {}, which cannot be found: {source}", path.display())]
    Unresolved { path: PathBuf, source: io::Error },
}

impl ProfileDirectories {
    /// `profiles`: their names and directories.
    pub(crate) fn new<'a>(profiles: impl IntoIterator<Item = (&'a str, &'a [PathBuf])>) -> Self {
        let all = profiles.into_iter().filter(|(_, directories)| !directories.is_empty());
        let of_profile = |(name, directories): (&str, &[PathBuf])| OfProfile {
            name: name.to_owned(),
            directories: directories.to_vec(),
        };
        Self { profiles: all.map(of_profile).collect() }
    }

    /// Whether no profile has directories.
    pub(crate) fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// Each directory, with its profile.
    fn all(&self) -> impl Iterator<Item = DirectoryChoice> {
        self.profiles.iter().flat_map(|OfProfile { name, directories }| {
            let choice = |directory: &PathBuf| DirectoryChoice { profile: name.clone(), directory: directory.clone() };
            directories.iter().map(choice)
        })
    }

    /// The profile of the longest directory that contains the working directory `cwd`, in whole components and without symbolic links. A
    /// directory that does not exist is compared as it is written.
    ///
    /// # Errors
    /// If two profiles have this directory, or a directory cannot be resolved.
    pub(crate) fn choose(&self, cwd: &Path) -> Result<Option<DirectoryChoice>, DirectoryError> {
        let cwd = real(cwd)?;
        let mut found: Option<(usize, DirectoryChoice)> = None;
        for choice in self.all() {
            let directory = real(&choice.directory)?;
            if !cwd.starts_with(&directory) {
                continue;
            }
            let length = directory.components().count();
            match found.as_ref().map(|(longest, _)| length.cmp(longest)) {
                None | Some(Ordering::Greater) => found = Some((length, choice)),
                Some(Ordering::Equal) => {
                    if let Some((_, first)) = found.take_if(|(_, first)| first.profile != choice.profile) {
                        return Err(DirectoryError::Ambiguous { first, second: choice });
                    }
                }
                Some(Ordering::Less) => {}
            }
        }
        Ok(found.map(|(_, choice)| choice))
    }
}

/// `path` without symbolic links. As it is written if nothing is there.
fn real(path: &Path) -> Result<PathBuf, DirectoryError> {
    match fs::canonicalize(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(path.to_owned())
        }
        resolved => resolved.map_err(|source| DirectoryError::Unresolved { path: path.to_owned(), source }),
    }
}

impl RuntimeDir {
    /// The directories of the profiles of the daemon that serves here. `None` if it has ended: the caller had connected to it.
    ///
    /// # Errors
    /// If the file is not the daemon's, cannot be read or is malformed, or the daemon does not begin to serve.
    pub(crate) async fn profile_directories(&self) -> Result<Option<ProfileDirectories>, SocketError> {
        let is_activated = self.session().is_some();
        match self.published()? {
            Some(Published { daemon, directories }) if !is_activated || Some(daemon) == self.lock_holder() => {
                return Ok(Some(directories));
            }
            // systemd accepts connections for a daemon that has published nothing yet. The operator's socket is the daemon's own.
            _ if is_activated => {
                let serves = async {
                    while !self.has_daemon() {
                        sleep(POLL_INTERVAL).await;
                    }
                };
                let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the daemon does not serve yet");
                timeout(SERVE_TIMEOUT, serves).await.map_err(|elapsed| self.unreadable(late(elapsed)))?;
            }
            _ if !self.listens_for_agents() => return Ok(None),
            _ => {}
        }
        // Daemons before mcpd 0.3 publish nothing.
        Ok(Some(self.published()?.map(|published| published.directories).unwrap_or_default()))
    }

    /// The contents of the file, if there is one.
    fn published(&self) -> Result<Option<Published>, SocketError> {
        let found = match fs::metadata(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|source| self.unreadable(source))?,
        };
        check_private(self.path(), &found)?;
        let bytes = match read(&self.socket(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| self.unreadable(source))?,
        };
        let malformed = |what: String| SocketError::Malformed { path: self.socket(FILE), what };
        let bytes = bytes.ok_or_else(|| malformed("is no file of this user".to_owned()))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| malformed(error.to_string()))
    }

    fn unreadable(&self, source: io::Error) -> SocketError {
        SocketError::Io { operation: "read", path: self.socket(FILE), source }
    }
}

/// The file of a daemon, which is removed with this.
#[derive(Debug)]
pub(super) struct DirectoriesFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Its device and inode; `None` if it stays when this is dropped.
    identity: Option<(u64, u64)>,
}

impl DirectoriesFile {
    /// Leaves the file to the next program.
    pub(super) fn leave(mut self) {
        self.identity = None;
    }

    /// Writes the file, or takes over the one that the program before has left.
    pub(super) fn write(directory: &RuntimeDir, directories: ProfileDirectories) -> Result<Self, SocketError> {
        let path = directory.socket(FILE);
        let error = |source| SocketError::Io { operation: "write", path: path.clone(), source };
        let contents = Published { daemon: std::process::id(), directories };
        let bytes = serde_json::to_vec(&contents).map_err(|source| error(source.into()))?;
        let is_there = read(&path).is_ok_and(|found| found.is_some_and(|found| found == bytes));
        let found = is_there.then(|| fs::symlink_metadata(&path).ok()).flatten();
        let identity = match found {
            Some(found) => (found.dev(), found.ino()),
            None => replace(&path, &bytes).map_err(error)?,
        };
        let identity = Some(identity);
        Ok(Self { path, bytes, identity })
    }

    /// Writes the file again if it was deleted, changed or replaced.
    pub(super) fn keep(&mut self) -> Result<(), SocketError> {
        if !read(&self.path).is_ok_and(|found| found.is_some_and(|bytes| bytes == self.bytes)) {
            let replaced = replace(&self.path, &self.bytes).map_err(|source| SocketError::Io {
                operation: "write",
                path: self.path.clone(),
                source,
            })?;
            self.identity = Some(replaced);
        }
        Ok(())
    }
}

impl Drop for DirectoriesFile {
    fn drop(&mut self) {
        // Only if it was not replaced.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| Some((found.dev(), found.ino())) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a file for its user alone, as a whole or not at all. After a power cut the next daemon writes it again before an agent can
/// connect, so the disk is not waited for.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<(u64, u64)> {
    // It is made with mode 0600.
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(bytes)?;
    let written = file.persist(path).map_err(|error| error.error)?.metadata()?;
    Ok((written.dev(), written.ino()))
}

/// The contents of the file at `path`. `None` if something else is there or the file is another user's. Never blocks: the daemon reads it,
/// too, and a FIFO has no end.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != geteuid().as_raw() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::super::{ADMIN_SOCKET, AGENT_SOCKET};
    use super::*;

    fn table(profiles: &[(&str, &[&Path])]) -> ProfileDirectories {
        let of_profile = |(name, directories): &(&str, &[&Path])| OfProfile {
            name: (*name).to_owned(),
            directories: directories.iter().map(|path| (*path).to_owned()).collect(),
        };
        ProfileDirectories { profiles: profiles.iter().map(of_profile).collect() }
    }

    #[test]
    fn file_of_the_program_before_is_taken_over_if_it_is_the_same() {
        let place = tempfile::tempdir().expect("writable");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it is given");
        let write =
            |name: &str| DirectoriesFile::write(&directory, table(&[(name, &[Path::new("/w")])])).expect("writable");
        let first = write("work");
        let identity = first.identity;
        first.leave();
        let same = write("work");
        assert_eq!(same.identity, identity);
        same.leave();
        assert_ne!(write("other").identity, identity);
        assert!(!directory.socket(FILE).exists(), "it is removed with its owner");
    }

    #[test]
    fn longest_directory_decides_in_whole_components() {
        let path = Path::new;
        let table = table(&[
            ("work", &[path("/none/work"), path("/none/clients/a")]),
            ("secret", &[path("/none/work/secret")]),
            ("default", &[path("/none/work/open")]),
            ("all", &[path("/none")]),
        ]);
        for (cwd, expected) in [
            ("/none/work", Some("work")),
            ("/none/work/x/y", Some("work")),
            ("/none/clients/a", Some("work")),
            ("/none/workshop", Some("all")),
            ("/none/work/secret/x", Some("secret")),
            ("/none/work/secrets", Some("work")),
            ("/none/work/open", Some("default")),
            ("/nonexistent", None),
            ("/", None),
        ] {
            let found = table.choose(path(cwd)).expect("one profile");
            assert_eq!(found.as_ref().map(|choice| &*choice.profile), expected, "{cwd}");
        }
        assert_eq!(ProfileDirectories::default().choose(path("/")).expect("no profile"), None);
    }

    #[test]
    fn links_on_both_sides_are_resolved() {
        let place = tempfile::tempdir().expect("a directory");
        let [real, link, other] = ["real", "link", "other"].map(|name| place.path().join(name));
        fs::create_dir_all(real.join("x")).expect("a fresh directory");
        symlink(&real, &link).expect("a fresh name");
        symlink(real.join("x"), &other).expect("a fresh name");
        let choose = |table: &ProfileDirectories, cwd: &Path| {
            let choice = table.choose(cwd).expect("not two profiles");
            choice.map(|DirectoryChoice { profile, directory }| (profile, directory))
        };
        let by_link = table(&[("p", &[&link])]);
        for cwd in [&real, &link, &other, &link.join("x")] {
            assert_eq!(choose(&by_link, cwd), Some(("p".to_owned(), link.clone())), "{cwd:?}");
        }
        assert_eq!(choose(&by_link, place.path()), None);
        let longest = table(&[("p", &[&link]), ("q", &[&other])]);
        assert_eq!(choose(&longest, &link.join("x")), Some(("q".to_owned(), other)));
        let twice = table(&[("p", &[&link, &real]), ("q", &[&real])]);
        let error = twice.choose(&real).expect_err("two profiles").to_string();
        assert!(error.contains("`p` and `q`") && error.contains(&*link.to_string_lossy()), "{error}");
    }

    #[test]
    fn only_a_missing_directory_is_compared_as_it_is_written() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "").expect("a fresh name");
        symlink("nowhere", path("dangling")).expect("a fresh name");
        symlink("loop", path("loop")).expect("a fresh name");
        for missing in ["none", "none/x", "file/x", "dangling"] {
            let table = table(&[("p", &[&path(missing)])]);
            assert_eq!(table.choose(place.path()).expect("it is elsewhere"), None, "{missing}");
        }
        let long = "n".repeat(300);
        for unknown in ["loop", "loop/x", &long] {
            let unknown = path(unknown);
            for (directory, cwd) in [(&*unknown, place.path()), (place.path(), &*unknown)] {
                let error = table(&[("p", &[directory])]).choose(cwd).expect_err("it may be anywhere").to_string();
                assert!(error.contains(&*unknown.to_string_lossy()), "{error}");
            }
        }
    }

    #[test]
    fn whatever_has_taken_the_place_of_the_file_is_replaced() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it is given");
        let mut written = DirectoriesFile::write(&directory, ProfileDirectories::default()).expect("it is writable");
        let (path, copy) = (written.path.clone(), place.path().join("copy"));
        fs::copy(&path, &copy).expect("a fresh name");
        let others: [&dyn Fn(); 4] = [
            &|| mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a fresh name"),
            &|| symlink(&copy, &path).expect("a fresh name"),
            &|| symlink("/dev/zero", &path).expect("a fresh name"),
            &|| drop(std::os::unix::net::UnixListener::bind(&path).expect("a fresh name")),
        ];
        for take in others {
            fs::remove_file(&path).expect("it is there");
            take();
            written.keep().expect("it is writable");
            assert!(fs::symlink_metadata(&path).expect("it is there").is_file());
        }
        fs::remove_file(&path).expect("it is there");
        fs::create_dir(&path).expect("a fresh name");
        let error = written.keep().expect_err("a directory").to_string();
        assert!(error.contains("directories.json"), "{error}");
        let left: Vec<_> = fs::read_dir(place.path()).expect("a directory").flatten().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[tokio::test]
    async fn only_a_whole_file_of_this_user_is_read() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = RuntimeDir::resolve(Some(place.path().join("run")), |_| None).expect("it is given");
        directory.create().expect("a fresh name");
        assert_eq!(directory.profile_directories().await.expect("no file"), None, "nobody listens");
        let listener = std::os::unix::net::UnixListener::bind(directory.socket(AGENT_SOCKET)).expect("a fresh name");
        let none = Some(ProfileDirectories::default());
        assert_eq!(directory.profile_directories().await.expect("no file"), none, "an earlier version of mcpd");
        drop(listener);
        let table = table(&[("p", &[Path::new("/a")])]);
        let mut written = DirectoriesFile::write(&directory, table.clone()).expect("it is writable");
        assert_eq!(directory.profile_directories().await.expect("valid").as_ref(), Some(&table));
        let file = directory.socket(FILE);
        assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
        for text in ["", "{}", r#"{"daemon":1,"profiles":[{"name":"p"}]}"#, r#"{"daemon":1,"profiles":["#] {
            fs::write(&file, text).expect("it is writable");
            let error = directory.profile_directories().await.expect_err("malformed").to_string();
            assert!(error.contains("directories.json"), "{text}: {error}");
        }
        written.keep().expect("it is writable");
        assert_eq!(directory.profile_directories().await.expect("valid again").as_ref(), Some(&table));
        fs::rename(&file, directory.socket("other")).expect("the same directory");
        symlink("other", &file).expect("a fresh name");
        directory.profile_directories().await.expect_err("a link");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is the test's own");
        directory.profile_directories().await.expect_err("others may enter the directory");
        drop(written);
        assert!(file.is_symlink(), "the file of another program stays");
    }

    /// systemd listens on the socket of agents.
    #[tokio::test]
    async fn daemon_that_has_the_lock_and_has_published_nothing_yet_is_waited_for() {
        let place = tempfile::tempdir().expect("a directory");
        let session = place.path().to_owned();
        let var = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| session.clone().into_os_string());
        let directory = RuntimeDir::resolve(None, var).expect("a session");
        let mut lock = directory.lock().expect("nobody else's");
        let _activated = std::os::unix::net::UnixListener::bind(directory.socket(AGENT_SOCKET)).expect("a fresh name");
        let reader = directory.clone();
        let read = tokio::spawn(async move { reader.profile_directories().await });
        tokio::task::yield_now().await;
        assert!(!read.is_finished());
        let table = table(&[("p", &[Path::new("/a")])]);
        lock.publish(table.clone()).expect("it is writable");
        let _operators = std::os::unix::net::UnixListener::bind(directory.socket(ADMIN_SOCKET)).expect("a fresh name");
        assert_eq!(read.await.expect("no panic").expect("valid"), Some(table));
    }

    #[test]
    fn file_is_removed_unless_it_was_replaced() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it is given");
        let write = |directories| DirectoriesFile::write(&directory, directories).expect("it is writable");
        let (first, mut second) = (write(ProfileDirectories::default()), write(table(&[("p", &[Path::new("/a")])])));
        drop(first);
        assert!(second.path.exists(), "it is another one now");
        fs::remove_file(&second.path).expect("it is there");
        second.keep().expect("it is writable");
        let path = second.path.clone();
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
