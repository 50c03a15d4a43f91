//! The runtime directory: its lock, its sockets, and who may be at the other end.
//!
//! Knows: paths, modes, descriptors. Must not touch: what is said over a socket.
//!
//! One daemon a directory: the lock is held for life and never removed, so whoever holds it may take over sockets that
//! a killed daemon has left.

mod activation;
mod error;
mod presence;
mod reserve;

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::Listener as BoundSocket;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;

pub(crate) use self::activation::Activated;
pub use self::error::SocketError;
pub(crate) use self::presence::Presence;
use self::reserve::Reserve;

/// The default profile's socket.
pub const AGENT_SOCKET: &str = "mcp.sock";
/// The operator's socket.
pub const ADMIN_SOCKET: &str = "admin.sock";
const LOCK: &str = "lock";
/// Longest path of a socket, in bytes (unix(7): 108 with the closing zero).
const MAX_PATH: usize = 107;
/// Until `accept` is tried again when it fails, as it does while no file descriptor is free.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Where a daemon and its clients meet.
#[derive(Debug, Clone)]
pub struct RuntimeDir(PathBuf);

impl RuntimeDir {
    /// `given`, else `$XDG_RUNTIME_DIR/mcpd`, else `$HOME/.local/state/mcpd/run`; never a shared temp directory.
    ///
    /// # Errors
    /// [`SocketError::NoDirectory`] if none of the three is there.
    pub fn resolve(given: Option<PathBuf>, var: impl Fn(&str) -> Option<OsString>) -> Result<Self, SocketError> {
        let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        given
            .or_else(|| Some(absolute("XDG_RUNTIME_DIR")?.join("mcpd")))
            .or_else(|| Some(absolute("HOME")?.join(".local/state/mcpd/run")))
            .map(Self)
            .ok_or(SocketError::NoDirectory)
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the socket `name`.
    #[must_use]
    pub fn socket(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates the directory if it is absent, and takes the lock.
    ///
    /// # Errors
    /// If the directory is not this user's alone, or another daemon holds the lock.
    pub fn lock(&self) -> Result<Lock, SocketError> {
        self.create()?;
        let path = self.0.join(LOCK);
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| SocketError::Io { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file, directory: self.clone() }),
            Err(TryLockError::WouldBlock) => Err(SocketError::AlreadyRunning(self.0.clone())),
            Err(TryLockError::Error(source)) => Err(SocketError::Io { path, source }),
        }
    }

    fn create(&self) -> Result<(), SocketError> {
        let path = self.0.clone();
        let io = |source| SocketError::Io { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(io)?;
        let found = std::fs::symlink_metadata(&self.0).map_err(io)?;
        let refuse = |what: String| Err(SocketError::Unsafe { path: path.clone(), what });
        if !found.is_dir() {
            return refuse("is not a directory".to_owned());
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return refuse(format!("belongs to user {}", found.uid()));
        }
        if found.mode() & 0o077 != 0 {
            return refuse(format!("is open to others (mode {:04o}): chmod 700 it", found.mode() & 0o7777));
        }
        Ok(())
    }
}

/// The right to serve in a directory, held as long as this lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
    directory: RuntimeDir,
}

/// A listening socket whose file is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    /// The service manager's, which goes on listening without us.
    is_lent: bool,
    /// The last connection could not be accepted, which has been said.
    failing: Cell<bool>,
    reserve: Reserve,
}

impl Lock {
    /// Takes over the socket `name` if the service manager has opened it, else listens as [`Lock::listen`] does.
    ///
    /// # Errors
    /// As [`Lock::listen`]; if what was opened is not this user's alone.
    pub(crate) fn listen_or_take(&self, name: &str, activated: &mut Activated) -> Result<Listener, SocketError> {
        match activated.take(name)? {
            Some((socket, path)) => Listener::taken_over(socket, path),
            None => self.listen(name),
        }
    }

