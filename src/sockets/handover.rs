//! Descriptors that a daemon passes to the program that takes its place in the same process (execve(2)): its lock and its listening
//! sockets. So no other daemon can start in between, and agents that connect wait.
//!
//! The program receives them as the option `--inherit`, such as `lock:=7,own:mcp=8,systemd:reviewer=9`.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::str::FromStr;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

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
}

impl PassedKind {
    const WORDS: [(Self, &'static str); 3] =
        [(Self::Lock, "lock"), (Self::Own, "own"), (Self::ServiceManager, "systemd")];
}

impl fmt::Display for PassedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(kind, _)| kind == self);
        f.write_str(word.map_or("", |(_, word)| word))
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

    /// Lets the next program inherit them. Returns the value of its option.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn make_inheritable(&self) -> io::Result<String> {
        let mut entries = Vec::new();
        for (kind, name, descriptor) in &self.0 {
            fcntl_setfd(descriptor, FdFlags::empty())?;
            entries.push(format!("{kind}:{name}={}", descriptor.as_raw_fd()));
        }
        Ok(entries.join(","))
    }
}

/// Descriptors that this program has inherited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InheritedDescriptors(Vec<(PassedKind, String, RawFd)>);

impl FromStr for InheritedDescriptors {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entry = |entry: &str| {
            let (kind, rest) = entry.split_once(':')?;
            let (name, number) = rest.split_once('=')?;
            let (kind, _) = PassedKind::WORDS.into_iter().find(|(_, word)| *word == kind)?;
            Some((kind, name.to_owned(), number.parse().ok().filter(|number| *number > 2)?))
        };
        text.split(',').map(entry).collect::<Option<_>>().map(Self).ok_or("is only for `mcpd restart`")
    }
}

impl InheritedDescriptors {
    /// Takes them. Call it only once.
    ///
    /// # Errors
    /// If one of them is not open.
    pub(super) fn take(self) -> io::Result<Vec<(PassedKind, String, OwnedFd)>> {
        self.0.into_iter().map(|(kind, name, number)| Ok((kind, name, owned(number)?))).collect()
    }
}

/// Whether this program can take over descriptors. Some containers forbid it.
///
/// # Errors
/// The refusal of the system.
pub(crate) fn can_inherit() -> io::Result<()> {
    let (_, copied) = rustix::pipe::pipe()?;
    owned(copied.into_raw_fd()).map(drop)
}

/// An owned descriptor for a number. A copy by pidfd_getfd(2) needs no `unsafe`, and no later program inherits it.
pub(super) fn owned(number: RawFd) -> io::Result<OwnedFd> {
    let myself = pidfd_open(getpid(), PidfdFlags::empty())?;
    let copy = pidfd_getfd(&myself, number, PidfdGetfdFlags::empty())?;
    nix::unistd::close(number)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_are_passed_on_by_number_and_taken_back() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut handover = Handover::default();
        handover.add_lock(theirs.try_clone().expect("a descriptor").into());
        handover.add(PassedKind::ServiceManager, "a_b.http".to_owned(), theirs.into());
        let text = handover.make_inheritable().expect("they are open");
        // As an exec leaves them: open, and owned by nobody.
        for (.., descriptor) in handover.0 {
            let _ = descriptor.into_raw_fd();
        }
        let taken = text.parse::<InheritedDescriptors>().expect("its own text").take().expect("they are open");
        let names: Vec<_> = taken.iter().map(|(kind, name, _)| (*kind, name.as_str())).collect();
        assert_eq!(names, [(PassedKind::Lock, ""), (PassedKind::ServiceManager, "a_b.http")]);
        drop(taken);
        assert!(ours.write_all(b"x").is_err(), "nothing else holds it");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "lock", "lock:=", "lock:=x", "lock:=2", "own:mcp=-1", "other:mcp=7", "lock:=7,"] {
            assert!(text.parse::<InheritedDescriptors>().is_err(), "{text}");
        }
    }
}
