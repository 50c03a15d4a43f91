//! The directory of logins: the file of each server's login with its lock, and the renewals in progress. A login is no state of a
//! daemon: `mcpd login` works without one, and several daemons share it.
//!
//! Each server has one file with its name, readable by this user only. It is replaced by renaming, so readers need no
//! lock. A writer holds the lock file beside it for the whole change: several processes that find an expired token
//! renew it once, and none overwrites a newer refresh token.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::record::LoginRecord;
use crate::config::interpolate::Sources;
use crate::disk::{on_disk, replace_private};
use crate::masking::KnownSecrets;

/// Largest file that is read, in bytes: tokens have a few KiB.
const MAX_FILE: u64 = 1 << 20;
/// Raised when the file format changes.
const VERSION: u32 = 1;
/// How long to wait for another process's change, which may wait for an authorization server.
const LOCK_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval of attempts to lock. A blocking wait would occupy a helper thread that the change itself may need.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The directory of logins: `$XDG_STATE_HOME/mcpd/logins`, else in `~/.local/state`.
#[must_use]
pub(crate) fn directory(sources: &dyn Sources) -> Option<PathBuf> {
    Some(sources.state_home()?.join("mcpd/logins"))
}

/// The file of one server's login.
#[derive(Debug, Clone)]
pub(super) struct Store {
    directory: PathBuf,
    server: String,
}

/// Exclusive access to a login while it lives.
pub(super) struct StoreLock {
    store: Store,
    _lock: File,
}

/// Why a stored login cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("its login cannot be read: {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("its login cannot be stored: {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("its login cannot be removed: {}: {source}", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("another mcpd process keeps its login locked")]
    Locked,
}

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    version: u32,
    #[serde(flatten)]
    record: LoginRecord,
}