    /// Listens on the socket `name`, mode 0600 from the first instant, in place of one left by a killed daemon.
    ///
    /// # Errors
    /// If the path is too long, taken by something else, or the system refuses.
    pub fn listen(&self, name: &str) -> Result<Listener, SocketError> {
        let path = self.directory.socket(name);
        if path.as_os_str().len() > MAX_PATH {
            return Err(SocketError::PathTooLong(path));
        }
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path)),
            Ok(_) => std::fs::remove_file(&path).map_err(|source| SocketError::Io { path: path.clone(), source })?,
            Err(_) => {}
        }
        Listener::at(path)
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let name = path.to_fs_name::<GenericFilePath>()?;
    let options = ListenerOptions::new().name(name).mode(0o600).reclaim_name(false);
    let bound: BoundSocket = options.create_sync_as()?;
    from_std(std::os::unix::net::UnixListener::from(OwnedFd::from(bound)))
}

fn from_std(socket: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Listener {
    /// Where nothing is yet.
    fn at(path: PathBuf) -> Result<Self, SocketError> {
        let bound = bind(&path).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) = bound.map_err(|source| SocketError::Io { path: path.clone(), source })?;
        Ok(Self::new(socket, path, identity))
    }

    fn taken_over(socket: std::os::unix::net::UnixListener, path: PathBuf) -> Result<Self, SocketError> {
        let taken = from_std(socket).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) = taken.map_err(|source| SocketError::Io { path: path.clone(), source })?;
        let mut listener = Self::new(socket, path, identity);
        listener.is_lent = true;
        Ok(listener)
    }

    fn new(socket: UnixListener, path: PathBuf, identity: (u64, u64)) -> Self {
        Self { socket, path, identity, is_lent: false, failing: Cell::new(false), reserve: Reserve::default() }
    }

    /// The same, with descriptors kept back: when no other is free, one connection at a time is accepted all the same.
    #[must_use]
    pub fn with_reserve(mut self) -> Self {
        self.reserve = Reserve::for_one();
        self
    }

    /// Keeps back again what the connections before have left free.
    pub fn refill(&self) {
        self.reserve.fill();
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection. May be cancelled without loss.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.accept_one().await {
                Ok(stream) => {
                    self.failing.set(false);
                    return stream;
                }
                // It is served already, with what was kept back for it.
                Err(_) if self.reserve.is_given() => sleep(ACCEPT_AGAIN).await,
                Err(error) => {
                    if !self.failing.replace(true) {
                        tracing::warn!(socket = %self.path.display(), "cannot accept connections for now: {error}");
                    }
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn accept_one(&self) -> io::Result<UnixStream> {
        loop {
            self.refill();
            let error = match self.socket.accept().await {
                Ok((stream, _)) => return Ok(stream),
                Err(error) => error,
            };
            if !self.reserve.give(&error) {
                return Err(error);
            }
            // At once, before anybody else has what was given. Without a descriptor `accept` fails also if nobody waits.
            if let Some(accepted) = self.socket.accept().now_or_never() {
                return accepted.map(|(stream, _)| stream);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only our own: somebody may have replaced the file.
        if !self.is_lent && identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_in_the_documented_order() {
        let check = |given: Option<&str>, vars: &[(&str, &str)], expected: Option<&str>| {
            let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            let found = RuntimeDir::resolve(given.map(PathBuf::from), var).ok();
            assert_eq!(found.map(|dir| dir.0), expected.map(PathBuf::from), "{given:?} {vars:?}");
        };
        let both = [("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/home/u")];
        check(Some("d"), &both, Some("d"));
        check(None, &both, Some("/run/user/7/mcpd"));
        check(None, &both[1..], Some("/home/u/.local/state/mcpd/run"));
        check(None, &[("XDG_RUNTIME_DIR", ""), both[1]], Some("/home/u/.local/state/mcpd/run"));
        check(None, &[], None);
    }
}
