//! A listener on a loopback address, for agents that know only a URL. Each request needs the token of its profile.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::token::Token;
use crate::sockets::Opener;

/// Connections that have not sent the token yet. Any user of the machine can open them, so further ones wait in the kernel.
pub(super) const MAX_STRANGERS: usize = 64;
/// Delay before the next attempt after `accept` has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct LoopbackListener {
    socket: TcpListener,
    address: SocketAddr,
    strangers: Arc<Semaphore>,
    token: watch::Sender<Token>,
    opener: Opener,
}

/// A connection to a loopback address.
#[derive(Debug)]
pub(crate) struct LoopbackStream {
    pub(crate) stream: TcpStream,
    /// Of the listener.
    pub(crate) address: SocketAddr,
    pub(crate) stranger: Stranger,
}

/// A connection that has not sent the token yet.
#[derive(Debug)]
pub(crate) struct Stranger {
    /// The token, and its changes.
    pub(super) token: watch::Receiver<Token>,
    /// Released with the first request that has the token.
    pub(super) permit: OwnedSemaphorePermit,
    /// The address of the client.
    pub(super) client: SocketAddr,
}

impl LoopbackListener {
    /// Listens on `address` for agents with `token`.
    ///
    /// # Errors
    /// If it is no loopback address, or the system refuses.
    pub(crate) fn bind(address: SocketAddr, token: Token) -> io::Result<Self> {
        Self::listening(std::net::TcpListener::bind(check(address)?)?, token, Opener::Daemon)
    }

    /// Whether a listener can be made on this address now.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub(crate) fn try_address(address: SocketAddr) -> io::Result<()> {
        std::net::TcpListener::bind(check(address)?).map(drop)
    }

    /// Takes over a socket that was passed to this process.
    ///
    /// # Errors
    /// If it listens on no loopback address.
    pub(crate) fn of((socket, opener): (std::net::TcpListener, Opener), token: Token) -> io::Result<Self> {
        Self::listening(socket, token, opener)
    }

    fn listening(socket: std::net::TcpListener, token: Token, opener: Opener) -> io::Result<Self> {
        let address = check(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        let (strangers, token) = (Arc::new(Semaphore::new(MAX_STRANGERS)), watch::Sender::new(token));
        Ok(Self { socket, address, strangers, token, opener })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A duplicate of the socket, if it belongs to the service manager.
    pub(crate) fn duplicate(&self) -> Option<io::Result<OwnedFd>> {
        (self.opener == Opener::ServiceManager).then(|| self.passed_on().0)
    }

    /// A duplicate of the socket for another program, and who has opened it.
    pub(crate) fn passed_on(&self) -> (io::Result<OwnedFd>, Opener) {
        (self.socket.as_fd().try_clone_to_owned(), self.opener)
    }

    /// Uses another token from now on. Connections and sessions of the former one end.
    pub(crate) fn set_token(&self, token: Token) {
        self.token.send_if_modified(|current| std::mem::replace(current, token.clone()) != token);
    }

    /// Serves agents with another token, of another profile. Connections end after their requests.
    pub(crate) fn begin_anew(self, token: Token) -> Self {
        Self { token: watch::Sender::new(token), ..self }
    }

    pub(crate) fn token(&self) -> Token {
        self.token.borrow().clone()
    }

    /// Accepts the next connection. Cancel safe.
    pub(crate) async fn accept(&self) -> LoopbackStream {
        loop {
            let permit = Arc::clone(&self.strangers).acquire_owned().await;
            match (permit, self.socket.accept().await) {
                (Ok(permit), Ok((stream, client))) => {
                    // Small messages would wait for each other.
                    let _ = stream.set_nodelay(true);
                    let stranger = Stranger { token: self.token.subscribe(), permit, client };
                    return LoopbackStream { stream, address: self.address, stranger };
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
