//! The HTTP clients of a server with a `url`: one for that URL, one for what the server names itself.
//!
//! TLS is always verified ([`trust`]). Proxies are those of the environment, and resolve names for themselves. Neither client
//! follows a redirect ([`super::origin::redirect`] says which may be), sends anything again, keeps cookies, says where it came
//! from, or accepts what is compressed.

mod addresses;
mod names;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{ClientBuilder, Url};

use self::addresses::{Addresses, Checked};
use self::names::Names;
use self::trust::{Roots, Trust};
use crate::config::Remote;

/// For a connection to stand, with its TLS and its proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses: less than the 5 s after which the servers of Node and uvicorn close one, perhaps
/// while a request is on its way.
const IDLE: Duration = Duration::from_secs(4);
/// Between two signs that a connection is still there.
const ALIVE: Duration = Duration::from_secs(30);
/// Connections to one host that are kept for later; more are closed when their request is done. As many as a server may have calls
/// in flight: a burst whose connections are closed has the next one open them all again.
const MOST_IDLE: usize = 256;
/// How often a connection over HTTP/2 with unfinished requests is probed, and for how long it may not answer.
const PROBE: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(20));

/// Where the clients of all servers come from, with what they have in common. Cheap to clone.
#[derive(Clone, Default)]
pub struct Clients {
    roots: Roots,
    names: Names,
}

/// What requests for one server are sent with. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Parts>);

struct Parts {
    configured: reqwest::Client,
    supplied: reqwest::Client,
    addresses: Arc<Addresses>,
    trust: Arc<Trust>,
}

impl Clients {
    /// The client of a server, with connections of its own. Its `ca_file` is read now; the system's certificates are, once for
    /// all servers, when the first one with an `https://` URL is there.
    ///
    /// # Errors
    /// Says why there is none: its URL is none, its `ca_file` cannot be read, or there is no certificate to trust.
    pub async fn get(&self, remote: &Remote) -> Result<Client, String> {
        let url = Url::parse(&remote.url).map_err(|error| format!("its `url` is no URL: {error}"))?;
        let trust = Arc::new(Trust::new(self.roots.clone(), remote.ca_file.clone()).await?);
        if url.scheme() == "https" {
            trust.ready().await?;
        }
        let tls = trust.tls()?;
        let names = self.names.of_another();
        let addresses = Arc::new(Addresses::new(&url, names.clone()));
        let build = |builder: ClientBuilder| builder.build().map_err(|error| error.to_string());
        let configured = build(builder(tls.clone()).dns_resolver(names))?;
        let supplied = build(builder(tls).dns_resolver(Checked(Arc::clone(&addresses))))?;
        Ok(Client(Arc::new(Parts { configured, supplied, addresses, trust })))
    }
}

impl Client {
    /// For requests to the configured origin.
    #[must_use]
    pub fn configured(&self) -> &reqwest::Client {
        &self.0.configured
    }

    /// For requests to a URL that the server has supplied. Each is to pass [`Self::check_supplied`] first: this client alone
    /// sees names, not addresses that are written in a URL.
    #[must_use]
    pub fn supplied(&self) -> &reqwest::Client {
        &self.0.supplied
    }

    /// Whether a request may be sent to a URL that the server has supplied, by [`Self::supplied`], which is then ready for it.
    ///
    /// # Errors
    /// Says why not: it is not one of HTTP, has a user name, leads to an address that is not public while that of the
    /// configured URL is, or needs certificates that are not there.
    pub async fn check_supplied(&self, url: &Url) -> Result<(), String> {
        self.0.addresses.check(url).await?;
        if url.scheme() == "https" {
            self.0.trust.ready().await?;
        }
        Ok(())
    }
}

fn builder(tls: rustls::ClientConfig) -> ClientBuilder {
    let (every, patience) = PROBE;
    let builder = reqwest::Client::builder();
    let builder = if addresses::excepts_all() { builder.no_proxy() } else { builder };
    builder
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("mcpd/", env!("CARGO_PKG_VERSION")))
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        // Even what a server says that it has not touched: who sends knows whether it may be sent again.
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .tcp_nodelay(true)
        .tcp_keepalive(ALIVE)
        .http2_keep_alive_interval(every)
        .http2_keep_alive_timeout(patience)
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
