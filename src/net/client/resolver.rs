//! How the names of hosts become addresses when a connection is made.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::addresses::Addresses;
use super::names::Names;

/// For the connections of one client. Cheap to clone.
#[derive(Clone)]
pub(super) enum Resolver {
    /// As the system says.
    Any(Names),
    /// Held to where URLs that a server supplies may lead.
    Checked(Arc<Addresses>),
}

impl Resolver {
    /// The addresses of a host, with port 0; at least one.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Any(names) => names.look_up(name).await,
            Self::Checked(addresses) => addresses.look_up(name).await,
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
