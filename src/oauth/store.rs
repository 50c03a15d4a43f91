//! The file of one server's login, and who may change it.
//!
//! One file a server, named as the server is, for this user alone. It is replaced whole, by renaming, so whoever reads it needs no
//! lock. Whoever changes it holds that of the file beside it, which stays, over all that the change is made of: several processes
//! that find a token spent renew it once, and none writes what another has made useless by renewing.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::record::Record;
use crate::disk::{on_disk, replace_private};

/// Largest file that is read, in bytes: tokens have a few KiB.
const MAX_FILE: u64 = 1 << 20;
/// Raised when the shape of the file changes.
const VERSION: u32 = 1;
/// For another process to end its change, which may wait for an authorization server.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between two looks whether it has. A helper thread that waited would be missing for what it waits for.
const STEP: Duration = Duration::from_millis(50);

/// Where logins are kept by whoever has these variables: `$XDG_STATE_HOME/mcpd/logins`, else below `~/.local/state`.
/// Source: XDG Base Directory Specification.
#[must_use]
pub(crate) fn directory(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let directory = |name| var(name).filter(|path| path.is_absolute());
    let state = directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")))?;
    Some(state.join("mcpd/logins"))
}

/// Where one server's login is kept.
#[derive(Debug, Clone)]
pub(super) struct Store {
    directory: PathBuf,
    server: String,
}

/// Nobody else changes the login while this lives.
pub(super) struct Change {
    store: Store,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    #[serde(flatten)]
    record: Record,
}

impl Store {
    pub(super) fn new(directory: PathBuf, server: &str) -> Self {
        Self { directory, server: server.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.server))
    }

    /// What is kept, if there is something.
    ///
    /// # Errors
    /// If it cannot be read, or is nothing that mcpd has written.
    pub(super) async fn read(&self) -> Result<Option<Record>, String> {
        let path = self.file();
        let read = aside(move || read(&path)).await;
        read.map_err(|error| format!("its login cannot be read: {}: {error}", self.file().display()))
    }

    /// Waits until nobody else changes it.
    ///
    /// # Errors
    /// If that takes too long, or there can be no files there.
    pub(super) async fn change(&self) -> Result<Change, String> {
        let failed = |error: io::Error| format!("its login cannot be kept: {}: {error}", self.directory.display());
        let (directory, name) = (self.directory.clone(), format!("{}.lock", self.server));
        let mut file = aside(move || open_lock(&directory, &name)).await.map_err(failed)?;
        let end = Instant::now() + PATIENCE;
        loop {
            let (tried, locked) = aside(move || Ok(try_lock(file))).await.map_err(failed)?;
            file = tried;
            match locked {
                Ok(true) => return Ok(Change { store: self.clone(), _lock: file }),
                Ok(false) if Instant::now() >= end => return Err("another mcpd does not end a change of it".to_owned()),
                Ok(false) => sleep(STEP).await,
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl Change {
    /// As [`Store::read`].
    pub(super) async fn read(&self) -> Result<Option<Record>, String> {
        self.store.read().await
    }

    /// # Errors
    /// If it cannot be written; then there is what was there.
    pub(super) async fn write(&self, record: Record) -> Result<(), String> {
        let path = self.store.file();
        let written = aside(move || write(&path, record)).await;
        written.map_err(|error| format!("its login cannot be kept: {}: {error}", self.store.file().display()))
    }

    /// # Errors
    /// If there is still something afterwards.
    pub(super) async fn remove(&self) -> Result<(), String> {
        let path = self.store.file();
        let removed = aside(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        removed.await.map_err(|error| format!("its login cannot be removed: {}: {error}", self.store.file().display()))
    }
}

/// The URL of the server of which a login is kept under this name, if one is.
pub(crate) async fn kept_url(directory: &Path, server: &str) -> Option<String> {
    let kept = Store::new(directory.to_owned(), server).read().await.ok()??;
    Some(kept.url)
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    on_disk(work).await.map_err(io::Error::other)?
}

fn read(path: &Path) -> io::Result<Option<Record>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text)?;
    // What the parser says of a file may have something of the file in it.
    let unknown = |_| io::Error::new(io::ErrorKind::InvalidData, "it is nothing that this mcpd has written");
    let Kept { version, record } = serde_json::from_slice(&text).map_err(unknown)?;
    match version {
        VERSION => Ok(Some(record)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has version {version}"))),
    }
}

/// A token that was given in the place of another must not be lost with the machine's power.
fn write(path: &Path, record: Record) -> io::Result<()> {
    replace_private(path, &serde_json::to_vec_pretty(&Kept { version: VERSION, record })?)
}

fn open_lock(directory: &Path, name: &str) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(directory.join(name))
}

fn try_lock(file: File) -> (File, io::Result<bool>) {
    let locked = match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    };
    (file, locked)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn logins_are_kept_where_the_state_of_programs_is() {
        for (variables, expected) in [
            (&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")][..], Some("/s/mcpd/logins")),
            (&[("XDG_STATE_HOME", "s"), ("HOME", "/h")], Some("/h/.local/state/mcpd/logins")),
            (&[("HOME", "h")], None),
            (&[], None),
        ] {
            let var = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
            assert_eq!(directory(var), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[tokio::test]
    async fn a_login_is_read_as_it_was_written_by_its_owner_alone() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().join("a/logins"), "files");
        assert!(store.read().await == Ok(None));
        let record = Record { missing: vec!["x".into()], ..Record::of("https://a.org") };
        let change = store.change().await.expect("nobody else");
        change.write(record.clone()).await.expect("written");
        assert!(store.read().await == Ok(Some(record)), "reading waits for nobody");
        let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(store.file()), mode(store.directory.clone())), (0o600, 0o700));
        assert_eq!(kept_url(&store.directory, "files").await.as_deref(), Some("https://a.org"));
        change.remove().await.expect("removed");
        change.remove().await.expect("nothing to remove");
        assert!(store.read().await == Ok(None));
    }

    #[tokio::test]
    async fn a_change_waits_for_the_one_before() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().into(), "files");
        let first = store.change().await.expect("nobody else");
        let mut second = Box::pin(store.change());
        assert!(futures_util::poll!(&mut second).is_pending());
        first.write(Record::of("https://a.org")).await.expect("written");
        drop(first);
        let seen = second.await.expect("its turn").read().await.expect("readable");
        assert_eq!(seen.map(|record| record.url).as_deref(), Some("https://a.org"));
    }

    #[tokio::test]
    async fn what_is_no_login_is_told_without_what_it_holds() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().into(), "files");
        for text in ["", "secret", r#"{"version":1,"url":5,"x":"secret"}"#, r#"{"version":2,"url":"secret"}"#] {
            fs::write(store.file(), text).expect("writable");
            let error = store.read().await.err().expect("no login");
            assert!(error.contains("files.json") && !error.contains("secret"), "{error}");
        }
        fs::remove_file(store.file()).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", store.file()).expect("linked");
        assert!(store.read().await.is_err());
    }
}
