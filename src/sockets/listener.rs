//! One listening socket: bound with its mode, accepted from, removed with its file.

use std::cell::Cell;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use interprocess::os::unix::uds_local_socket::Listener as BoundSocket;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;

use super::SocketError;
use super::fd_reserve::FdReserve;

/// Until `accept` is tried again when it fails, as it does while no file descriptor is free.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Who can connect to a socket, as far as its mode says.
///
/// The directory is its owner's alone, so nobody else finds a socket there. One that is open to others can be handed to somebody,
/// by a bind mount into a container, say; who that is decides `SO_PEERCRED` before a byte is read (unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMode {
    /// The user whom mcpd runs as: mode 0600.
    Owner,
    /// Whoever is handed it: mode 0666, which connecting needs.
    Shared,
}

/// A listening socket whose file is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    pub(super) path: PathBuf,
    pub(super) identity: (u64, u64),
    mode: SocketMode,
    /// The service manager's, which goes on listening without us.
    is_activated: bool,
    /// The last connection could not be accepted, which has been said.
    failing: Cell<bool>,
    pub(super) fd_reserve: FdReserve,
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

pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Listener {
    /// Where nothing is yet: with mode 0600 from the first instant, whatever it is opened to then.
    pub(super) fn at(path: PathBuf, mode: SocketMode) -> Result<Self, SocketError> {
        let bound = bind(&path).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) = bound.map_err(|source| SocketError::Io { path: path.clone(), source })?;
        let mut listener = Self::new(socket, path, identity);
        listener.set_mode(mode)?;
        Ok(listener)
    }

    /// One that the service manager has opened, with a mode that it has chosen.
    pub(super) fn taken_over(
        socket: std::os::unix::net::UnixListener,
        path: PathBuf,
        mode: SocketMode,
    ) -> Result<Self, SocketError> {
        let taken = from_std(socket).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) = taken.map_err(|source| SocketError::Io { path: path.clone(), source })?;
        let mut listener = Self::new(socket, path, identity);
        (listener.is_activated, listener.mode) = (true, mode);
        Ok(listener)
    }

    fn new(socket: UnixListener, path: PathBuf, identity: (u64, u64)) -> Self {
        let (failing, fd_reserve) = (Cell::new(false), FdReserve::default());
        Self { socket, path, identity, mode: SocketMode::Owner, is_activated: false, failing, fd_reserve }
    }

    /// The same socket as the service manager gave it, if it did.
    pub(super) fn duplicate(&self) -> Option<io::Result<std::os::unix::net::UnixListener>> {
        self.is_activated.then(|| Ok(self.socket.as_fd().try_clone_to_owned()?.into()))
    }

    /// Who can connect.
    pub(super) fn mode(&self) -> SocketMode {
        self.mode
    }

    /// Lets others connect from now on, or no more. The mode of a socket of the service manager is left as it is.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn set_mode(&mut self, mode: SocketMode) -> Result<(), SocketError> {
        if self.mode != mode && !self.is_activated {
            let mode = Permissions::from_mode(if mode == SocketMode::Shared { 0o666 } else { 0o600 });
            match std::fs::set_permissions(&self.path, mode) {
                // It was deleted; what is made in its place will have this mode.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                changed => changed.map_err(|source| SocketError::Io { path: self.path.clone(), source })?,
            }
        }
        self.mode = mode;
        Ok(())
    }

    /// The same, with descriptors kept back: when no other is free, one connection at a time is accepted all the same.
    #[must_use]
    pub fn with_reserve(mut self) -> Self {
        self.fd_reserve = FdReserve::for_one();
        self
    }

    /// Keeps back again what the connections before have left free.
    pub fn refill(&self) {
        self.fd_reserve.fill();
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
                Err(_) if self.fd_reserve.is_given() => sleep(ACCEPT_AGAIN).await,
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
            if !self.fd_reserve.give(&error) {
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
        if !self.is_activated && identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
