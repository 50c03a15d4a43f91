//! Sockets that the service manager has opened (socket activation). Agents that connect while no daemon runs wait for its start.
//!
//! Source: sd_listen_fds(3). Sockets have names: `mcp` is [`super::AGENT_SOCKET`], any other name is a profile. The operator's
//! socket is never activated, because a status request must not start a daemon.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use interprocess::os::unix::uds_local_socket::Listener as ActivatedSocket;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::{Listener, SocketError, SocketMode, agent_socket};

/// The sockets from the service manager that are not in use.
#[derive(Debug, Default)]
pub(crate) struct ActivatedSockets(Vec<(String, ActivatedSocket)>);

impl ActivatedSockets {
    /// Takes the sockets that the service manager passed to this process. Call it only once.
    ///
    /// # Errors
    /// If the variables that describe them are malformed.
    pub(crate) fn take_over() -> io::Result<Self> {
        let mut sockets = Vec::new();
        for (number, name) in sd_notify::listen_fds_with_names()? {
            sockets.push((name, ActivatedSocket::from(owned(number)?)));
        }
        Ok(Self(sockets))
    }

    /// Takes the socket for the file name `socket`, with its path.
    ///
    /// # Errors
    /// If it is not a Unix socket with a path, or is open to other users although `mode` does not require it.
    pub(super) fn take(
        &mut self,
        socket: &str,
        mode: SocketMode,
    ) -> Result<Option<(ActivatedSocket, PathBuf)>, SocketError> {
        let socket_name = socket.trim_end_matches(".sock");
        let Some(index) = self.0.iter().position(|(name, _)| name == socket_name) else { return Ok(None) };
        let (name, listener) = self.0.swap_remove(index);
        let address = listener.inner().local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
        let unsafe_ = |path: &Path, what: String| SocketError::Unsafe { path: path.to_owned(), what };
        let path = address.ok_or_else(|| unsafe_(Path::new(&name), "is no Unix socket with a path".to_owned()))?;
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.mode() & 0o077 == 0 || mode == SocketMode::Shared => Ok(Some((listener, path))),
            Ok(found) => {
                let mode = found.mode() & 0o7777;
                Err(unsafe_(&path, format!("is open to others (mode {mode:04o}): set `SocketMode=0600` in its unit")))
            }
            Err(source) => Err(SocketError::Io { operation: "examine", path, source }),
        }
    }

    /// Takes the socket named `PROFILE.http`, `mcp.http` for the default profile, if it listens on `address`.
    pub(crate) fn take_loopback(&mut self, profile: &str, address: SocketAddr) -> Option<TcpListener> {
        let name = loopback_name(profile);
        let index = self.0.iter().position(|(known, _)| *known == name)?;
        let copy = self.0[index].1.as_fd().try_clone_to_owned().map(TcpListener::from);
        let listener = copy.ok().filter(|copy| copy.local_addr().is_ok_and(|found| found == address));
        match listener {
            Some(_) => drop(self.0.swap_remove(index)),
            None => {
                tracing::warn!("the service manager passed a socket named `{name}` that does not listen on {address}");
            }
        }
        listener
    }

    /// Puts back a socket named `PROFILE.http`.
    pub(crate) fn put_back_loopback(&mut self, profile: &str, socket: OwnedFd) {
        self.0.push((loopback_name(profile), socket.into()));
    }

    /// Puts back the socket of `listener`, if it came from the service manager. It keeps listening and may be taken again.
    pub(crate) fn put_back(&mut self, socket: &str, listener: &Listener) {
        if let Some(Ok(copy)) = listener.duplicate() {
            let name = socket.trim_end_matches(".sock");
            self.0.push((name.to_owned(), copy));
        }
    }

    /// Warns about sockets that are not in use.
    pub(crate) fn warn_of_the_rest(&self) {
        for (name, _) in &self.0 {
            tracing::warn!(
                "the service manager passed a socket named `{name}`, but there is no such profile: remove it from the socket unit"
            );
        }
    }
}

fn loopback_name(profile: &str) -> String {
    format!("{}.http", agent_socket(profile).trim_end_matches(".sock"))
}

/// An owned descriptor for a number from the environment. A copy by pidfd_getfd(2) needs no `unsafe`.
fn owned(number: RawFd) -> io::Result<OwnedFd> {
    let myself = pidfd_open(getpid(), PidfdFlags::empty())?;
    let copy = pidfd_getfd(&myself, number, PidfdGetfdFlags::empty())?;
    nix::unistd::close(number)?;
    Ok(copy)
}
