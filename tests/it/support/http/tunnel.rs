//! A proxy that makes connections for its clients: by `CONNECT` (RFC 9110, 9.3.6) or by SOCKS5 (RFC 1928).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use super::locked::Lock;
use super::relay::{Keeper, Relay, copy};

/// Dropping it ends every connection.
pub(crate) struct Tunnel {
    relay: Relay,
    targets: Arc<Lock<Vec<String>>>,
}

impl Tunnel {
    /// Connects every host to the requested port of this machine.
    pub(crate) fn start() -> Self {
        Self::leading_to(None)
    }

    /// Connects every target to this address.
    pub(crate) fn to(server: SocketAddr) -> Self {
        Self::leading_to(Some(server))
    }

    fn leading_to(server: Option<SocketAddr>) -> Self {
        let targets = Arc::new(Lock::new(Vec::new()));
        let log = Arc::clone(&targets);
        let relay = Relay::start(Ipv4Addr::LOCALHOST.into(), move |client, keeper| {
            // Malformed requests are ignored.
            let _ = serve((&client, server), keeper, &log);
        });
        Self { relay, targets }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.relay.address()
    }

    /// The requested targets: `connect HOST:PORT` or `socks HOST PORT`, with `Proxy-Authorization`.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.targets.lock().clone()
    }
}

fn serve(
    (client, server): (&TcpStream, Option<SocketAddr>),
    keeper: &Keeper,
    log: &Lock<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(copy(client));
    let is_socks = reader.fill_buf()?.first() == Some(&5);
    let (target, port) = if is_socks { socks(&mut reader, client)? } else { connect(&mut reader)? };
    log.lock().push(target);
    let server = server.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into());
    let Some(server) = keeper.connect(server) else { return Ok(()) };
    let made: &[u8] = if is_socks { &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0] } else { b"HTTP/1.1 200 Made\r\n\r\n" };
    let mut client = client;
    client.write_all(made)?;
    (&server).write_all(reader.buffer())?;
    keeper.join(client, &server);
    Ok(())
}

fn connect(reader: &mut impl BufRead) -> std::io::Result<(String, u16)> {
    let head: Vec<_> = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let target = head.first().and_then(|first| first.strip_prefix("CONNECT ")?.split(' ').next());
    let target = target.ok_or_else(|| std::io::Error::other("no CONNECT"))?;
    let secret =
        head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("proxy-authorization: ").map(|_| line));
    let secret =
        secret.and_then(|line| line.split_once(": ")).map(|(_, secret)| format!(" {secret}")).unwrap_or_default();
    let port = target.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default();
    Ok((format!("connect {target}{secret}"), port))
}

fn socks(reader: &mut impl Read, mut client: &TcpStream) -> std::io::Result<(String, u16)> {
    let mut greeting = [0; 2];
    reader.read_exact(&mut greeting)?;
    reader.read_exact(&mut vec![0; greeting[1].into()])?;
    client.write_all(&[5, 0])?;
    let mut head = [0; 5];
    reader.read_exact(&mut head)?;
    // The fifth byte is the length of a name, or the first one of an address.
    let [_, 1, _, kind, fifth] = head else { return Err(std::io::Error::other("no place to connect to")) };
    let length = match kind {
        1 => 3,
        3 => fifth.into(),
        _ => 15,
    };
    let mut rest = vec![0; length + 2];
    reader.read_exact(&mut rest)?;
    let (place, port) = rest.split_at(length);
    let port = u16::from_be_bytes([port[0], port[1]]);
    let address = [&[fifth], place].concat();
    let place = match (<[u8; 4]>::try_from(&*address), <[u8; 16]>::try_from(&*address)) {
        (Ok(address), _) if kind == 1 => Ipv4Addr::from(address).to_string(),
        (_, Ok(address)) if kind == 4 => Ipv6Addr::from(address).to_string(),
        _ => String::from_utf8_lossy(place).into_owned(),
    };
    Ok((format!("socks {place} {port}"), port))
}
