//! The HTTP clients of a server with a `url`: one for that URL, one for what the server names itself.
//!
//! TLS is always verified ([`trust`]). Proxies are those of the environment, and resolve names for themselves. Neither client
//! follows a redirect ([`super::origin::redirect`] says which may be), sends anything again, keeps cookies, says where it came
//! from, or accepts what is compressed.

mod addresses;
mod answer;
mod connector;
mod error;
mod names;
mod proxies;
mod resolver;
mod sender;
mod stream;
#[cfg(test)]
mod tests;
mod trust;
mod tunnel;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;
use url::Url;

use self::addresses::Addresses;
pub use self::answer::Answer;
use self::connector::Connector;
pub use self::error::NetError;
use self::names::Names;
use self::proxies::Proxies;
use self::resolver::Resolver;
pub use self::sender::{Failure, Sender};
use self::trust::{Roots, Tls};
use crate::config::Remote;

/// Variables of the environment that are read once, for all clients.
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

/// Where the clients of all servers come from, with what they have in common. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    roots: Roots,
    /// That of all servers without a `ca_file`.
    tls: Arc<OnceCell<Tls>>,
    names: Names,
    proxies: Arc<Proxies>,
}

/// What requests for one server are sent with. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Parts>);

struct Parts {
    configured: Sender,
    /// Made when it is needed.
    login: OnceLock<Sender>,
    addresses: Arc<Addresses>,
    tls: Tls,
    proxies: Arc<Proxies>,
}

/// With the proxies of the environment.
impl Default for Clients {
    fn default() -> Self {
        let proxies = Arc::new(Proxies::of_environment());
        Self { roots: Roots::default(), tls: Arc::default(), names: Names::default(), proxies }
    }
}

impl Clients {
    /// The client of a server, with connections of its own. Its `ca_file` is read now; the system's certificates are, once for
    /// all servers, when the first one with an `https://` URL is there.
    ///
    /// # Errors
    /// Says why there is none: its URL is none, its `ca_file` cannot be read, or there is no certificate to trust.
    pub async fn get(&self, remote: &Remote) -> Result<Client, NetError> {
        let url = Url::parse(&remote.url).map_err(|error| format!("its `url` is no URL: {error}"))?;
        let tls = match &remote.ca_file {
            None => self.tls.get_or_try_init(|| Tls::new(self.roots.clone(), None)).await?.clone(),
            own => Tls::new(self.roots.clone(), own.clone()).await?,
        };
        if url.scheme() == "https" {
            tls.ready().await?;
        }
        let (names, proxies) = (self.names.of_another(), Arc::clone(&self.proxies));
        let addresses = Arc::new(Addresses::new(&url, names, Arc::clone(&proxies)));
        let configured = sender(Resolver::Any(Arc::clone(&addresses)), &tls, &proxies);
        Ok(Client(Arc::new(Parts { configured, login: OnceLock::new(), addresses, tls, proxies })))
    }
}

impl Client {
    /// For requests to the configured origin.
    #[must_use]
    pub fn configured(&self) -> &Sender {
        &self.0.configured
    }

    /// For the requests of a login, to the configured origin and to others. If the configured host is public,
    /// it connects only to public addresses. URLs that the server has supplied must pass [`Self::check_supplied`] first.
    #[must_use]
    pub fn login(&self) -> &Sender {
        let Parts { login, addresses, tls, proxies, .. } = &*self.0;
        login.get_or_init(|| sender(Resolver::Checked(Arc::clone(addresses)), tls, proxies))
    }

    /// Whether the configured host has led to a public address.
    #[must_use]
    pub fn was_public(&self) -> bool {
        self.0.addresses.was_public()
    }

    /// Marks the configured host as public, as it was when the login was made. From then on [`Self::login`] connects only to public
    /// addresses.
    pub fn set_public(&self) {
        self.0.addresses.set_public();
    }

    /// Whether a browser may be sent to a URL that the server has supplied.
    ///
    /// # Errors
    /// Says why not, as [`Self::check_supplied`] does; its host is looked up now, unless a proxy resolves it.
    pub async fn check_page(&self, url: &Url) -> Result<(), String> {
        self.0.addresses.check_page(url).await
    }

    /// Whether a request may be sent to a URL that the server has supplied, by [`Self::login`], which is then ready for it.
    ///
    /// # Errors
    /// Says why not: it is not one of HTTP, has a user name, is an address that is not public while that of the
    /// configured URL is, or needs certificates that are not there.
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

/// A URL may hold a secret.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
