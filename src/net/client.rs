//! The HTTP clients of a server with a `url`: one for that URL, and one for URLs that the server names.
//!
//! TLS certificates are always verified ([`trust`]). Proxies come from the environment. The clients follow no redirects
//! ([`super::origin::redirect`] decides), never repeat a request, keep no cookies, send no `Referer`, and request no
//! compression. They decode gzip, which some servers and proxies send nevertheless.

mod address_policy;
mod connector;
mod decoder;
mod dns;
mod error;
mod localhost;
mod proxies;
mod resolver;
mod response;
mod sender;
mod stream;
#[cfg(test)]
mod tests;
mod trust;
mod tunnel;

use std::fmt;
use std::sync::{Arc, OnceLock};

use url::Url;

use self::address_policy::AddressPolicy;
use self::connector::Connector;
use self::dns::Dns;
pub use self::error::NetError;
pub(crate) use self::error::NetErrorKind;
use self::proxies::Proxies;
use self::resolver::Resolver;
pub use self::response::Response;
pub use self::sender::{SendError, Sender};
use self::trust::{Roots, Tls};
use crate::config::Remote;

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

struct Parts {
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
        let url = Url::parse(&remote.url).map_err(|error| format!("its `url` is not a URL: {error}"))?;
        let tls = match &remote.ca_file {
            None => self.tls.clone(),
            Some(path) => Tls::with_ca_file(self.roots.clone(), path.clone()).await?,
        };
        if url.scheme() == "https" {
            tls.ready().await?;
        }
        let (dns, proxies) = (self.dns.for_another_server(), Arc::clone(&self.proxies));
        let addresses = Arc::new(AddressPolicy::new(&url, dns, Arc::clone(&proxies)));
        let configured = sender(Resolver::Any(Arc::clone(&addresses)), &tls, &proxies);
        Ok(Client(Arc::new(Parts { configured, login: OnceLock::new(), addresses, tls, proxies })))
    }
}

impl Client {
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
        login.get_or_init(|| sender(Resolver::Checked(Arc::clone(addresses)), tls, proxies))
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
    pub async fn check_page(&self, url: &Url) -> Result<(), String> {
        self.0.addresses.check_page(url).await
    }

    /// Checks whether a request may be sent to a URL that the server has supplied, and prepares [`Self::login`] for it.
    ///
    /// # Errors
    /// If the scheme is not HTTP, the URL has a user name, its address is private while the configured URL's is public,
    /// or no certificate is trusted.
    pub async fn check_supplied(&self, url: &Url) -> Result<(), String> {
        self.0.addresses.check(url).await?;
        if url.scheme() == "https" {
            self.0.tls.ready().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn sender(resolver: Resolver, tls: &Tls, proxies: &Arc<Proxies>) -> Sender {
    Sender::new(Connector::new(resolver, tls.clone(), Arc::clone(proxies)), Arc::clone(proxies))
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
