//! How a connection is made: straight to a host, or by a proxy, and with TLS where the URL says so.

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

use super::answer::cause;
use super::error::{NetError, NetErrorKind};
use super::proxies::{Proxies, Proxy};
use super::resolver::Resolver;
use super::stream::Stream;
use super::trust::Tls;
use super::tunnel;
use crate::duration;

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
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: Tls, proxies: Arc<Proxies>) -> Self {
        let mut dialer = HttpConnector::new_with_resolver(resolver.clone());
        dialer.enforce_http(false);
        dialer.set_nodelay(true);
        dialer.set_keepalive(Some(ALIVE));
        Self { dialer, resolver, tls, proxies }
    }

    async fn connect(mut self, place: Uri) -> Result<Stream, Error> {
        self.resolver.admit(host(&place)?).await?;
        let is_tls = place.scheme() == Some(&Scheme::HTTPS);
        let stream = match self.proxies.of(&place) {
            None => self.dial(place.clone()).await?,
            Some(proxy) if proxy.is_socks() => self.by_socks(&proxy, &place).await?,
            Some(proxy) if is_tls => {
                let stream = self.dial_proxy(&proxy).await?;
                let tunnel = tunnel::open(stream, &place, proxy.authorization()).await;
                tunnel.map_err(|reason| failed(format!("{proxy} {reason}")))?
            }
            Some(proxy) => return Ok(Stream::OfProxy(Box::new(self.dial_proxy(&proxy).await?))),
        };
        if is_tls { Ok(self.tls.open(stream, host(&place)?).await?) } else { Ok(stream) }
    }

    async fn dial(&mut self, place: Uri) -> Result<Stream, Error> {
        Ok(Stream::Plain(self.dialer.call(place).await?.into_inner()))
    }

    /// A connection to the proxy itself. What goes wrong with it is said of the proxy, not of the server.
    async fn dial_proxy(&mut self, proxy: &Proxy) -> Result<Stream, Error> {
        let unreachable =
            |error: &(dyn StdError + 'static)| failed(format!("{proxy} cannot be reached: {}", cause(error)));
        let place = proxy.uri().clone();
        let stream = self.dialer.call(place).await.map_err(|error| unreachable(&error))?;
        let stream = Stream::Plain(stream.into_inner());
        if proxy.uri().scheme() == Some(&Scheme::HTTPS) {
            let opened = self.tls.open_proxy(stream, host(proxy.uri())?).await;
            return Ok(opened.map_err(|error| unreachable(&error))?);
        }
        Ok(stream)
    }

    async fn by_socks(&mut self, proxy: &Proxy, place: &Uri) -> Result<Stream, Error> {
        let place = if proxy.resolves() { place.clone() } else { self.with_address(place).await? };
        let dialled = Dialled::new(self.dial_proxy(proxy).await?);
        if proxy.scheme().starts_with("socks4") {
            let made = SocksV4::new(proxy.uri().clone(), dialled).call(place).await;
            return Ok(made.map_err(|error| not_connected(proxy, &error))?.into_inner());
        }
        let mut socks = SocksV5::new(proxy.uri().clone(), dialled);
        if let Some((user, password)) = proxy.user() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        Ok(socks.call(place).await.map_err(|error| not_connected(proxy, &error))?.into_inner())
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

/// The proxy has failed, not the server.
fn failed(text: String) -> NetError {
    NetError::new(NetErrorKind::Proxy, text)
}

fn not_connected(proxy: &Proxy, error: &(dyn StdError + 'static)) -> NetError {
    failed(format!("{proxy} makes no connection: {}", cause(error)))
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
        let through = self.proxies.of(&place).map(|proxy| format!(" through {proxy}")).unwrap_or_default();
        let connecting = timeout(CONNECT_TIMEOUT, self.clone().connect(place));
        Box::pin(async move {
            let too_late = |_| format!("no connection{through} within {}", duration::format(CONNECT_TIMEOUT));
            Ok(TokioIo::new(connecting.await.map_err(too_late)??))
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
