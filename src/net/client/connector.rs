//! Makes connections: direct, to `localhost`, or through a proxy, and with TLS for `https://` URLs.
//!
//! The two addresses of `localhost` may belong to different programs. Both are tried, whatever the resolver returns. If both
//! accept a connection, the one is used that also responds to a request: other programs accept connections and stay mute.
//!
//! A tunnel through an HTTP proxy is opened by `CONNECT` (RFC 9110, 9.3.6).

use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one copy or change, without waiting")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, select_ok};
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::USER_AGENT_VALUE;
use super::error::{NetError, NetErrorKind};
use super::local::Local;
use super::proxies::{Proxies, Proxy};
use super::resolver::Resolver;
use super::response::cause;
use super::stream::Stream;
use super::trust::Tls;
use crate::duration;

/// Limit for a connection, including TLS and proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of TCP keep-alive probes.
const KEEPALIVE: Duration = Duration::from_secs(30);

type Error = Box<dyn StdError + Send + Sync>;

/// Makes the connections of one client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    dialer: HttpConnector<Resolver>,
    resolver: Resolver,
    tls: Tls,
    proxies: Arc<Proxies>,
    localhost: Localhost,
    local: Local,
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: Tls, proxies: Arc<Proxies>, local: Local) -> Self {
        let mut dialer = HttpConnector::new_with_resolver(resolver.clone());
        dialer.enforce_http(false);
        dialer.set_nodelay(true);
        dialer.set_keepalive(Some(KEEPALIVE));
        Self { dialer, resolver, tls, proxies, localhost: Localhost::default(), local }
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, Error> {
        if let Some(socket) = self.local.socket() {
            return Ok(Stream::Unix(self.local.dial(socket).await?));
        }
        self.resolver.admit(host(&uri)?).await?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let stream = match self.proxies.of(&uri) {
            None => self.dial(uri.clone()).await?,
            Some(proxy) if proxy.is_socks() => self.dial_socks(&proxy, &uri).await?,
            Some(proxy) if is_tls => {
                let stream = self.dial_proxy(&proxy).await?;
                let tunnel = open_tunnel(stream, &uri, proxy.authorization()).await;
                tunnel.map_err(|reason| failed(format!("{proxy} {reason}")))?
            }
            Some(proxy) => return Ok(Stream::ToProxy(Box::new(self.dial_proxy(&proxy).await?))),
        };
        if is_tls { Ok(self.tls.open(stream, host(&uri)?).await?) } else { Ok(stream) }
    }

    async fn dial(&mut self, uri: Uri) -> Result<Stream, Error> {
        let stream = if is_localhost(host(&uri)?) {
            self.localhost.dial(port(&uri)).await?
        } else {
            self.dialer.call(uri).await?.into_inner()
        };
        self.local.admit(&stream).await?;
        Ok(Stream::Plain(stream))
    }

    /// Connects to the proxy itself. Errors name the proxy, not the server.
    async fn dial_proxy(&mut self, proxy: &Proxy) -> Result<Stream, Error> {
        let unreachable =
            |error: &(dyn StdError + 'static)| failed(format!("{proxy} cannot be reached: {}", cause(error)));
        let uri = proxy.uri().clone();
        let stream = self.dialer.call(uri).await.map_err(|error| unreachable(&error))?;
        let stream = Stream::Plain(stream.into_inner());
        if proxy.uri().scheme() == Some(&Scheme::HTTPS) {
            let opened = self.tls.open_proxy(stream, host(proxy.uri())?).await;
            return Ok(opened.map_err(|error| unreachable(&error))?);
        }
        Ok(stream)
    }

    async fn dial_socks(&mut self, proxy: &Proxy, uri: &Uri) -> Result<Stream, Error> {
        let uri = if proxy.resolves() { uri.clone() } else { self.with_address(uri).await? };
        let dialed = ProxyDialer::new(self.dial_proxy(proxy).await?);
        if proxy.scheme().starts_with("socks4") {
            let made = SocksV4::new(proxy.uri().clone(), dialed).call(uri).await;
            return Ok(made.map_err(|error| not_connected(proxy, &error))?.into_inner());
        }
        let mut socks = SocksV5::new(proxy.uri().clone(), dialed);
        if let Some((user, password)) = proxy.user() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        Ok(socks.call(uri).await.map_err(|error| not_connected(proxy, &error))?.into_inner())
    }

    /// The same URI with an address in the place of its host name.
    async fn with_address(&self, uri: &Uri) -> Result<Uri, Error> {
        let found = self.resolver.look_up(host(uri)?.to_owned()).await?;
        let mut address = *found.first().ok_or("the host has no address")?;
        address.set_port(port(uri));
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(Authority::try_from(address.to_string())?);
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        Ok(Uri::from_parts(parts)?)
    }
}

/// An error of the proxy, not of the server.
fn failed(text: String) -> NetError {
    NetError::new(NetErrorKind::Proxy, text)
}

fn not_connected(proxy: &Proxy, error: &(dyn StdError + 'static)) -> NetError {
    failed(format!("{proxy} makes no connection: {}", cause(error)))
}

/// The host name as DNS and certificates have it.
fn host(uri: &Uri) -> Result<&str, Error> {
    let host = uri.host().ok_or("the URL has no host")?;
    Ok(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 })
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let through = self.proxies.of(&uri).map(|proxy| format!(" through {proxy}")).unwrap_or_default();
        let connecting = timeout(CONNECT_TIMEOUT, self.clone().connect(uri));
        Box::pin(async move {
            let too_late = |_| format!("no connection{through} within {}", duration::format(CONNECT_TIMEOUT));
            Ok(TokioIo::new(connecting.await.map_err(too_late)??))
        })
    }
}

