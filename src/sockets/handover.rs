//! Descriptors that a daemon passes to the program that takes its place in the same process (execve(2)): its lock and its listening
//! sockets. So no other daemon can start in between, and agents that connect wait.
//!
//! They wait in a socket that is the program's standard input, where it takes them if it has the option `--inherit`. Unlike numbers of open
//! descriptors, this needs neither `unsafe` nor a system call that containers forbid.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::stdio::{dup2_stdin, stdin};

use crate::fd_passing;

/// Maximum size of the text that describes the descriptors of one message.
const MAX_TEXT: usize = 256 * fd_passing::MAX_FDS;

/// Who has opened a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opener {
    /// mcpd, in this program or the one before.
    Daemon,
    /// The service manager, which keeps listening after mcpd ends.
    ServiceManager,
}

impl Opener {
    pub(super) fn kind(self) -> PassedKind {
        match self {
            Self::Daemon => PassedKind::Own,
            Self::ServiceManager => PassedKind::ServiceManager,
        }
    }
}

/// What a passed descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedKind {
    /// The lock of the runtime directory.
    Lock,
    /// A socket that the daemon has opened itself.
    Own,
    /// A socket that the service manager has opened.
    ServiceManager,
    /// The standard input that the daemon was started with.
    StandardInput,
}

impl PassedKind {
    const WORDS: [(Self, &'static str); 4] =
        [(Self::Lock, "lock"), (Self::Own, "own"), (Self::ServiceManager, "systemd"), (Self::StandardInput, "stdin")];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// Descriptors to pass on.
#[derive(Debug, Default)]
pub(crate) struct Handover(Vec<(PassedKind, String, OwnedFd)>);

impl Handover {
    /// The lock.
    pub(crate) fn add_lock(&mut self, lock: OwnedFd) {
        self.add(PassedKind::Lock, String::new(), lock);
    }

    pub(super) fn add(&mut self, kind: PassedKind, name: String, descriptor: OwnedFd) {
        self.0.push((kind, name, descriptor));
    }

    /// Returns the standard input of the next program, which has all of them.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn send(mut self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        self.add(PassedKind::StandardInput, String::new(), stdin().try_clone_to_owned()?);
        for batch in self.0.chunks(fd_passing::MAX_FDS) {
            let text: String = batch.iter().map(|(kind, name, _)| format!("{}:{name}\n", kind.word())).collect();
            let descriptors: Vec<_> = batch.iter().map(|(.., descriptor)| descriptor.as_fd()).collect();
            fd_passing::send(&ours, text.as_bytes(), &descriptors)?;
        }
        Ok(theirs.into())
    }
}

/// Takes the descriptors of the program before, and the standard input that it had.
///
/// # Errors
/// If the standard input is no socket with descriptors.
pub(super) fn receive() -> io::Result<Vec<(PassedKind, String, OwnedFd)>> {
    let malformed = || io::Error::other("`--inherit` is only for `mcpd restart`");
    let socket = fd_passing::inherited_socket()?;
    let (mut all, mut text) = (Vec::new(), vec![0; MAX_TEXT]);
    loop {
        let (len, descriptors) = fd_passing::receive(&socket, &mut text)?;
        if len == 0 {
            return if all.is_empty() { Err(malformed()) } else { Ok(all) };
        }
        let lines: Vec<_> = str::from_utf8(&text[..len]).map_err(|_| malformed())?.lines().collect();
        if lines.len() != descriptors.len() {
            return Err(malformed());
        }
        for (line, descriptor) in lines.into_iter().zip(descriptors) {
            let (word, name) = line.split_once(':').ok_or_else(malformed)?;
            match PassedKind::WORDS.into_iter().find(|(_, known)| *known == word).ok_or_else(malformed)?.0 {
                PassedKind::StandardInput => dup2_stdin(&descriptor)?,
                kind => all.push((kind, name.to_owned(), descriptor)),
            }
        }
    }
}

/// An owned descriptor for a number that the service manager has passed. A copy by pidfd_getfd(2) needs no `unsafe`, and no later program
/// inherits it.
pub(super) fn owned(number: RawFd) -> io::Result<OwnedFd> {
    let myself = pidfd_open(getpid(), PidfdFlags::empty())?;
    let copy = pidfd_getfd(&myself, number, PidfdGetfdFlags::empty())?;
    nix::unistd::close(number)?;
    Ok(copy)
}
