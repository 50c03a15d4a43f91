//! The runtime directory: its lock, its sockets, and who may be at the other end.
//!
//! Knows: paths, modes, descriptors. Must not touch: what is said over a socket.
//!
//! One daemon a directory: the lock is held for life and never removed, so whoever holds it may take over sockets that
//! a killed daemon has left. A lock counts only while its file is in its place, which [`socket_upkeep`] checks: if another daemon
//! has locked a new file there, the older daemon ends.

mod connect;
mod handover;
mod listener;
mod lock;
mod passed_sockets;
mod peer_process;
mod profile_directories;
mod socket_upkeep;

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

pub(crate) use self::connect::{ExpectedListener, connect, untrusted};
pub(crate) use self::handover::{Handover, Opener};
pub use self::listener::{Listener, SocketMode};
pub(crate) use self::lock::LOCK;
pub use self::lock::Lock;
pub(crate) use self::passed_sockets::PassedSockets;
pub(crate) use self::peer_process::PeerProcess;
pub(crate) use self::profile_directories::{DirectoryChoice, DirectoryError, ProfileDirectories};
pub(crate) use self::socket_upkeep::{SocketUpkeep, Standing};
use crate::config::Profile;

/// The default profile's socket.
pub const AGENT_SOCKET: &str = "mcp.sock";
/// The operator's socket.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// Longest path of a socket, in bytes (unix(7): 108 with the closing zero).
pub(crate) const MAX_PATH: usize = 107;

/// Why the sockets cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon holds the lock.
    #[error("mcpd is already running with runtime directory {}: stop it with `mcpd stop`, or use another --runtime-dir", .0.display())]
    AlreadyRunning(PathBuf),
    /// The runtime directory cannot be determined.
    #[error("no runtime directory: set XDG_RUNTIME_DIR or HOME, or pass --runtime-dir DIR")]
    NoDirectory,
    /// Other users can enter the directory, or it is not a directory of this user.
    #[error("runtime directory {}: {what}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// The path does not fit into a socket address.
    #[error("socket path {} has {} bytes; the maximum is {MAX_PATH}: use a shorter --runtime-dir, or shorten the profile's name", .0.display(), .0.as_os_str().len())]
    PathTooLong(PathBuf),
    /// The path of a socket leads to another kind of file.
    #[error("{} exists and is not a socket: move it away", .0.display())]
    NotASocket(PathBuf),
    /// The file of a socket of this daemon was replaced by a file that is no socket.
    #[error("{} was replaced by a file that is no socket: move that file away", .0.display())]
    Replaced(PathBuf),
    /// The process that listens on a socket is not the daemon.
    #[error("{} is not trusted: {what}", path.display())]
    Untrusted {
        /// The socket.
        path: PathBuf,
        /// Who listens there, and what to do.
        what: String,
    },
    /// A file that the daemon has written was changed.
    #[error("{} was changed by another program: {what}; the daemon writes it again within 2s, then try again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A system call failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The failed operation, such as `open`.
        operation: &'static str,
        /// The path that it was about.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The socket of a profile.
#[must_use]
pub fn agent_socket(profile: &str) -> String {
    match profile {
        Profile::DEFAULT => AGENT_SOCKET.to_owned(),
        profile => format!("{profile}.sock"),
    }
}

/// Names the directory of the login session.
pub(crate) const SESSION_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// Where a daemon and its clients meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeDir {
    path: PathBuf,
    source: DirectorySource,
}

/// How a runtime directory is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectorySource {
    /// `--runtime-dir`.
    Option,
    /// The login session, whose directory is the parent.
    Session,
    /// `HOME`.
    Home,
}

impl RuntimeDir {
    /// `given`, else the first of [`RuntimeDir::defaults`]. A daemon and its clients find each other by it.
    ///
    /// A Snap or a Flatpak has a session directory of its own. If no daemon serves there, a daemon in another default directory is used.
    ///
    /// # Errors
    /// [`SocketError::NoDirectory`] if there is none.
    pub fn resolve(given: Option<PathBuf>, var: impl Fn(&str) -> Option<OsString>) -> Result<Self, SocketError> {
        let given = given.map(|path| Self { path, source: DirectorySource::Option });
        given.or_else(|| Self::of_defaults(var, login_session())).ok_or(SocketError::NoDirectory)
    }