/// Hands out a connection to a proxy, once.
struct ProxyDialer(Option<TokioIo<Stream>>);

impl ProxyDialer {
    fn new(stream: Stream) -> Self {
        Self(Some(TokioIo::new(stream)))
    }
}

impl Service<Uri> for ProxyDialer {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

const ADDRESSES: [IpAddr; 2] = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
/// Time for one connection within this machine.
const LOCALHOST_TIMEOUT: Duration = Duration::from_secs(2);
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
            && let Ok(stream) = connect_to(known, port).await
        {
            return Ok(stream);
        }
        let [six, four] = ADDRESSES;
        let address = match join(connect_to(six, port), connect_to(four, port)).await {
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
        connect_to(address, port).await.map_err(|error| unreachable(port, &[(address, error)]))
    }

    fn known(&self) -> Option<IpAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect_to(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = timeout(LOCALHOST_TIMEOUT, TcpStream::connect((address, port))).await??;
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

/// Why a proxy opens no tunnel: the rest of a sentence that begins with its name.
#[derive(Debug, thiserror::Error)]
enum TunnelError {
    #[error("cannot be sent a request: {0}")]
    Request(#[from] http::Error),
    #[error("breaks off: {}", cause(.0))]
    Connection(#[from] hyper::Error),
    #[error("answers CONNECT with HTTP {0}")]
    Refused(StatusCode),
    #[error("cannot be used for a tunnel")]
    NoStream,
    #[error("sends data before the client")]
    EarlyData,
}

/// Opens a tunnel to `uri` through the proxy at the other end of `stream`.
///
/// # Errors
/// What the proxy did instead.
async fn open_tunnel(stream: Stream, uri: &Uri, authorization: Option<&HeaderValue>) -> Result<Stream, TunnelError> {
    let request = connect_request(uri, authorization)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the upgrade, or when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await?;
    if !response.status().is_success() {
        return Err(TunnelError::Refused(response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await?;
    let parts = upgraded.downcast::<TokioIo<Stream>>().map_err(|_| TunnelError::NoStream)?;
    // In TLS the client sends first.
    if parts.read_buf.is_empty() { Ok(parts.io.into_inner()) } else { Err(TunnelError::EarlyData) }
}

fn connect_request(uri: &Uri, authorization: Option<&HeaderValue>) -> Result<Request<Empty<Bytes>>, http::Error> {
    let target = format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    let mut request = Request::builder().method(Method::CONNECT).uri(&*target).header(HOST, &*target);
    request = request.header(USER_AGENT, USER_AGENT_VALUE);
    if let Some(authorization) = authorization {
        request = request.header(PROXY_AUTHORIZATION, authorization);
    }
    request.body(Empty::new())
}
