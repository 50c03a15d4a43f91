//! Errors of the runtime directory and its sockets.

use std::io;
use std::path::PathBuf;

use super::MAX_PATH;

/// Why the sockets cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon holds the lock.
    #[error("mcpd is already running in {}", .0.display())]
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
    #[error("socket path {} has {} bytes, but at most {MAX_PATH} are possible: use a shorter --runtime-dir or a shorter profile name", .0.display(), .0.as_os_str().len())]
    PathTooLong(PathBuf),
    /// The path of a socket is occupied by another kind of file.
    #[error("{} exists and is not a socket: move it away", .0.display())]
    NotASocket(PathBuf),
    /// The file of a socket of this daemon was replaced.
    #[error("{} was replaced by another file: move that file away", .0.display())]
    Replaced(PathBuf),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path that it was applied to.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