    fn of_defaults(var: impl Fn(&str) -> Option<OsString>, login: Option<PathBuf>) -> Option<Self> {
        let is_flatpak = var("FLATPAK_ID").is_some();
        let mut defaults = Self::defaults_with(var, login.clone()).into_iter();
        let first = defaults.next()?;
        let is_snap =
            first.session().zip(login).is_some_and(|(session, login)| session != login && session.starts_with(login));
        let is_confined = first.session().is_some() && (is_flatpak || is_snap);
        let served =
            (is_confined && !first.listens_for_agents()).then(|| defaults.find(Self::listens_for_agents)).flatten();
        Some(served.unwrap_or(first))
    }

    /// `$XDG_RUNTIME_DIR/mcpd`, `/run/user/UID/mcpd` if `/run/user/UID` is the user's, and `$HOME/.local/state/mcpd/run`; never a
    /// shared temp directory.
    ///
    /// The second one is for programs that leave out the variable: SDKs start servers, and so `mcpd connect`, with little more than
    /// `HOME` and `PATH`.
    pub(crate) fn defaults(var: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        Self::defaults_with(var, login_session())
    }

    fn defaults_with(var: impl Fn(&str) -> Option<OsString>, login: Option<PathBuf>) -> Vec<Self> {
        let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let mut all: Vec<_> = [absolute(SESSION_VARIABLE), login].into_iter().flatten().collect();
        all.dedup();
        let home = absolute("HOME").map(|home| home.join(".local/state/mcpd/run"));
        let sessions = all.iter().map(|session| Self::of_session(session));
        sessions.chain(home.map(|path| Self { path, source: DirectorySource::Home })).collect()
    }

    /// The other default directories in which a daemon of this user serves now; none if this one was given.
    pub(crate) fn others_served(&self, var: impl Fn(&str) -> Option<OsString>) -> Vec<Self> {
        let others = if self.is_given() { Vec::new() } else { Self::defaults(var) };
        let real = |directory: &Self| directory.path.canonicalize().ok();
        others.into_iter().filter(|other| real(other) != real(self) && other.has_daemon()).collect()
    }

    /// Below the directory of a login session.
    fn of_session(session: &Path) -> Self {
        Self { path: session.join("mcpd"), source: DirectorySource::Session }
    }

    /// Whether a daemon serves there. It creates the operator's socket last, and closes it last. Nobody is waited for: one that is stopped may
    /// have no room for one more, and serves.
    pub(crate) fn is_served(&self) -> bool {
        self.listens_for_agents() && self.has_daemon()
    }

    /// Whether a daemon listens there, if only for operators. systemd never has their socket.
    fn has_daemon(&self) -> bool {
        self.listens(ADMIN_SOCKET)
    }

    /// Whether a daemon or systemd listens there for agents.
    fn listens_for_agents(&self) -> bool {
        self.listens(AGENT_SOCKET)
    }

    /// Whether a program listens on the socket `name`.
    fn listens(&self, name: &str) -> bool {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let Ok(address) = SocketAddrUnix::new(self.socket(name)) else { return false };
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .is_ok_and(|socket| matches!(rustix::net::connect(&socket, &address), Ok(()) | Err(Errno::AGAIN)))
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was chosen for this command, rather than being the one where a daemon and its clients meet by themselves.
    pub(crate) fn is_given(&self) -> bool {
        self.source == DirectorySource::Option
    }

    /// The login session's directory, if this one is below it (`$XDG_RUNTIME_DIR`).
    pub(crate) fn session(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.source == DirectorySource::Session)
    }

