//! What an agent speaks, by its first byte: lines or HTTP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::jsonrpc::reply::{self, ErrorObject};
use crate::session::{SessionOrders, SessionSetup};

const REFUSED: &str =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n";

/// What an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Lines,
    /// HTTP on an agent socket.
    Http,
    /// HTTP on this loopback address.
    Loopback(SocketAddr),
}

impl Protocol {
    /// Its name in `mcpd status`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Http => "http",
            Self::Loopback(_) => "loopback",
        }
    }

    /// Whether a profile with this loopback address serves the agent.
    pub(crate) fn is_served(self, loopback: Option<SocketAddr>) -> bool {
        match self {
            Self::Lines | Self::Http => true,
            Self::Loopback(address) => loopback == Some(address),
        }
    }

    /// By the first byte. No message of JSON begins with a capital letter, and every method of HTTP does.
    pub(crate) fn of(first: &[u8]) -> Self {
        match first.first() {
            Some(b'A'..=b'Z') => Self::Http,
            _ => Self::Lines,
        }
    }

    /// By the first byte that has arrived at an agent socket, which is left unread. Lines if none has.
    pub(crate) fn arrived(stream: impl AsFd) -> Self {
        peek(stream).unwrap_or(Self::Lines)
    }

    /// The response to a refused agent, whatever its first request is.
    pub(crate) fn refusal(self, error: &ErrorObject) -> Bytes {
        let body = reply::error(None, error);
        match self {
            Self::Lines => body,
            Self::Http | Self::Loopback(_) => {
                let head = format!("{REFUSED}Content-Length: {}\r\n\r\n", body.len());
                [head.as_bytes(), &body].concat().into()
            }
        }
    }
}

/// Reads the first byte, and leaves it unread.
fn peek(stream: impl AsFd) -> io::Result<Protocol> {
    let mut first = [0; 1];
    let (read, _) = recv(stream, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(Protocol::of(&first[..read]))
}

/// Waits for the first byte, which is left unread. `None` if the daemon ends the connection before.
pub(crate) async fn first_protocol(
    stream: &UnixStream,
    setup: &SessionSetup,
    orders: &mut SessionOrders,
) -> Option<Protocol> {
    let mut closing = setup.closing.clone();
    tokio::select! {
        biased;
        // If this fails, a session over lines reports what is wrong with the connection.
        protocol = stream.async_io(Interest::READABLE, || peek(stream)) => Some(protocol.unwrap_or(Protocol::Lines)),
        _ = closing.wait_for(|closing| *closing) => None,
        Ok(()) = &mut orders.profile_removed => None,
    }
}
