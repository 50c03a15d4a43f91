//! Name resolution for connections.
//!
//! A name is resolved once per connection, which then uses only the addresses found.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::address_policy::AddressPolicy;

/// Resolves names for one client. Cheap to clone.
#[derive(Clone)]
pub(super) enum Resolver {
    /// Any address. Records the addresses of the configured host.
    Any(Arc<AddressPolicy>),
    /// Only addresses that a login may use.
    Checked(Arc<AddressPolicy>),
}

impl Resolver {
    /// The addresses of a host, with port 0; at least one.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Any(addresses) => addresses.look_up_any(name).await,
            Self::Checked(addresses) => addresses.look_up(name).await,
        }
    }

    /// Refuses an IP address, `localhost` or the host of a proxy if a login must not connect there. [`Self::look_up`] does not catch
    /// them: addresses are not looked up, a proxy may resolve `localhost`, and hosts of proxies may be local.
    pub(super) async fn admit(&self, host: &str) -> io::Result<()> {
        match self {
            Self::Any(_) => Ok(()),
            Self::Checked(addresses) => addresses.admit(host).await.map_err(io::Error::other),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move { Ok(resolver.look_up(name.as_str().to_owned()).await?.into_iter()) })
    }
}