    /// The path of the socket `name`.
    #[must_use]
    pub fn socket(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates it if it is absent.
    ///
    /// # Errors
    /// If it is not this user's alone.
    pub(crate) fn create(&self) -> Result<(), SocketError> {
        let path = self.path.clone();
        let io = |source| SocketError::Io { operation: "create", path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(io)?;
        let found = std::fs::symlink_metadata(&self.path).map_err(io)?;
        check_private(&self.path, &found)
    }
}

/// Whether a directory is this user's alone.
fn check_private(path: &Path, found: &Metadata) -> Result<(), SocketError> {
    let refuse = |what: String| Err(SocketError::Unsafe { path: path.to_owned(), what });
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

/// What systemd-logind makes for a user, and gives to nobody else.
fn login_session() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let session = Path::new("/run/user").join(user.to_string());
    let found = std::fs::symlink_metadata(&session).ok()?;
    (found.is_dir() && found.uid() == user).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_in_the_documented_order() {
        let check = |vars: &[(&str, &str)], login: Option<&str>, expected: &[&str]| {
            let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            let found = RuntimeDir::defaults_with(var, login.map(PathBuf::from));
            let found: Vec<_> = found.iter().map(|directory| directory.path()).collect();
            assert_eq!(found, expected.iter().map(Path::new).collect::<Vec<_>>(), "{vars:?} {login:?}");
        };
        let both = [("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/home/u")];
        let (session, home) = ("/run/user/7/mcpd", "/home/u/.local/state/mcpd/run");
        check(&both, Some("/run/user/7"), &[session, home]);
        check(&both, Some("/run/user/8"), &[session, "/run/user/8/mcpd", home]);
        check(&both, None, &[session, home]);
        check(&both[1..], Some("/run/user/7"), &[session, home]);
        check(&both[1..], None, &[home]);
        check(&[("XDG_RUNTIME_DIR", ""), both[1]], None, &[home]);
        check(&[("XDG_RUNTIME_DIR", "run"), both[1]], None, &[home]);
        check(&[], None, &[]);
        let given = RuntimeDir::resolve(Some("d".into()), |_| Some("/x".into())).expect("it is given");
        assert_eq!(given.path(), Path::new("d"));
    }

    #[test]
    fn snap_and_flatpak_use_the_daemon_of_the_login_session() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        let found = |session: &str, flatpak: bool| {
            let var = |name: &str| match name {
                "XDG_RUNTIME_DIR" => Some(path(session).into_os_string()),
                "FLATPAK_ID" => flatpak.then(|| "org.example.Code".into()),
                _ => None,
            };
            RuntimeDir::of_defaults(var, Some(path("user"))).expect("a session").path().to_owned()
        };
        let own = |session: &str| path(session).join("mcpd");
        assert_eq!(found("user/snap.code", false), own("user/snap.code"), "no daemon runs");
        std::fs::create_dir_all(own("user")).expect("a directory");
        let _daemon = std::os::unix::net::UnixListener::bind(own("user").join(AGENT_SOCKET)).expect("a socket");
        for (session, flatpak, expected) in [
            ("user/snap.code", false, "user"),
            ("user/app/org.example.Code", true, "user"),
            ("flatpak", true, "user"),
            // Another session of the same user is no snap.
            ("other", false, "other"),
            ("user", false, "user"),
        ] {
            assert_eq!(found(session, flatpak), own(expected), "{session}");
        }
        std::fs::create_dir_all(own("user/snap.code")).expect("a directory");
        let _nearer =
            std::os::unix::net::UnixListener::bind(own("user/snap.code").join(AGENT_SOCKET)).expect("a socket");
        assert_eq!(found("user/snap.code", false), own("user/snap.code"));
    }

    #[test]
    fn a_daemon_that_has_no_room_for_one_more_serves_and_nobody_waits_for_it() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = RuntimeDir::resolve(Some(place.path().to_owned()), |_| None).expect("it is given");
        assert!(!directory.is_served());
        let socket =
            || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        let (listener, address) =
            (socket(), SocketAddrUnix::new(directory.socket(AGENT_SOCKET)).expect("a short path"));
        rustix::net::bind(&listener, &address).expect("nobody has it");
        assert!(!directory.is_served(), "nobody listens yet");
        rustix::net::listen(&listener, 0).expect("it is bound");
        rustix::net::connect(socket(), &address).expect("there is room for one");
        assert!(!directory.is_served(), "commands have to wait");
        let _operators = std::os::unix::net::UnixListener::bind(directory.socket(ADMIN_SOCKET)).expect("a fresh name");
        assert!(directory.is_served());
        drop(listener);
        assert!(!directory.is_served());
    }
}
