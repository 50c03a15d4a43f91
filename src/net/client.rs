//! The HTTP clients of a server with a `url`: one for that URL, and one for URLs that the server names.
//!
//! TLS certificates are always verified ([`trust`]). Proxies come from the environment. The clients follow no redirects
//! ([`super::origin::redirect`] decides), never repeat a request, keep no cookies, send no `Referer`, and request no
//! compression. They decode gzip, which some servers and proxies send nevertheless. Connections are pooled, and use
//! HTTP/1.1 or HTTP/2 as negotiated.

mod address_policy;
mod connector;
mod error;
mod local;
mod proxies;
mod resolver;
mod response;
mod stream;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower_service::Service;
use url::Url;

use self::address_policy::AddressPolicy;
use self::connector::Connector;
pub use self::error::NetError;
pub(crate) use self::error::NetErrorKind;
use self::local::Local;
pub(crate) use self::local::{Owner, occupied};
use self::proxies::Proxies;
use self::resolver::{Dns, Resolver};
use self::response::cause;
pub use self::response::{ReadError, Response};
use self::trust::{Roots, Tls};
use super::origin::ForbiddenUrl;
use crate::config::{Address, Remote};

/// Environment variables that are read once, for all clients.
pub(crate) const VARIABLES: [&str; 10] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Makes the clients of all servers, and owns what they share. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    roots: Roots,
    /// Shared by all servers without a `ca_file`.
    tls: Tls,
    dns: Dns,
    proxies: Arc<Proxies>,
}

/// The HTTP clients of one server. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Parts>);

