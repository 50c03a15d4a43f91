//! The addresses that requests of a login may go to. Private and local ones are allowed only if the configured host is
//! private, too. Otherwise a server on the internet could make mcpd send requests to this machine and its network.
//!
//! Whether the configured host is public follows from the addresses of its connections, and stays so: a later DNS
//! response cannot turn a public host into a private one. The resolver of the connection itself checks names
//! ([`super::resolver`]), so nothing is resolved again between check and use.
//!
//! If a proxy resolves names, the addresses are unknown here. A configured host name then counts as public.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use url::{Host, Url};

use super::SuppliedUrlError;
use super::proxies::Proxies;
use super::resolver::Dns;
use crate::net::origin::{ForbiddenUrl, has_user, is_public, shown_origin};

/// Which addresses one server's logins may use.
pub(super) struct AddressPolicy {
    configured: Option<Host<String>>,
    /// The proxy for the configured URL resolves its host name.
    is_resolved_elsewhere: bool,
    dns: Dns,
    /// An address of the configured host was found.
    is_known: AtomicBool,
    /// One of them was public.
    was_public: AtomicBool,
    /// The user has named these hosts, so they may be private.
    proxies: Arc<Proxies>,
}

impl AddressPolicy {
    pub(super) fn new(configured: &Url, dns: Dns, proxies: Arc<Proxies>) -> Self {
        Self {
            configured: configured.host().map(|host| host.to_owned()),
            is_resolved_elsewhere: proxies.resolve_host_of(configured),
            dns,
            is_known: AtomicBool::new(false),
            was_public: AtomicBool::new(false),
            proxies,
        }
    }

    /// Checks a URL that a server has supplied for a login request, as far as possible without resolving its name.
    pub(super) async fn check(&self, url: &Url) -> Result<(), ForbiddenUrl> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ForbiddenUrl::Scheme(url.scheme().to_owned()));
        }
        if has_user(url) {
            return Err(ForbiddenUrl::UserName);
        }
        let Some(host) = url.host_str() else { return Err(ForbiddenUrl::NotPublic(shown_origin(url))) };
        self.admit(host).await
    }

    /// Checks a URL that a server has supplied for a browser. Resolves its name now, unless a proxy would.
    pub(super) async fn check_page(&self, url: &Url) -> Result<(), SuppliedUrlError> {
        self.check(url).await?;
        match url.host() {
            Some(Host::Domain(name)) if !self.proxies.resolve_host_of(url) => {
                let found = self.look_up(name.to_owned()).await;
                found.map(drop).map_err(|error| SuppliedUrlError::Unresolved { origin: shown_origin(url), error })
            }
            _ => Ok(()),
        }
    }

    /// Refuses an IP address, a local name or a proxy's host, if connections must not go there.
    pub(super) async fn admit(&self, host: &str) -> Result<(), ForbiddenUrl> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_local = match bare.parse::<IpAddr>() {
            Ok(address) => !is_public(address),
            // A proxy would resolve these names for itself.
            Err(_) => is_localhost(host) || self.proxies.has(host) && !self.is_configured(host),
        };
        if is_local && !self.is_private().await { Err(ForbiddenUrl::NotPublic(host.to_owned())) } else { Ok(()) }
    }

    /// Whether the configured host is this machine or in its network. A host with unknown addresses counts as public.
    async fn is_private(&self) -> bool {
        match &self.configured {
            Some(Host::Ipv4(address)) => !is_public((*address).into()),
            Some(Host::Ipv6(address)) => !is_public((*address).into()),
            Some(Host::Domain(name)) if is_localhost(name) => true,
            Some(Host::Domain(_)) if self.is_resolved_elsewhere => false,
            Some(Host::Domain(name)) => {
                if !self.is_known.load(Ordering::Relaxed) && self.look_up_any(name.clone()).await.is_err() {
                    return false;
                }
                !self.was_public.load(Ordering::Relaxed)
            }
            None => false,
        }
    }

    /// Whether the configured host is known to be public.
    pub(super) fn was_public(&self) -> bool {
        self.was_public.load(Ordering::Relaxed)
    }

    /// Marks the configured host as public, as it was when its login was made.
    pub(super) fn set_public(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.was_public.store(true, Ordering::Relaxed);
    }

    /// Resolves a name, and records the addresses of the configured host.
    pub(super) async fn look_up_any(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let is_configured = self.is_configured(&name);
        let found = self.dns.look_up(name).await?;
        if is_configured {
            self.record(&found);
        }
        Ok(found)
    }

    /// Resolves a name to the addresses that a login request may use.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let mut found = self.look_up_any(name.clone()).await?;
        let is_any_local = found.iter().any(|address| !is_public(address.ip()));
        if is_any_local && !self.proxies.has(&name) && !self.is_private().await {
            found.retain(|address| is_public(address.ip()));
            if found.is_empty() {
                return Err(io::Error::other(ForbiddenUrl::NotPublic(name)));
            }
        }
        Ok(found)
    }

    pub(super) fn record(&self, found: &[SocketAddr]) {
        self.is_known.store(true, Ordering::Relaxed);
        if found.iter().any(|address| is_public(address.ip())) {
            self.was_public.store(true, Ordering::Relaxed);
        }
    }

    fn is_configured(&self, name: &str) -> bool {
        matches!(&self.configured, Some(Host::Domain(configured)) if configured.eq_ignore_ascii_case(name))
    }
}

/// Source: RFC 6761, 6.3.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}
