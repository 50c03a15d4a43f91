//! A listener on a loopback address, for agents that know only a URL. Each request needs the token of its profile.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

/// Connections that have not sent the token yet. Any user of the machine can open them, so further ones wait in the kernel.
pub(super) const MAX_STRANGERS: usize = 64;
/// Delay before the next attempt after `accept` has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct LoopbackListener {
    socket: TcpListener,
    address: SocketAddr,
    strangers: Arc<Semaphore>,
    token: watch::Sender<Arc<str>>,
}

/// A connection to a loopback address.
#[derive(Debug)]
pub(crate) struct LoopbackStream {
    pub(crate) stream: TcpStream,
    pub(crate) stranger: Stranger,
}

/// A connection that has not sent the token yet.
#[derive(Debug)]
pub(crate) struct Stranger {
    /// The token, and its changes.
    pub(super) token: watch::Receiver<Arc<str>>,
    /// Released with the first request that has the token.
    pub(super) permit: OwnedSemaphorePermit,
}

impl LoopbackListener {
    /// Listens on `address` for agents with `token`.
    ///
    /// # Errors
    /// If it is no loopback address, or the system refuses.
    pub(crate) fn bind(address: SocketAddr, token: Arc<str>) -> io::Result<Self> {
        Self::of(std::net::TcpListener::bind(check(address)?)?, token)
    }

    /// Takes over a socket of the service manager.
    ///
    /// # Errors
    /// If it listens on no loopback address.
    pub(crate) fn of(socket: std::net::TcpListener, token: Arc<str>) -> io::Result<Self> {
        let address = check(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        let (strangers, token) = (Arc::new(Semaphore::new(MAX_STRANGERS)), watch::Sender::new(token));
        Ok(Self { socket, address, strangers, token })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Uses another token from now on. Connections and sessions of the former one end.
    pub(crate) fn set_token(&self, token: Arc<str>) {
        self.token.send_if_modified(|current| std::mem::replace(current, Arc::clone(&token)) != token);
    }

    pub(crate) fn token(&self) -> Arc<str> {
        Arc::clone(&self.token.borrow())
    }

    /// Accepts the next connection. Cancel safe.
    pub(crate) async fn accept(&self) -> LoopbackStream {
        loop {
            let permit = Arc::clone(&self.strangers).acquire_owned().await;
            match (permit, self.socket.accept().await) {
                (Ok(permit), Ok((stream, _))) => {
                    // Small messages would wait for each other.
                    let _ = stream.set_nodelay(true);
                    let stranger = Stranger { token: self.token.subscribe(), permit };
                    return LoopbackStream { stream, stranger };
                }
                (_, Err(error)) => {
                    tracing::debug!(address = %self.address, "cannot accept connections for now: {error}");
                    sleep(ACCEPT_AGAIN).await;
                }
                (Err(_), Ok(_)) => {}
            }
        }
    }
}

fn check(address: SocketAddr) -> io::Result<SocketAddr> {
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no loopback address"))
    }
}