/// Why a URL that a server has supplied cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuppliedUrlError {
    /// It must not be used.
    #[error(transparent)]
    Forbidden(#[from] ForbiddenUrl),
    /// Its host name has no addresses that may be used.
    #[error("{origin}: {error}")]
    Unresolved {
        /// Its origin.
        origin: String,
        /// What the resolver reports.
        error: io::Error,
    },
    /// No certificate is trusted.
    #[error(transparent)]
    Tls(#[from] NetError),
}

struct Parts {
    connector: Connector,
    configured: Sender,
    /// Made when it is first needed.
    login: OnceLock<Sender>,
    addresses: Arc<AddressPolicy>,
    tls: Tls,
    proxies: Arc<Proxies>,
}

/// Uses the proxies of the environment.
impl Default for Clients {
    fn default() -> Self {
        let proxies = Arc::new(Proxies::of_environment());
        let roots = Roots::default();
        Self { tls: Tls::new(roots.clone()), roots, dns: Dns::default(), proxies }
    }
}

impl Clients {
    /// The client of a server, with its own connections. Reads its `ca_file` now. The system's certificates are read
    /// once for all servers, for the first `https://` URL.
    ///
    /// # Errors
    /// If the URL is invalid, `ca_file` cannot be read, or no certificate is trusted.
    pub async fn get(&self, remote: &Remote) -> Result<Client, NetError> {
        let is_trusted = remote.headers.is_empty() || !remote.is_at_socket();
        self.owned(remote, if is_trusted { Owner::Any } else { Owner::User }).await
    }

    /// The client of a server of this machine, which connects only if this owner listens there.
    pub(crate) async fn owned(&self, remote: &Remote, owner: Owner) -> Result<Client, NetError> {
        let address = Address::parse(&remote.url).map_err(|complaint| format!("its `url` {complaint}"))?;
        let url = address.url();
        let tls = match &remote.ca_file {
            None => self.tls.clone(),
            Some(path) => Tls::with_ca_file(self.roots.clone(), path.clone()).await?,
        };
        if url.scheme() == "https" {
            tls.ready().await?;
        }
        let is_direct = address.socket().is_some() || !owner.is_any();
        let proxies = if is_direct { Arc::new(Proxies::none()) } else { Arc::clone(&self.proxies) };
        let addresses = Arc::new(AddressPolicy::new(url, self.dns.for_another_server(), Arc::clone(&proxies)));
        let resolver = Resolver::Any(Arc::clone(&addresses));
        let local = Local::new(&address, remote.shown_origin(), owner);
        let connector = Connector::new(resolver, tls.clone(), Arc::clone(&proxies), local);
        let configured = Sender::new(connector.clone(), Arc::clone(&proxies));
        Ok(Client(Arc::new(Parts { connector, configured, login: OnceLock::new(), addresses, tls, proxies })))
    }
}

impl Client {
    /// Makes a connection to the configured origin, and closes it.
    ///
    /// # Errors
    /// If nothing listens there, or a process that may not receive requests.
    pub(crate) async fn try_connection(&self, url: &Url) -> Result<(), NetError> {
        let uri = Uri::try_from(url.as_str()).map_err(|error| error.to_string())?;
        self.0.connector.clone().call(uri).await.map(drop).map_err(|error| NetError::of(&*error))
    }

    /// Sends requests to the configured origin.
    #[must_use]
    pub fn configured(&self) -> &Sender {
        &self.0.configured
    }

    /// Sends the requests of a login, to the configured origin and to others. If the configured host is public, it
    /// connects only to public addresses. URLs that the server has supplied must pass [`Self::check_supplied`] first.
    #[must_use]
    pub fn login(&self) -> &Sender {
        let Parts { login, addresses, tls, proxies, .. } = &*self.0;
        login.get_or_init(|| {
            let resolver = Resolver::Checked(Arc::clone(addresses));
            let connector = Connector::new(resolver, tls.clone(), Arc::clone(proxies), Local::default());
            Sender::new(connector, Arc::clone(proxies))
        })
    }

    /// Whether the configured host has resolved to a public address.
    #[must_use]
    pub fn was_public(&self) -> bool {
        self.0.addresses.was_public()
    }

    /// Marks the configured host as public, as it was when the login was made. From then on [`Self::login`] connects only to public
    /// addresses.
    pub fn set_public(&self) {
        self.0.addresses.set_public();
    }

    /// Checks whether a browser may be sent to a URL that the server has supplied.
    ///
    /// # Errors
    /// See [`Self::check_supplied`]. The host is resolved now, unless a proxy resolves it.
    pub async fn check_page(&self, url: &Url) -> Result<(), SuppliedUrlError> {
        self.0.addresses.check_page(url).await
    }

    /// Checks whether a request may be sent to a URL that the server has supplied, and prepares [`Self::login`] for it.
    ///
    /// # Errors
    /// If the scheme is not HTTP, the URL has a user name, its address is private while the configured URL's is public,
    /// or no certificate is trusted.
    pub async fn check_supplied(&self, url: &Url) -> Result<(), SuppliedUrlError> {
        self.0.addresses.check(url).await?;
        if url.scheme() == "https" {
            self.0.tls.ready().await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

/// A URL may contain a secret.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Idle connections are closed after this time. It is shorter than the 5 s after which servers on Node and uvicorn
/// close one, perhaps while a request is on its way.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections that are kept per host. It equals the calls that one server may have in flight, so a second burst
/// of calls reuses the connections of the first.
const MAX_IDLE: usize = 256;
/// Interval of HTTP/2 pings while requests are unfinished, and the time limit for a reply.
const PROBE: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(20));
/// The `User-Agent`.
const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("mcpd/", env!("CARGO_PKG_VERSION")));
/// Without it, a server may choose any coding. Source: RFC 9110, 12.5.3.
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Sends requests, each once. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: legacy::Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

/// Why a request has no response. Texts are for a person, on one line, without the URL: its path may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The server has received nothing of it.
    #[error(transparent)]
    NotSent(NetError),
    /// The server has received it, and says that it did not process it.
    #[error("{0}")]
    Unprocessed(String),
    /// The server may have processed it.
    #[error(transparent)]
    Interrupted(NetError),
}

impl Sender {
    fn new(connector: Connector, proxies: Arc<Proxies>) -> Self {
        let (interval, timeout) = PROBE;
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            // Only requests that a closed connection had not begun to write.
            .retry_canceled_requests(true)
            .http2_keep_alive_interval(interval)
            .http2_keep_alive_timeout(timeout)
            .build(connector);
        Self { client, proxies }
    }

    /// Sends one request. An empty body is sent as none.
    ///
    /// # Errors
    /// Whether the server may have received it, and why there is no response. An error status is no error here.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, SendError> {
        let uri = Uri::try_from(url.as_str()).map_err(|error| SendError::NotSent(error.to_string().into()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        // Configured headers have precedence.
        request.headers_mut().entry(USER_AGENT).or_insert(USER_AGENT_VALUE);
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(IDENTITY);
        let proxy = self.proxies.of(&uri).filter(|proxy| proxy.is_sent(&uri));
        if let Some(authorization) = proxy.as_ref().and_then(|proxy| proxy.authorization()) {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(authorization.clone());
        }
        let is_plain = url.scheme() == "http" && proxy.is_none();
        *request.uri_mut() = uri;
        let response = self.client.request(request).await.map_err(|error| SendError::of(&error, is_plain))?;
        let response = Response::new(response);
        match (proxy, response.status()) {
            (Some(proxy), status @ StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
                let text = format!("{proxy} answers with HTTP {status}");
                Err(SendError::NotSent(NetError::new(NetErrorKind::Proxy, text)))
            }
            (Some(proxy), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                Ok(response.maybe_from_proxy(proxy))
            }
            _ => Ok(response),
        }
    }
}

impl SendError {
    /// `is_plain`: the request went to the server without TLS.
    fn of(error: &legacy::Error, is_plain: bool) -> Self {
        if error.is_connect() {
            Self::NotSent(NetError::of(error))
        } else if is_unprocessed(error) {
            Self::Unprocessed(cause(error))
        } else {
            let kind = if is_plain && has_no_response(error) { NetErrorKind::NotPlain } else { NetErrorKind::Other };
            Self::Interrupted(NetError::new(kind, cause(error)))
        }
    }
}

/// Whether the server closed the connection, or sent something else than HTTP, as servers do that expect TLS.
fn has_no_response(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_parse())
        {
            return true;
        }
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the server states over HTTP/2 that it has not processed the request: it refuses the stream (RFC 9113, 8.7),
/// or sends a GOAWAY whose last stream is an earlier one (6.8). Streams that the server still processes get no error
/// from a GOAWAY.
fn is_unprocessed(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (is_refused || error.is_go_away());
        }
        next = error.source();
    }
    false
}

/// All configured headers, marked as sensitive.
///
/// # Errors
/// If a header cannot be sent.
pub(crate) fn configured_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, HeaderError> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value { name: name.clone() })?;
        value.set_sensitive(true);
        all.insert(name.parse::<HeaderName>().map_err(|_| HeaderError::Name)?, value);
    }
    Ok(all)
}

/// A configured header that cannot be sent. Its value may be a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("its header `{name}` cannot be sent")]
    Value { name: String },
    #[error("a name of its headers cannot be sent")]
    Name,
}

impl From<HeaderError> for NetError {
    fn from(error: HeaderError) -> Self {
        error.to_string().into()
    }
}
