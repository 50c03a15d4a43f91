//! What an agent speaks, by its first byte: lines or HTTP.

use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
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
    /// HTTP on a loopback address.
    Loopback,
}

impl Protocol {
    /// Its name in `mcpd status`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Http => "http",
            Self::Loopback => "loopback",
        }
    }

    /// By the first byte. No message of JSON begins with a capital letter, and every method of HTTP does.
    fn of(first: &[u8]) -> Self {
        match first.first() {
            Some(b'A'..=b'Z') => Self::Http,
            _ => Self::Lines,
        }
    }
}

/// What is sent to an agent that is refused, in the protocol of the first byte that has arrived.
pub(crate) fn refusal(stream: impl AsFd, error: &ErrorObject) -> Bytes {
    let mut first = [0; 1];
    let peeked = recv(stream, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    match peeked.map(|(read, _)| Protocol::of(&first[..read])) {
        Ok(Protocol::Http) => http_refusal(error),
        _ => reply::error(None, error),
    }
}

/// A response to a request that is not read.
pub(crate) fn http_refusal(error: &ErrorObject) -> Bytes {
    let body = reply::error(None, error);
    let mut response = BytesMut::from(REFUSED);
    response.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    response.extend_from_slice(&body);
    response.freeze()
}

/// Waits for the first byte, which is left unread. `None` if the daemon ends the connection before.
pub(crate) async fn first_protocol(
    stream: &UnixStream,
    setup: &SessionSetup,
    orders: &mut SessionOrders,
) -> Option<Protocol> {
    let mut closing = setup.closing.clone();
    let peek = || {
        let mut first = [0; 1];
        let (read, _) = recv(stream, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        Ok(Protocol::of(&first[..read]))
    };
    tokio::select! {
        biased;
        // A session of lines reports what is wrong with a connection.
        protocol = stream.async_io(Interest::READABLE, peek) => Some(protocol.unwrap_or(Protocol::Lines)),
        _ = closing.wait_for(|closing| *closing) => None,
        Ok(()) = &mut orders.profile_removed => None,
    }
}
