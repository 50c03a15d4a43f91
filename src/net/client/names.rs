//! Names of hosts, looked up as the system does it.
//!
//! That waits for other machines, so it is done on threads of its own: on the runtime's few helper threads, which work on
//! files, one name server that is silent would hold up everybody.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::{Semaphore, oneshot};

/// Names that are looked up at once; one more waits. The system gives up a name after some ten seconds.
const AT_ONCE: usize = 16;
/// Bytes of a thread's stack, which the system's modules for names run on.
const STACK: usize = 512 << 10;

/// Looks up names. Cheap to clone.
#[derive(Clone)]
pub(super) struct Names(Arc<Semaphore>);

impl Default for Names {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Names {
    /// The addresses of a host, with port 0; at least one.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let place = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
        let (answer, answered) = oneshot::channel();
        let lookup = move || {
            let found = (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
            // Whoever asked may have gone; the place is kept as long as the thread is there.
            let _ = answer.send(found);
            drop(place);
        };
        thread::Builder::new().name("names".to_owned()).stack_size(STACK).spawn(lookup)?;
        let found = answered.await.map_err(io::Error::other)??;
        if found.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(found) }
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = names.look_up(name.as_str().to_owned()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
