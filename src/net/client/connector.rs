//! Makes connections: direct or through a proxy, and with TLS for `https://` URLs.

use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tower_service::Service;

use super::error::{NetError, NetErrorKind};
use super::localhost::{Localhost, is_localhost};
use super::proxies::{Proxies, Proxy};
use super::resolver::Resolver;
use super::response::cause;
use super::stream::Stream;
use super::trust::Tls;
use super::tunnel;
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
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: Tls, proxies: Arc<Proxies>) -> Self {
        let mut dialer = HttpConnector::new_with_resolver(resolver.clone());
        dialer.enforce_http(false);
        dialer.set_nodelay(true);
        dialer.set_keepalive(Some(KEEPALIVE));
        Self { dialer, resolver, tls, proxies, localhost: Localhost::default() }
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, Error> {
        self.resolver.admit(host(&uri)?).await?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let stream = match self.proxies.of(&uri) {
            None => self.dial(uri.clone()).await?,
            Some(proxy) if proxy.is_socks() => self.dial_socks(&proxy, &uri).await?,
            Some(proxy) if is_tls => {
                let stream = self.dial_proxy(&proxy).await?;
                let tunnel = tunnel::open(stream, &uri, proxy.authorization()).await;
                tunnel.map_err(|reason| failed(format!("{proxy} {reason}")))?
            }
            Some(proxy) => return Ok(Stream::ToProxy(Box::new(self.dial_proxy(&proxy).await?))),
        };
        if is_tls { Ok(self.tls.open(stream, host(&uri)?).await?) } else { Ok(stream) }
    }

    async fn dial(&mut self, uri: Uri) -> Result<Stream, Error> {
        if is_localhost(host(&uri)?) {
            return Ok(Stream::Plain(self.localhost.dial(port(&uri)).await?));
        }
        Ok(Stream::Plain(self.dialer.call(uri).await?.into_inner()))
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

    /// The same URI with an address in uri of its host name.
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
