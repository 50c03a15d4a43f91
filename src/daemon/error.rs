//! Why a daemon did not start, or ended unexpectedly.

use std::io;

use crate::manager::ManagerError;
use crate::sockets::SocketError;

/// Why a daemon did not start, or ended unexpectedly.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sockets cannot be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The manager of the servers reported an error.
    #[error(transparent)]
    Servers(#[from] ManagerError),
    /// A system call failed at start.
    #[error("mcpd cannot start: cannot {operation}: {source}")]
    Start {
        /// What failed, such as `read the sockets of systemd`.
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A task of mcpd has panicked, and the message of the panic was printed. mcpd has then stopped all servers and sockets that it still
    /// could stop.
    #[error(
        "mcpd ended because of a bug in mcpd. Its log contains the panic message: please report the bug with that message"
    )]
    Panicked,
}
