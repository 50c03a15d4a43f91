//! Connects to the socket of a daemon, and verifies who listens there.
//!
//! A daemon of this user serves in a directory that only the user can enter, and holds its lock. Where systemd opens the socket,
//! the kernel names the service manager as the listener. Any other listener has put its socket in the place of a daemon's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use super::lock::{LOCK, holder_of, holds_lock};
use super::{SocketError, check_private};

/// The process id of the system's service manager.
const SYSTEM_MANAGER: i32 = 1;
/// The socket of a user's service manager, in the directory of the login session.
const USER_MANAGER: &str = "systemd/private";

/// Who has to listen on a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ExpectedListener {
    /// The daemon of this user that owns the socket's directory.
    #[default]
    OwnDaemon,
    /// Any process of the user with this id: a guest connects to the daemon of another user.
    AnyProcessOf(u32),
}

/// Connects to the socket at `path`.
///
/// # Errors
/// If nobody listens there; an error with a [`SocketError`] if the listener is not `expected`.
pub(crate) async fn connect(path: &Path, expected: ExpectedListener) -> io::Result<UnixStream> {
    if expected == ExpectedListener::OwnDaemon {
        let directory = path.parent().unwrap_or(Path::new("."));
        check_private(directory, &fs::metadata(directory)?).map_err(io::Error::other)?;
    }
    let stream = UnixStream::connect(path).await?;
    let untrusted = |what| Err(io::Error::other(SocketError::Untrusted { path: path.to_owned(), what }));
    match check_listener(&stream, path, expected)? {
        None => Ok(stream),
        // The daemon ended after the connection was made, so nobody holds its lock and nobody listens any more.
        Some(_) if is_closed(&stream) => Err(io::ErrorKind::ConnectionRefused.into()),
        Some(what) => untrusted(what),
    }
}

/// The [`SocketError`] in `error`, if [`connect`] has refused the listener.
pub(crate) fn untrusted(error: &io::Error) -> Option<&SocketError> {
    error.get_ref()?.downcast_ref()
}

/// Why the listener is not the expected one.
fn check_listener(stream: &UnixStream, path: &Path, expected: ExpectedListener) -> io::Result<Option<String>> {
    let listener = stream.peer_cred()?;
    let (pid, uid) = (listener.pid().unwrap_or_default(), listener.uid());
    let uid_expected = match expected {
        ExpectedListener::OwnDaemon => geteuid().as_raw(),
        ExpectedListener::AnyProcessOf(uid) => uid,
    };
    if uid != uid_expected {
        let is_system_manager = expected == ExpectedListener::OwnDaemon && (pid, uid) == (SYSTEM_MANAGER, 0);
        return Ok((!is_system_manager).then(|| {
            format!("process {pid} of user {uid} listens there, not user {uid_expected}; to trust user {uid}, add `--daemon-uid {uid}`")
        }));
    }
    // A process outside of this PID namespace has no id here. Only this user could have mounted its socket in the directory.
    if pid == 0 || expected != ExpectedListener::OwnDaemon {
        return Ok(None);
    }
    let lock = path.with_file_name(LOCK);
    // Unknown where the kernel does not show locks.
    let is_holder = holds_lock(&lock, pid.cast_unsigned()).unwrap_or(true);
    if is_holder || pid == SYSTEM_MANAGER || Some(pid) == user_manager(path) {
        return Ok(None);
    }
    Ok(Some(match holder_of(&lock) {
        Some(daemon) => format!(
            "process {pid} has replaced the socket of the daemon, process {daemon}; the daemon takes it back within 2s, then try again"
        ),
        None => format!(
            "process {pid} listens there, but no daemon holds the lock of the directory; end that process, then run `mcpd start`; \
             if it is an `ssh` that forwards a socket, add `--daemon-uid {uid}`"
        ),
    }))
}

/// The process id of the service manager of the login session to which the runtime directory of the socket `path` belongs.
fn user_manager(path: &Path) -> Option<i32> {
    let manager_socket: PathBuf = path.parent()?.parent()?.join(USER_MANAGER);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(manager_socket).ok()?).ok()?;
    let manager = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
    (manager.uid() == geteuid().as_raw()).then(|| manager.pid())
}

/// Whether the listener has closed the connection.
fn is_closed(stream: &UnixStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let is_known = retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))).is_ok();
    is_known && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
