//! Name resolution for connections, by the system's resolver.
//!
//! A name is resolved once per connection, which then uses only the addresses found.
//!
//! Lookups block, so each has a thread of its own. On the runtime's few helper threads, which serve file I/O, one
//! silent name server would block everything.

use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{io, thread, vec};

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::{Semaphore, oneshot};
use tower_service::Service;

use super::address_policy::AddressPolicy;
use super::error::{NetError, NetErrorKind};

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

/// Concurrent lookups; further ones wait. The system's resolver gives up after about ten seconds.
const MAX_LOOKUPS: usize = 16;
/// Concurrent lookups of one server, so that a silent name server leaves slots for the others.
const MAX_PER_SERVER: usize = 4;
/// Stack size of a lookup thread, in bytes. The system's resolver modules run on it.
const STACK: usize = 512 << 10;

/// Resolves names for one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Dns {
    all: Arc<Semaphore>,
    per_server: Arc<Semaphore>,
}

impl Default for Dns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_LOOKUPS)), per_server: Arc::new(Semaphore::new(MAX_PER_SERVER)) }
    }
}

impl Dns {
    /// The resolver of another server, with the same global limit.
    pub(super) fn for_another_server(&self) -> Self {
        Self { all: Arc::clone(&self.all), ..Self::default() }
    }

    /// The addresses of a host, with port 0; at least one.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let server_permit = Arc::clone(&self.per_server).acquire_owned().await.map_err(io::Error::other)?;
        let permit = Arc::clone(&self.all).acquire_owned().await.map_err(io::Error::other)?;
        let (sender, receiver) = oneshot::channel();
        let lookup = move || {
            let found = (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
            // The caller may have gone. The permits last as long as the thread.
            let _ = sender.send(found);
            drop((server_permit, permit));
        };
        thread::Builder::new().name("dns".to_owned()).stack_size(STACK).spawn(lookup)?;
        let found = receiver.await.map_err(io::Error::other)?;
        let found = found.map_err(|error| NetError::new(NetErrorKind::NameLookup, error.to_string()));
        let found = found.map_err(io::Error::other)?;
        if found.is_empty() { Err(io::Error::other("the host has no address")) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pending_lookups_of_one_server_do_not_block_others() {
        let one = Dns::default();
        let other = one.for_another_server();
        let mut permits = Vec::new();
        while let Ok(permit) = Arc::clone(&one.per_server).try_acquire_owned() {
            permits.push((permit, Arc::clone(&one.all).try_acquire_owned().expect("there are more for all")));
        }
        let name = || "127.0.0.1".to_owned();
        let mut waiting = Box::pin(one.look_up(name()));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(other.look_up(name()).await.expect("an address").len(), 1);
        permits.pop();
        assert_eq!(waiting.await.expect("its turn").len(), 1);
    }
}
