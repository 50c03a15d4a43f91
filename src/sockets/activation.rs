//! Sockets that the service manager has opened already, so that agents which connect while no daemon runs wait for one.
//!
//! Source: sd_listen_fds(3). They are known by name: `mcp` is [`super::AGENT_SOCKET`], any
//! other the socket of the profile of that name. The operator's socket is never one:
//! asking for status must not start a daemon.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::{Listener, SocketError, SocketMode};

/// Those that were given and not taken.
#[derive(Debug, Default)]
pub(crate) struct ActivatedSockets(Vec<(String, UnixListener)>);

impl ActivatedSockets {
    /// What the service manager gave this process. To be called once.
    ///
    /// # Errors
    /// If what it says of them cannot be understood.
    pub(crate) fn take_over() -> io::Result<Self> {
        let mut sockets = Vec::new();
        for (number, name) in sd_notify::listen_fds_with_names()? {
            sockets.push((name, UnixListener::from(owned(number)?)));
        }
        Ok(Self(sockets))
    }

    /// The one for `socket`, with its path.
    ///
    /// # Errors
    /// If it is no Unix socket with a path, or open to others without need.
    pub(super) fn take(
        &mut self,
        socket: &str,
        mode: SocketMode,
    ) -> Result<Option<(UnixListener, PathBuf)>, SocketError> {
        let socket_name = socket.trim_end_matches(".sock");
        let Some(index) = self.0.iter().position(|(name, _)| name == socket_name) else { return Ok(None) };
        let (name, listener) = self.0.swap_remove(index);
        let address = listener.local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
        let unsafe_ = |path: &Path, what: String| SocketError::Unsafe { path: path.to_owned(), what };
        let path = address.ok_or_else(|| unsafe_(Path::new(&name), "is no Unix socket with a path".to_owned()))?;
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.mode() & 0o077 == 0 || mode == SocketMode::Shared => Ok(Some((listener, path))),
            Ok(found) => {
                let mode = found.mode() & 0o7777;
                Err(unsafe_(&path, format!("is open to others (mode {mode:04o}): say SocketMode=0600 in its unit")))
            }
            Err(source) => Err(SocketError::Io { path, source }),
        }
    }

    /// Takes back one that was taken for `socket`, if it was: it goes on listening, and may be taken again.
    pub(crate) fn put_back(&mut self, socket: &str, listener: &Listener) {
        if let Some(Ok(copy)) = listener.duplicate() {
            let name = socket.trim_end_matches(".sock");
            self.0.push((name.to_owned(), copy));
        }
    }

    /// Says of those that nobody has taken that they are of no use.
    pub(crate) fn warn_of_the_rest(&self) {
        for (name, _) in &self.0 {
            tracing::warn!("the service manager gave a socket named `{name}`, of which mcpd has no use");
        }
    }
}

/// By number it is known to nobody who would close it. Asking the kernel for a copy is the safe way to one that is owned.
fn owned(number: RawFd) -> io::Result<OwnedFd> {
    let myself = pidfd_open(getpid(), PidfdFlags::empty())?;
    let copy = pidfd_getfd(&myself, number, PidfdGetfdFlags::empty())?;
    nix::unistd::close(number)?;
    Ok(copy)
}
