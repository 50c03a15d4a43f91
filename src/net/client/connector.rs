//! How a connection is made: straight to a host, or by a proxy, and with TLS where the URL says so.

use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderMap, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tower_service::Service;

use super::lent::Lent;
use super::proxies::Proxies;
use super::resolver::Resolver;
use super::sender::{AGENT, Purpose};
use super::stream::Stream;
use super::trust::Tls;

/// For a connection to stand, with its TLS and its proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two signs that a connection is still there.
const ALIVE: Duration = Duration::from_secs(30);

type Error = Box<dyn StdError + Send + Sync>;

/// Makes the connections of one client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    dialer: HttpConnector<Resolver>,
    resolver: Resolver,
    tls: Tls,
    proxies: Arc<Proxies>,
    purpose: Purpose,
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: Tls, proxies: Arc<Proxies>, purpose: Purpose) -> Self {
        let mut dialer = HttpConnector::new_with_resolver(resolver.clone());
        dialer.enforce_http(false);
        dialer.set_nodelay(true);
        dialer.set_keepalive(Some(ALIVE));
        Self { dialer, resolver, tls, proxies, purpose }
    }

    async fn connect(mut self, place: Uri) -> Result<Stream, Error> {
        let is_tls = place.scheme() == Some(&Scheme::HTTPS);
        let stream = match self.proxies.of(&place) {
            None => self.dial(place.clone()).await?,
            Some(proxy) if is_socks(proxy.uri()) => self.by_socks(&proxy, &place).await?,
            Some(proxy) if is_tls => self.by_tunnel(&proxy, &place).await?,
            Some(proxy) => return Ok(Stream::OfProxy(Box::new(self.dial_proxy(proxy.uri()).await?))),
        };
        if is_tls { Ok(self.tls.open(stream, host(&place)?).await?) } else { Ok(stream) }
    }

    async fn dial(&mut self, place: Uri) -> Result<Stream, Error> {
        Ok(Stream::Plain(self.dialer.call(place).await?.into_inner()))
    }

    async fn dial_proxy(&mut self, proxy: &Uri) -> Result<Stream, Error> {
        let stream = self.dial(proxy.clone()).await?;
        if proxy.scheme() == Some(&Scheme::HTTPS) {
            return Ok(self.tls.open_proxy(stream, host(proxy)?).await?);
        }
        Ok(stream)
    }

    async fn by_tunnel(&mut self, proxy: &Intercept, place: &Uri) -> Result<Stream, Error> {
        let stream = self.dial_proxy(proxy.uri()).await?;
        let mut tunnel = Tunnel::new(proxy.uri().clone(), Dialled::new(stream))
            .with_headers(HeaderMap::from_iter([(USER_AGENT, AGENT)]));
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Ok(tunnel.call(place.clone()).await?.into_inner())
    }

    /// Whether the proxy looks the name up, or is told an address, is for its scheme to say, as for curl.
    async fn by_socks(&mut self, proxy: &Intercept, place: &Uri) -> Result<Stream, Error> {
        let scheme = proxy.uri().scheme_str().unwrap_or_default();
        let place = if scheme.ends_with(['a', 'h']) { place.clone() } else { self.with_address(place).await? };
        let dialled = Dialled::new(self.dial(proxy.uri().clone()).await?);
        if scheme.starts_with("socks4") {
            return Ok(SocksV4::new(proxy.uri().clone(), dialled).call(place).await?.into_inner());
        }
        let mut socks = SocksV5::new(proxy.uri().clone(), dialled);
        if let Some((user, password)) = proxy.raw_auth() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        Ok(socks.call(place).await?.into_inner())
    }

    /// The same place with one of its addresses for its name.
    async fn with_address(&self, place: &Uri) -> Result<Uri, Error> {
        let found = self.resolver.look_up(host(place)?.to_owned()).await?;
        let mut address = *found.first().ok_or("it has no address")?;
        let is_tls = place.scheme() == Some(&Scheme::HTTPS);
        address.set_port(place.port_u16().unwrap_or(if is_tls { 443 } else { 80 }));
        let mut parts = place.clone().into_parts();
        parts.authority = Some(Authority::try_from(address.to_string())?);
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
        Ok(Uri::from_parts(parts)?)
    }
}

fn is_socks(proxy: &Uri) -> bool {
    proxy.scheme_str().is_some_and(|scheme| scheme.starts_with("socks"))
}

/// As it is looked up, and as certificates have it.
fn host(place: &Uri) -> Result<&str, Error> {
    let host = place.host().ok_or("it has no host")?;
    Ok(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, place: Uri) -> Self::Future {
        let (connecting, purpose) = (timeout(CONNECT_TIMEOUT, self.clone().connect(place)), self.purpose);
        Box::pin(async move {
            let too_late = |_| format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
            let stream = connecting.await.map_err(too_late)??;
            let is_lent = purpose == Purpose::OneAnswer && !stream.connected().is_negotiated_h2();
            Ok(TokioIo::new(if is_lent { Stream::Lent(Lent::new(stream)) } else { stream }))
        })
    }
}

/// The connection to a proxy, for whoever asks it for more.
struct Dialled(Option<TokioIo<Stream>>);

impl Dialled {
    fn new(stream: Stream) -> Self {
        Self(Some(TokioIo::new(stream)))
    }
}

impl Service<Uri> for Dialled {
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
