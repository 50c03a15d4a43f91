//! Errors of the runtime directory and its sockets.

use std::io;
use std::path::PathBuf;

use super::MAX_PATH;

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
