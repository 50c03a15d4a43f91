//! Why a daemon did not start, or did not go on.

use std::io;

use crate::manager::ManagerError;
use crate::sockets::SocketError;

/// Why a daemon did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sockets cannot be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The servers cannot be owned.
    #[error(transparent)]
    Servers(#[from] ManagerError),
    /// The system refused something at start.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// A task of mcpd's own panicked; the message of the panic was printed. What could be stopped was.
    #[error("ended because of a bug in mcpd, which the panic message above tells more about: please report it")]
    Panicked,
}
