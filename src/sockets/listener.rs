//! A listening socket. Its file has the right mode from the start and is removed with the listener.
//!
//! `interprocess` creates the socket with mode 0600 or takes over that of systemd, and accepts. The rest is done elsewhere:
//!
//! - Streams are tokio's, because those of the crate cannot close one direction.
//! - Credentials of a peer come from tokio. The crate's `peer_creds` fails for process id 0, which the kernel reports for a process
//!   outside of the PID namespace. Clients and daemons in different containers would refuse each other.
//! - Where other users may connect, the mode becomes 0666 after the bind. The umask would reduce a mode that the crate sets, and the
//!   mode may change with the configuration.

use std::cell::{Cell, RefCell};
use std::fs::{File, Permissions};
use std::io;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use interprocess::os::unix::uds_local_socket::{Listener as LocalSocket, tokio::Listener as Socket};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags};
use tokio::net::UnixStream;
use tokio::time::{sleep, sleep_until};

use super::SocketError;
use super::handover::Opener;

/// Delay before the next attempt after `accept` has failed, for example because no file descriptor is free.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Minimum listen backlog. With a full backlog, `connect` blocks or fails.
///
/// A small backlog limits how long a client waits behind a flood.
const MIN_BACKLOG: i32 = 128;

/// The descriptors that identifying a peer takes for a moment: a handle of its process, and its entry in `/proc`.
const TO_IDENTIFY: usize = 2;
/// Those, and one for the connection.
const MAX_DESCRIPTORS: usize = 1 + TO_IDENTIFY;

/// The users that the mode of a socket permits to connect.
///
/// Only its owner can enter the directory, so other users reach a socket only if its owner passes it on, for example by a bind mount
/// into a container. mcpd then checks the peer's user (`SO_PEERCRED`, unix(7)) before it reads a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMode {
    /// The user of mcpd: mode 0600.
    Owner,
    /// Every user who can reach it: mode 0666.
    Shared,
}

/// A listening socket whose file is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    path: PathBuf,
    identity: (u64, u64),
    mode: SocketMode,
    opener: Opener,
    /// The file stays when this is dropped: another program listens on.
    is_handed_over: bool,
    /// The last attempt to accept failed, and a warning was logged.
    failing: Cell<bool>,
    fd_reserve: FdReserve,
    /// No connection is accepted until then.
    paused_until: Cell<Option<Instant>>,
    /// A connection whose peer cannot be identified until descriptors are free.
    pending: RefCell<Option<UnixStream>>,
}

