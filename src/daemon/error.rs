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
    /// The runtime directory was deleted, and another daemon has started there.
    #[error("another daemon holds the lock of the runtime directory, which was deleted: this one has stopped")]
    Superseded,
    /// Processes of servers still run.
    #[error("mcpd has ended its servers, but could not end all their processes: {}", ids(.0))]
    ProcessesLeft(Vec<u32>),
}

impl DaemonError {
    /// Whether another daemon serves in the runtime directory.
    #[must_use]
    pub fn is_other_daemon(&self) -> bool {
        matches!(self, Self::Superseded | Self::Socket(SocketError::AlreadyRunning(_)))
    }
}

/// Maximum number of processes that are named.
const MAX_IDS: usize = 20;

fn ids(processes: &[u32]) -> String {
    let more = if processes.len() > MAX_IDS { ", …" } else { "" };
    processes.iter().take(MAX_IDS).map(u32::to_string).collect::<Vec<_>>().join(", ") + more
}
