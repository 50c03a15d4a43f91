//! Where URLs that a server supplies may lead: to addresses that are not public only if the configured host is not public
//! either. A server on the internet could otherwise have mcpd ask this machine and its network.

use std::env;
use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::OnceCell;
use url::Host;

use super::names::Names;
use crate::net::origin::{has_user, is_public, told};

/// The variables that name proxies, which are read in either case.
const PROXIES: [&str; 3] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"];

/// What one server's URLs may lead to.
pub(super) struct Addresses {
    configured: Option<Host<String>>,
    names: Names,
    /// Whether no address of the configured host is public, once it is known.
    private: OnceCell<bool>,
    /// Names of the proxies' hosts, which may be anywhere: the user has named them.
    proxies: Vec<String>,
}

/// A resolver that holds to it.
pub(super) struct Checked(pub(super) Arc<Addresses>);

impl Addresses {
    pub(super) fn new(configured: &Url, names: Names) -> Self {
        let both = PROXIES.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]);
        let proxies = both.filter_map(|name| host_of_proxy(&env::var(name).ok()?)).collect();
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
            Some(Host::Domain(name)) => is_localhost(name) || self.is_proxy(name),
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
                None => Ok::<bool, std::io::Error>(false),
            }
        };
        self.private.get_or_try_init(is_private).await.is_ok_and(|private| *private)
    }

    fn is_proxy(&self, name: &str) -> bool {
        self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
    }

    /// The addresses of a name that may be gone to.
    async fn look_up(&self, name: &str) -> Result<Addrs, Box<dyn std::error::Error + Send + Sync>> {
        let mut found = self.names.look_up(name.to_owned()).await?;
        let is_any_local = found.iter().any(|address| !is_public(address.ip()));
        if is_any_local && !self.is_proxy(name) && !self.private().await {
            found.retain(|address| is_public(address.ip()));
            if found.is_empty() {
                return Err(refusal(name).into());
            }
        }
        Ok(Box::new(found.into_iter()))
    }
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = Arc::clone(&self.0);
        Box::pin(async move { addresses.look_up(name.as_str()).await })
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

/// Whether no request is to go by a proxy. reqwest takes `*` for all names, but not for addresses.
pub(super) fn excepts_all() -> bool {
    let excepted = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok());
    excepted.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}

/// The name of a proxy's host, if it has one, as its variable has it: without a scheme it is one over HTTP.
fn host_of_proxy(text: &str) -> Option<String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).ok()?;
    let host = url.host_str()?;
    host.parse::<IpAddr>().is_err().then(|| host.to_owned())
}
