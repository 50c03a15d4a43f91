//! Which addresses the requests of a login may go to. Private and local ones are allowed only if the configured host is private, too.
//! A server on the internet could otherwise have mcpd send requests to this machine and its network.
//!
//! Whether the configured host is public is known from the addresses that its connections were made to, and stays so: a later DNS
//! answer cannot turn a public host into a private one. Names are checked by the resolver of the connection itself
//! ([`super::resolver`]), so there is no second resolution between the check and its use.
//!
//! Where a proxy resolves names, the addresses are not known here. Then a configured host that is a name counts as public.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use url::{Host, Url};

use super::names::Names;
use super::proxies::Proxies;
use crate::net::origin::{has_user, is_public, told};

/// The addresses of one server's logins.
pub(super) struct Addresses {
    configured: Option<Host<String>>,
    /// The proxy that the configured URL is reached by resolves its name.
    is_resolved_elsewhere: bool,
    names: Names,
    /// An address of the configured host was found.
    is_known: AtomicBool,
    /// One of them was public.
    was_public: AtomicBool,
    /// Their hosts may be anywhere: the user has named them.
    proxies: Arc<Proxies>,
}

impl Addresses {
    pub(super) fn new(configured: &Url, names: Names, proxies: Arc<Proxies>) -> Self {
        Self {
            configured: configured.host().map(|host| host.to_owned()),
            is_resolved_elsewhere: proxies.resolve_host_of(configured),
            names,
            is_known: AtomicBool::new(false),
            was_public: AtomicBool::new(false),
            proxies,
        }
    }

    /// Whether a request of a login may be sent to a URL that a server has supplied, as far as can be said before its name is looked up.
    pub(super) async fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("a URL of `{}`, not of HTTP", url.scheme()));
        }
        if has_user(url) {
            return Err("a URL with a user name in it".to_owned());
        }
        let Some(host) = url.host_str() else { return Err(refusal(&told(url))) };
        self.admit(host).await
    }

    /// Whether a browser may be sent to a URL that a server has supplied. Its name is looked up now, unless a proxy would do that.
    pub(super) async fn check_page(&self, url: &Url) -> Result<(), String> {
        self.check(url).await?;
        match url.host() {
            Some(Host::Domain(name)) if !self.proxies.resolve_host_of(url) => {
                let found = self.look_up(name.to_owned()).await;
                found.map(drop).map_err(|error| format!("{}: {error}", told(url)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a host that is an address, or a name of this machine or of a proxy, if connections may not go there.
    pub(super) async fn admit(&self, host: &str) -> Result<(), String> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_local = match bare.parse::<IpAddr>() {
            Ok(address) => !is_public(address),
            // A proxy may stand where these lead, and would take them for itself.
            Err(_) => is_localhost(host) || self.proxies.has(host) && !self.is_configured(host),
        };
        if is_local && !self.is_private().await { Err(refusal(host)) } else { Ok(()) }
    }

    /// Whether the configured host is one of this machine or of its network. One whose address is not known is taken for a
    /// public one.
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

    /// The configured host was public when its login was made.
    pub(super) fn set_public(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.was_public.store(true, Ordering::Relaxed);
    }

    /// The addresses of a name. What the configured host leads to is remembered.
    pub(super) async fn look_up_any(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let is_configured = self.is_configured(&name);
        let found = self.names.look_up(name).await?;
        if is_configured {
            self.observe(&found);
        }
        Ok(found)
    }

    /// The addresses of a name that a request of a login may go to.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let mut found = self.look_up_any(name.clone()).await?;
        let is_any_local = found.iter().any(|address| !is_public(address.ip()));
        if is_any_local && !self.proxies.has(&name) && !self.is_private().await {
            found.retain(|address| is_public(address.ip()));
            if found.is_empty() {
                return Err(io::Error::other(refusal(&name)));
            }
        }
        Ok(found)
    }

    pub(super) fn observe(&self, found: &[SocketAddr]) {
        self.is_known.store(true, Ordering::Relaxed);
        if found.iter().any(|address| is_public(address.ip())) {
            self.was_public.store(true, Ordering::Relaxed);
        }
    }

    fn is_configured(&self, name: &str) -> bool {
        matches!(&self.configured, Some(Host::Domain(configured)) if configured.eq_ignore_ascii_case(name))
    }
}

fn refusal(place: &str) -> String {
    format!("{place} is not on the public internet, and the configured server is")
}

/// Source: RFC 6761, 6.3.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}
