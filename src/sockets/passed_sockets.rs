//! Sockets that this process was given at its start. The service manager has opened them (socket activation), or the program that this
//! one has replaced ([`handover`](super::handover)). Agents that connect while no daemon runs wait for its start.
//!
//! Source: sd_listen_fds(3). Sockets have names: `mcp` is [`super::AGENT_SOCKET`], any other name is a profile. The operator's
//! socket is never activated, because a status request must not start a daemon.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use interprocess::os::unix::uds_local_socket::Listener as LocalSocket;

use super::handover::{self, Handover, Opener, PassedKind};
use super::{ADMIN_SOCKET, Listener, SocketError, SocketMode, agent_socket};

#[derive(Debug)]
struct PassedSocket {
    name: String,
    opener: Opener,
    socket: LocalSocket,
}

/// The sockets that were passed to this process and are not in use.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets(Vec<PassedSocket>);

impl PassedSockets {
    /// Takes the sockets that the service manager passed to this process, or those of the program before if this is its successor, with
    /// its lock. Call it only once.
    ///
    /// # Errors
    /// If what describes them is malformed.
    pub(crate) fn take_over(is_successor: bool) -> io::Result<(Self, Option<File>)> {
        let (mut sockets, mut lock) = (Vec::new(), None);
        let mut add = |name, opener, descriptor| {
            sockets.push(PassedSocket { name, opener, socket: LocalSocket::from(descriptor) })
        };
        if is_successor {
            for (kind, name, descriptor) in handover::receive()? {
                match kind {
                    PassedKind::Lock => lock = Some(File::from(descriptor)),
                    PassedKind::Own => add(name, Opener::Daemon, descriptor),
                    PassedKind::ServiceManager => add(name, Opener::ServiceManager, descriptor),
                    PassedKind::StandardInput => {}
                }
            }
        } else {
            for (number, name) in sd_notify::listen_fds_with_names()? {
                add(name, Opener::ServiceManager, handover::owned(number)?);
            }
        }
        Ok((Self(sockets), lock))
    }

    /// Splits off the operator's socket of the program before.
    pub(crate) fn split_off_admin(&mut self) -> Self {
        let is_admin = |one: &mut PassedSocket| one.opener == Opener::Daemon && one.name == stem(ADMIN_SOCKET);
        Self(self.0.extract_if(.., is_admin).collect())
    }

    /// Takes the socket for the file name `socket`, with its path and who has opened it.
    ///
    /// # Errors
    /// If it is not a Unix socket with a path, or is open to other users although `mode` does not require it.
    pub(super) fn take(
        &mut self,
        socket: &str,
        mode: SocketMode,
    ) -> Result<Option<(LocalSocket, PathBuf, Opener)>, SocketError> {
        let Some(index) = self.0.iter().position(|one| one.name == stem(socket)) else { return Ok(None) };
        let PassedSocket { name, opener, socket } = self.0.swap_remove(index);
        let address = socket.inner().local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
        let unsafe_ = |path: &Path, what: String| SocketError::Unsafe { path: path.to_owned(), what };
        let path = address.ok_or_else(|| unsafe_(Path::new(&name), "is no Unix socket with a path".to_owned()))?;
        match (std::fs::symlink_metadata(&path), opener) {
            (Ok(found), Opener::Daemon) if found.file_type().is_socket() => Ok(Some((socket, path, opener))),
            // Its file was deleted or replaced: it is created anew.
            (_, Opener::Daemon) => Ok(None),
            (Ok(found), _) if found.mode() & 0o077 == 0 || mode == SocketMode::Shared => {
                Ok(Some((socket, path, opener)))
            }
            (Ok(found), _) => {
                let mode = found.mode() & 0o7777;
                Err(unsafe_(&path, format!("is open to others (mode {mode:04o}): set `SocketMode=0600` in its unit")))
            }
            (Err(source), _) => Err(SocketError::Io { operation: "examine", path, source }),
        }
    }

    /// Takes the socket that listens on `address`, of the program before or, named `PROFILE.http` (`mcp.http` for the default profile), of the
    /// service manager.
    pub(crate) fn take_loopback(&mut self, profile: &str, address: SocketAddr) -> Option<(TcpListener, Opener)> {
        let copy_at = |one: &PassedSocket| {
            let copy = TcpListener::from(one.socket.as_fd().try_clone_to_owned().ok()?);
            copy.local_addr().is_ok_and(|found| found == address).then_some(copy)
        };
        // A profile may have been renamed since, or have another address now.
        let mut own = self.0.iter().enumerate().filter(|(_, one)| one.opener == Opener::Daemon);
        if let Some((index, copy)) = own.find_map(|(index, one)| Some((index, copy_at(one)?))) {
            return Some((copy, self.0.swap_remove(index).opener));
        }
        let name = loopback_name(profile);
        let index = self.0.iter().position(|one| one.opener == Opener::ServiceManager && one.name == name)?;
        let Some(copy) = copy_at(&self.0[index]) else {
            tracing::warn!("the service manager passed a socket named `{name}` that does not listen on {address}");
            return None;
        };
        Some((copy, self.0.swap_remove(index).opener))
    }

    /// Puts back a socket named `PROFILE.http` of the service manager.
    pub(crate) fn put_back_loopback(&mut self, profile: &str, socket: OwnedFd) {
        let (name, opener) = (loopback_name(profile), Opener::ServiceManager);
        self.0.push(PassedSocket { name, opener, socket: socket.into() });
    }

    /// Puts back the socket of `listener`, if it came from the service manager. It keeps listening and may be taken again.
    pub(crate) fn put_back(&mut self, socket: &str, listener: &Listener) {
        if let Some(Ok(copy)) = listener.duplicate() {
            let (name, opener) = (stem(socket).to_owned(), Opener::ServiceManager);
            self.0.push(PassedSocket { name, opener, socket: copy });
        }
    }

    /// Closes the sockets of the program before that are not in use, and warns about those of the service manager.
    pub(crate) fn settle(&mut self) {
        self.0.retain(|one| one.opener == Opener::ServiceManager);
        for PassedSocket { name, .. } in &self.0 {
            tracing::warn!(
                "the service manager passed a socket named `{name}`, but there is no such profile: remove it from the socket unit"
            );
        }
    }

    /// Passes all on to the next program.
    pub(crate) fn hand_over(self, to: &mut Handover) {
        for PassedSocket { name, opener, socket } in self.0 {
            to.add(opener.kind(), name, socket.into());
        }
    }
}

impl Handover {
    /// The listening socket with this file name.
    pub(crate) fn add_listener(&mut self, socket: &str, listener: Listener) {
        let opener = listener.opener();
        self.add_or_warn(opener, stem(socket).to_owned(), listener.hand_over());
    }

    /// The loopback listener of a profile.
    pub(crate) fn add_loopback(&mut self, profile: &str, (descriptor, opener): (io::Result<OwnedFd>, Opener)) {
        self.add_or_warn(opener, loopback_name(profile), descriptor);
    }

    /// The next program opens a socket anew that cannot be passed on.
    fn add_or_warn(&mut self, opener: Opener, name: String, descriptor: io::Result<OwnedFd>) {
        match descriptor {
            Ok(descriptor) => self.add(opener.kind(), name, descriptor),
            Err(error) => tracing::warn!(name, "this socket is closed for a moment: {error}"),
        }
    }
}

/// The name of the socket with this file name.
fn stem(socket: &str) -> &str {
    socket.trim_end_matches(".sock")
}

fn loopback_name(profile: &str) -> String {
    format!("{}.http", stem(&agent_socket(profile)))
}
