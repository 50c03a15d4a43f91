//! An agent that connects to an agent socket.

use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};

use rustix::net::SendFlags;
use tokio::net::UnixStream;

use crate::account::Account;
use crate::http_listener::{Connection, Protocol, Sessions, first_protocol};
use crate::server::User;
use crate::session::{self, LineTransport, PeerIdentity, SessionOrders, SessionSetup};

/// An admitted agent.
pub(super) struct NewAgent {
    pub(super) number: u64,
    pub(super) user: Arc<User>,
    pub(super) identity: PeerIdentity,
    /// The server that has started it, if one has.
    pub(super) own_server: Option<Arc<str>>,
    pub(super) account: Arc<Account>,
}

/// Serves a connection to an agent socket, in the protocol of its first byte.
pub(super) async fn serve_agent(
    stream: UnixStream,
    setup: SessionSetup,
    mut orders: SessionOrders,
    protocol: Arc<OnceLock<Protocol>>,
    sessions: Sessions,
    origins: Arc<[String]>,
) {
    let Some(found) = first_protocol(&stream, &setup, &mut orders).await else { return };
    // Only this task sets it.
    let _ = protocol.set(found);
    match found {
        Protocol::Lines => {
            let transport = LineTransport::new(stream, setup.message_limit.bytes());
            // Boxed, because the connection of an agent by HTTP would have the space for it, too.
            Box::pin(session::run(transport, setup, orders)).await;
        }
        Protocol::Http | Protocol::Loopback => {
            let connection = Connection { sessions, setup, orders, origins, stranger: None };
            Box::pin(connection.serve(stream)).await;
        }
    }
}

/// Sends what fits into the empty buffer of a new connection.
pub(super) fn send_once(stream: impl AsFd, bytes: &[u8]) {
    // Not through the runtime, which may not know yet that a new socket is writable.
    let _ = rustix::net::send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
