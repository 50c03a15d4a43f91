//! Why there are no sockets.

use std::io;
use std::path::PathBuf;

use super::MAX_PATH;

/// Why the sockets cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon holds the lock.
    #[error("mcpd is already running in {}", .0.display())]
    AlreadyRunning(PathBuf),
    /// There is nowhere to put them.
    #[error("no runtime directory: set XDG_RUNTIME_DIR or HOME, or give --runtime-dir DIR")]
    NoDirectory,
    /// The directory is not one that only its owner can enter.
    #[error("runtime directory {}: {what}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// The path does not fit into a socket address.
    #[error("socket path {} has {} bytes, and at most {MAX_PATH} are possible: give a shorter --runtime-dir, or the profile a shorter name", .0.display(), .0.as_os_str().len())]
    PathTooLong(PathBuf),
    /// Something that is no socket stands in a socket's place.
    #[error("{} exists and is not a socket: move it away", .0.display())]
    NotASocket(PathBuf),
    /// Something else stands where a socket of this daemon was.
    #[error("something else was put in the place of {}: move it away", .0.display())]
    Replaced(PathBuf),
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What it was about.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