/// Binds with mode 0600. The umask applies here, so [`Listener::set_mode`] opens a socket to other users afterwards.
fn bind(path: &Path) -> io::Result<Socket> {
    let name = path.to_fs_name::<GenericFilePath>()?;
    // `Listener` removes the file: the crate would also remove another file that has taken its place.
    ListenerOptions::new().name(name).mode(0o600).reclaim_name(false).create_tokio_as()
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Listener {
    /// Binds a new socket at `path`. It has mode 0600 until `mode` is applied.
    pub(super) fn at(path: PathBuf, mode: SocketMode) -> Result<Self, SocketError> {
        let bound = bind(&path).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) =
            bound.map_err(|source| SocketError::Io { operation: "listen on", path: path.clone(), source })?;
        let mut listener = Self::new(socket, path, identity);
        listener.set_mode(mode)?;
        Ok(listener)
    }

    /// Takes over a socket of the service manager, which has chosen its mode, or of the program before.
    pub(super) fn taken_over(
        (socket, path, opener): (LocalSocket, PathBuf, Opener),
        mode: SocketMode,
    ) -> Result<Self, SocketError> {
        let taken = Socket::try_from(socket).and_then(|socket| Ok((socket, identity(&path)?)));
        let (socket, identity) =
            taken.map_err(|source| SocketError::Io { operation: "take over", path: path.clone(), source })?;
        let mut listener = Self::new(socket, path, identity);
        listener.opener = opener;
        match opener {
            Opener::ServiceManager => listener.mode = mode,
            Opener::Daemon => listener.change_mode(mode)?,
        }
        Ok(listener)
    }

    /// Who has opened it.
    pub(super) fn opener(&self) -> Opener {
        self.opener
    }

    /// The socket, for another program, with its file.
    pub(super) fn hand_over(mut self) -> io::Result<OwnedFd> {
        let descriptor = self.socket.as_fd().try_clone_to_owned()?;
        self.is_handed_over = true;
        Ok(descriptor)
    }

    fn new(socket: Socket, path: PathBuf, identity: (u64, u64)) -> Self {
        let (failing, fd_reserve, pending) = (Cell::new(false), FdReserve::default(), RefCell::default());
        let (mode, opener, paused_until) = (SocketMode::Owner, Opener::Daemon, Cell::default());
        let is_handed_over = false;
        Self { socket, path, identity, mode, opener, is_handed_over, failing, fd_reserve, paused_until, pending }
    }

    fn is_activated(&self) -> bool {
        self.opener == Opener::ServiceManager
    }

    /// A duplicate of the socket, if it belongs to the service manager.
    pub(super) fn duplicate(&self) -> Option<io::Result<LocalSocket>> {
        self.is_activated().then(|| Ok(self.socket.as_fd().try_clone_to_owned()?.into()))
    }

    /// Listens anew if the socket was deleted or replaced. The lock gives this daemon the right to the path.
    pub(super) fn keep(&mut self) -> Result<(), SocketError> {
        let io = |operation, source| SocketError::Io { operation, path: self.path.clone(), source };
        let what = match std::fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => return Ok(()),
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::Replaced(self.path.clone())),
            Ok(_) => {
                std::fs::remove_file(&self.path).map_err(|source| io("remove", source))?;
                "was replaced by another program, and is taken back"
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted, and is there again",
            Err(source) => return Err(io("examine", source)),
        };
        self.recreate()?;
        tracing::warn!(socket = %self.path.display(), "{what}");
        Ok(())
    }

    fn recreate(&mut self) -> Result<(), SocketError> {
        let mut recreated = Self::at(self.path.clone(), self.mode)?;
        std::mem::swap(&mut self.fd_reserve, &mut recreated.fd_reserve);
        *self = recreated;
        Ok(())
    }

    /// Refuses all further connections, unless some wait already. Returns those, and then it listens on.
    ///
    /// # Errors
    /// If it cannot listen again.
    pub(crate) fn close_unless_waiting(&mut self) -> Result<Vec<UnixStream>, SocketError> {
        self.remove_file();
        // A connection that has already found the file is refused, too.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        let mut waiting: Vec<_> = self.pending.take().into_iter().collect();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = iter::from_fn(|| rustix::net::accept_with(&self.socket, flags).ok());
        waiting.extend(accepted.filter_map(|stream| UnixStream::from_std(stream.into()).ok()));
        if !waiting.is_empty() {
            self.recreate()?;
        }
        Ok(waiting)
    }

    /// Listens again after [`Self::close_unless_waiting`], if it does not.
    ///
    /// # Errors
    /// If it cannot.
    pub(crate) fn reopen(&mut self) -> Result<(), SocketError> {
        if identity(&self.path).is_ok_and(|found| found == self.identity) { Ok(()) } else { self.recreate() }
    }

    /// Removes the file if it is still this socket, because it may have been replaced.
    fn remove_file(&self) {
        if !self.is_activated()
            && !self.is_handed_over
            && identity(&self.path).is_ok_and(|found| found == self.identity)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Changes which users can connect. The mode of a socket of the service manager stays as it is.
    ///
    /// # Errors
    /// If the mode cannot be changed.
    pub(crate) fn set_mode(&mut self, mode: SocketMode) -> Result<(), SocketError> {
        if self.mode != mode && !self.is_activated() {
            self.change_mode(mode)?;
        }
        self.mode = mode;
        Ok(())
    }

    fn change_mode(&mut self, mode: SocketMode) -> Result<(), SocketError> {
        let bits = if mode == SocketMode::Shared { 0o666 } else { 0o600 };
        match std::fs::set_permissions(&self.path, Permissions::from_mode(bits)) {
            // The file was deleted. Its replacement gets this mode.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            changed => changed.map_err(|source| SocketError::Io {
                operation: "set the mode of",
                path: self.path.clone(),
                source,
            })?,
        }
        self.mode = mode;
        Ok(())
    }

    /// Adds a descriptor reserve: when no other descriptor is free, one connection at a time is still accepted.
    #[must_use]
    pub fn with_reserve(mut self) -> Self {
        self.fd_reserve = FdReserve::for_one();
        self
    }

    /// Refills the descriptor reserve after connections have ended.
    pub fn refill(&self) {
        self.fd_reserve.fill();
    }

    /// Sets the listen backlog: as many as are accepted without a pause.
    pub(crate) fn set_backlog(&self, burst: usize) {
        if !self.is_activated() {
            let backlog = i32::try_from(burst).unwrap_or(i32::MAX).max(MIN_BACKLOG);
            // Otherwise the largest backlog of the kernel remains.
            let _ = rustix::net::listen(&self.socket, backlog);
        }
    }

    /// Accepts nothing for this time, so that a flood of connections waits in the kernel and does not take the daemon's time.
    pub(crate) fn pause(&self, pause: Duration) {
        self.paused_until.set((!pause.is_zero()).then(|| Instant::now() + pause));
    }

    /// The path of its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection. Cancel safe.
    pub async fn accept(&self) -> UnixStream {
        loop {
            if let Some(until) = self.paused_until.get() {
                sleep_until(until.into()).await;
            }
            match self.accept_one().await {
                Ok(stream) => {
                    self.failing.set(false);
                    return stream;
                }
                // A connection uses the reserve, so this error is expected.
                Err(_) if self.fd_reserve.is_in_use() => sleep(ACCEPT_AGAIN).await,
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
        let stream = match self.pending.take() {
            Some(stream) => stream,
            None => self.accept_connection().await?,
        };
        match check_descriptors() {
            Err(error) if !self.fd_reserve.release(&error) => {
                self.pending.replace(Some(stream));
                Err(error)
            }
            _ => Ok(stream),
        }
    }

    async fn accept_connection(&self) -> io::Result<UnixStream> {
        loop {
            self.refill();
            let error = match self.socket.accept().await {
                Ok(stream) => return Ok(stream.into()),
                Err(error) => error,
            };
            if !self.fd_reserve.release(&error) {
                return Err(error);
            }
            // At once, before other code uses the released descriptors. Without one, `accept` fails even if no connection waits.
            if let Some(accepted) = self.socket.accept().now_or_never() {
                return accepted.map(UnixStream::from);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// Fails if the descriptors to identify a peer are not available.
fn check_descriptors() -> io::Result<()> {
    [(); TO_IDENTIFY].map(|()| File::open("/dev/null")).into_iter().try_for_each(|file| file.map(drop))
}

/// A reserve of file descriptors, so that one connection can be accepted when all others are in use. The default is empty.
#[derive(Debug, Default)]
pub(super) struct FdReserve {
    size: usize,
    files: RefCell<Vec<File>>,
}

impl FdReserve {
    /// A reserve for one connection.
    fn for_one() -> Self {
        let full = Self { size: MAX_DESCRIPTORS, ..Self::default() };
        full.fill();
        full
    }

    /// Reserves descriptors again, as far as free ones are available.
    fn fill(&self) {
        let mut files = self.files.borrow_mut();
        while files.len() < self.size
            && let Ok(file) = File::open("/dev/null")
        {
            files.push(file);
        }
    }

    /// Whether a connection uses a part of the reserve.
    fn is_in_use(&self) -> bool {
        (1..self.size).contains(&self.files.borrow().len())
    }

    /// Releases the whole reserve if `error` means that no descriptor is free. Returns whether it did. A part of the reserve is not
    /// enough for a connection.
    fn release(&self, error: &io::Error) -> bool {
        let mut files = self.files.borrow_mut();
        let is_exhausted =
            [Errno::MFILE, Errno::NFILE].iter().any(|one| error.raw_os_error() == Some(one.raw_os_error()));
        let releases = is_exhausted && self.size > 0 && files.len() == self.size;
        if releases {
            files.clear();
        }
        releases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_closes_unless_a_connection_waits_for_it() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a.sock");
        let mut listener = Listener::at(path.clone(), SocketMode::Owner).expect("a fresh name");
        let first = UnixStream::connect(&path).await.expect("it listens");
        let waiting = listener.close_unless_waiting().expect("it listens on");
        assert_eq!(waiting.len(), 1);
        waiting[0].writable().await.expect("it is connected");
        waiting[0].try_write(b"x").expect("it is connected");
        first.readable().await.expect("it is connected");
        let second = UnixStream::connect(&path).await.expect("it listens again");
        drop(listener.accept().await);
        drop(second);

        assert!(listener.close_unless_waiting().expect("nothing to do").is_empty());
        let error = UnixStream::connect(&path).await.expect_err("it is closed");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        listener.reopen().expect("the name is free");
        UnixStream::connect(&path).await.expect("it listens again");
    }

    /// The file was found before it was removed.
    #[tokio::test]
    async fn connection_that_comes_after_the_close_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let [path, link] = ["a.sock", "b.sock"].map(|name| place.path().join(name));
        let mut listener = Listener::at(path.clone(), SocketMode::Owner).expect("a fresh name");
        std::fs::hard_link(&path, &link).expect("the same disk");
        assert!(listener.close_unless_waiting().expect("nothing to do").is_empty());
        let error = UnixStream::connect(&link).await.expect_err("it is closed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