impl Store {
    pub(super) fn new(directory: PathBuf, server: &str) -> Self {
        Self { directory, server: server.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.server))
    }

    /// The stored record, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or was not written by mcpd.
    pub(super) async fn read(&self) -> Result<Option<LoginRecord>, StoreError> {
        let path = self.file();
        let read = aside(move || read(&path)).await;
        read.map_err(|source| StoreError::Read { path: self.file(), source })
    }

    /// Waits for exclusive access.
    ///
    /// # Errors
    /// If that takes too long, or the directory cannot be used.
    pub(super) async fn lock(&self) -> Result<StoreLock, StoreError> {
        let failed = |source: io::Error| StoreError::Write { path: self.directory.clone(), source };
        let (directory, name) = (self.directory.clone(), format!("{}.lock", self.server));
        let mut file = aside(move || open_lock(&directory, &name)).await.map_err(failed)?;
        let end = Instant::now() + LOCK_TIMEOUT;
        loop {
            let (tried, locked) = aside(move || Ok(try_lock(file))).await.map_err(failed)?;
            file = tried;
            match locked {
                Ok(true) => return Ok(StoreLock { store: self.clone(), _lock: file }),
                Ok(false) if Instant::now() >= end => return Err(StoreError::Locked),
                Ok(false) => sleep(LOCK_INTERVAL).await,
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl StoreLock {
    /// See [`Store::read`].
    pub(super) async fn read(&self) -> Result<Option<LoginRecord>, StoreError> {
        self.store.read().await
    }

    /// # Errors
    /// If it cannot be written; the old content then stays.
    pub(super) async fn write(&self, record: LoginRecord) -> Result<(), StoreError> {
        let path = self.store.file();
        let written = aside(move || write(&path, record)).await;
        written.map_err(|source| StoreError::Write { path: self.store.file(), source })
    }

    /// # Errors
    /// If the file still exists afterwards.
    pub(super) async fn remove(&self) -> Result<(), StoreError> {
        let path = self.store.file();
        let removed = aside(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        removed.await.map_err(|source| StoreError::Remove { path: self.store.file(), source })
    }
}

/// The URL of the stored login with this name, if there is one.
pub(crate) async fn stored_url(directory: &Path, server: &str) -> Option<String> {
    let stored = Store::new(directory.to_owned(), server).read().await.ok()??;
    Some(stored.url)
}

async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    on_disk(work).await.map_err(io::Error::other)?
}

fn read(path: &Path) -> io::Result<Option<LoginRecord>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text)?;
    // The parser's error text may contain a secret from the file.
    let unknown = |_| io::Error::new(io::ErrorKind::InvalidData, "it was not written by this version of mcpd");
    let StoredRecord { version, record } = serde_json::from_slice(&text).map_err(unknown)?;
    match version {
        VERSION => Ok(Some(record)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has version {version}"))),
    }
}

/// Written to disk at once: a replaced token must survive a power failure.
fn write(path: &Path, record: LoginRecord) -> io::Result<()> {
    replace_private(path, &serde_json::to_vec_pretty(&StoredRecord { version: VERSION, record })?)
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

/// How long shutdown waits for renewals. Most authorization servers respond at once.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The directory of logins, and their renewals in progress. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
    renewals: TaskTracker,
    /// Where their tokens are added before they are used.
    secrets: KnownSecrets,
}

impl Logins {
    /// The logins in this directory, which need not exist yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let renewals = TaskTracker::new();
        // A closed tracker still counts. It only lets `wait` end once it is empty.
        renewals.close();
        Self { directory, renewals, secrets: KnownSecrets::default() }
    }

    /// The same logins. Their tokens are added to `secrets`.
    pub(crate) fn noted_in(self, secrets: &KnownSecrets) -> Self {
        Self { secrets: secrets.clone(), ..self }
    }

    pub(super) fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Marks a renewal as in progress while the value lives.
    pub(super) fn begin(&self) -> TaskTrackerToken {
        self.renewals.token()
    }

    /// Waits until no renewal is in progress, for a limited time. Returns whether none is. An authorization server that
    /// has replaced a refresh token no longer accepts the old one, so a process that ends before the new one is stored
    /// loses the login.
    pub async fn settled(&self) -> bool {
        timeout(RENEWAL_TIMEOUT, self.renewals.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::interpolate::tests::table::Table;

    #[test]
    fn directory_follows_the_xdg_specification() {
        for (rows, expected) in [
            (&[("XDG_STATE_HOME", "/s"), ("~", "/h")][..], Some("/s/mcpd/logins")),
            (&[("XDG_STATE_HOME", "s"), ("~", "/h")], Some("/h/.local/state/mcpd/logins")),
            (&[], None),
        ] {
            assert_eq!(directory(&Table::from_rows(rows)), expected.map(PathBuf::from), "{rows:?}");
        }
    }

    #[tokio::test]
    async fn stored_login_is_readable_by_its_owner_only() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().join("a/logins"), "files");
        assert!(store.read().await.expect("readable").is_none());
        let record = LoginRecord { missing: vec!["x".into()], ..LoginRecord::of("https://a.org") };
        let lock = store.lock().await.expect("nobody else");
        lock.write(record.clone()).await.expect("written");
        assert!(store.read().await.expect("readable") == Some(record), "reading waits for nobody");
        let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(store.file()), mode(store.directory.clone())), (0o600, 0o700));
        assert_eq!(stored_url(&store.directory, "files").await.as_deref(), Some("https://a.org"));
        lock.remove().await.expect("removed");
        lock.remove().await.expect("nothing to remove");
        assert!(store.read().await.expect("readable").is_none());
    }

    #[tokio::test]
    async fn second_change_waits_for_the_first() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().into(), "files");
        let first = store.lock().await.expect("nobody else");
        let mut second = Box::pin(store.lock());
        assert!(futures_util::poll!(&mut second).is_pending());
        first.write(LoginRecord::of("https://a.org")).await.expect("written");
        drop(first);
        let seen = second.await.expect("its turn").read().await.expect("readable");
        assert_eq!(seen.map(|record| record.url).as_deref(), Some("https://a.org"));
    }

    #[tokio::test]
    async fn error_about_an_invalid_file_does_not_quote_it() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(place.path().into(), "files");
        for text in ["", "secret", r#"{"version":1,"url":5,"x":"secret"}"#, r#"{"version":2,"url":"secret"}"#] {
            fs::write(store.file(), text).expect("writable");
            let error = store.read().await.err().expect("no login").to_string();
            assert!(error.contains("files.json") && !error.contains("secret"), "{error}");
        }
        fs::remove_file(store.file()).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", store.file()).expect("linked");
        assert!(store.read().await.is_err());
    }

    #[tokio::test]
    async fn settled_waits_for_the_last_renewal() {
        let logins = Logins::new(PathBuf::from("/x"));
        assert!(logins.settled().await);
        let (one, other) = (logins.begin(), logins.clone().begin());
        let mut settled = Box::pin(logins.settled());
        assert!(futures_util::poll!(&mut settled).is_pending());
        drop(one);
        assert!(futures_util::poll!(&mut settled).is_pending());
        drop(other);
        assert!(settled.await);
    }
}
