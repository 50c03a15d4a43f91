//! Who sends a request over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::token::Token;
use crate::session::StatedDirectory;
use crate::tcp_sockets::tcp_sockets;

/// Who may use a session: the same user, at the same profile and path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) profile: Arc<str>,
    pub(super) face: Option<Arc<str>>,
    /// The listener, with the token of a loopback address.
    pub(super) access: Access,
}

/// How a connection has reached mcpd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// By an agent socket.
    Socket,
    /// By a loopback address, with this token.
    Loopback(Token),
}

/// The process that sends the requests of a connection, or the connection itself if the process is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    Process(i32),
    /// By its number.
    Connection(u64),
}

impl Origin {
    /// The process at the other end of this connection to a loopback address.
    pub(super) async fn of_tcp(client: SocketAddr, listener: SocketAddr) -> Option<Self> {
        let find = move || {
            let of_client = |local: SocketAddr, remote: SocketAddr| local == client && remote == listener;
            tcp_sockets().iter().find(|socket| of_client(socket.local, socket.remote))?.process()
        };
        spawn_blocking(find).await.ok().flatten().map(Self::Process)
    }
}

/// Who sends a modern message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) origin: Origin,
    pub(super) owner: Owner,
    /// `None` for a message that is no request.
    pub(super) directory: Option<StatedDirectory>,
}
