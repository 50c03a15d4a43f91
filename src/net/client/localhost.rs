//! Connections to `localhost`, whose two addresses may belong to different programs.
//!
//! Both addresses are tried, whatever the resolver returns. If both accept a connection, the one is used that also responds to
//! a request: other programs accept connections and stay mute.

#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one copy or change, without waiting")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::{join, select_ok};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::{NetError, NetErrorKind};

const ADDRESSES: [IpAddr; 2] = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
/// Time for one connection within this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the first byte of a response to [`PROBE`].
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// A request without effect.
const PROBE: &[u8] = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Whether a host name always means this machine. Source: RFC 6761, 6.3.
pub(super) fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

/// Connects to `localhost`. Clones share the address that was found.
#[derive(Clone, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(super) struct Localhost(Arc<Mutex<Option<IpAddr>>>);

impl Localhost {
    /// A connection to this port.
    pub(super) async fn dial(&self, port: u16) -> Result<TcpStream, NetError> {
        if let Some(known) = self.known()
            && let Ok(stream) = connect(known, port).await
        {
            return Ok(stream);
        }
        let [six, four] = ADDRESSES;
        let address = match join(connect(six, port), connect(four, port)).await {
            (Ok(stream), Err(_)) | (Err(_), Ok(stream)) => return Ok(stream),
            (Err(one), Err(other)) => return Err(unreachable(port, &[(six, one), (four, other)])),
            (Ok(one), Ok(other)) => {
                let probes = [(six, one), (four, other)].map(|(address, stream)| Box::pin(probe(address, stream)));
                let found = timeout(PROBE_TIMEOUT, select_ok(probes)).await;
                let found = found.ok().and_then(Result::ok).map(|(address, _)| address);
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
                found.unwrap_or(six)
            }
        };
        connect(address, port).await.map_err(|error| unreachable(port, &[(address, error)]))
    }

    fn known(&self) -> Option<IpAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect((address, port))).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Succeeds once anything is sent back.
async fn probe(address: IpAddr, mut stream: TcpStream) -> io::Result<IpAddr> {
    stream.write_all(PROBE).await?;
    stream.read_u8().await.map(|_| address)
}

fn unreachable(port: u16, failures: &[(IpAddr, io::Error)]) -> NetError {
    let is_refused = failures.iter().any(|(_, error)| error.kind() == ErrorKind::ConnectionRefused);
    let kind = if is_refused { NetErrorKind::ConnectionRefused } else { NetErrorKind::Other };
    let of_one = |(address, error): &(IpAddr, io::Error)| format!("{}: {error}", SocketAddr::new(*address, port));
    NetError::new(kind, failures.iter().map(of_one).collect::<Vec<_>>().join("; "))
}
