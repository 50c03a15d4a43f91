//! Where URLs that a server supplies may lead: to addresses that are not public only if the configured host is not public
//! either. A server on the internet could otherwise have mcpd ask this machine and its network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::OnceCell;
use url::{Host, Url};

use super::names::Names;
use super::proxies::Proxies;
use crate::net::origin::{has_user, is_public, told};

/// What one server's URLs may lead to.
pub(super) struct Addresses {
    configured: Option<Host<String>>,
    names: Names,
    /// Whether no address of the configured host is public, once it is known.
    private: OnceCell<bool>,
    /// Their hosts may be anywhere: the user has named them.
    proxies: Arc<Proxies>,
}

impl Addresses {
    pub(super) fn new(configured: &Url, names: Names, proxies: Arc<Proxies>) -> Self {
        Self { configured: configured.host().map(|host| host.to_owned()), names, private: OnceCell::new(), proxies }
    }

    /// What can be said of a URL before a name is looked up.
    pub(super) async fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("a URL of `{}`, not of HTTP", url.scheme()));
        }
        if has_user(url) {
            return Err("a URL with a user name in it".to_owned());
        }
        let is_local = match url.host() {
            Some(Host::Ipv4(address)) => !is_public(address.into()),
            Some(Host::Ipv6(address)) => !is_public(address.into()),
            // A proxy may stand where these lead, and would take them for itself.
            Some(Host::Domain(name)) => is_localhost(name) || self.proxies.has(name),
            None => true,
        };
        if is_local && !self.private().await { Err(refusal(&told(url))) } else { Ok(()) }
    }

    /// Whether the configured host is one of this machine or of its network. One whose address is not known is taken for a
    /// public one: behind a proxy there is nothing else to go by.
    async fn private(&self) -> bool {
        let is_private = || async {
            match self.configured.clone() {
                Some(Host::Ipv4(address)) => Ok(!is_public(address.into())),
                Some(Host::Ipv6(address)) => Ok(!is_public(address.into())),
                Some(Host::Domain(name)) => {
                    let found = self.names.look_up(name).await?;
                    Ok(!found.iter().any(|address| is_public(address.ip())))
                }
                None => Ok::<bool, io::Error>(false),
            }
        };
        self.private.get_or_try_init(is_private).await.is_ok_and(|private| *private)
    }

    /// The addresses of a name that may be gone to.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let mut found = self.names.look_up(name.clone()).await?;
        let is_any_local = found.iter().any(|address| !is_public(address.ip()));
        if is_any_local && !self.proxies.has(&name) && !self.private().await {
            found.retain(|address| is_public(address.ip()));
            if found.is_empty() {
                return Err(io::Error::other(refusal(&name)));
            }
        }
        Ok(found)
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
