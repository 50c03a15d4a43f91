//! Names of hosts, looked up as the system does it.
//!
//! That waits for other machines, so it is done on threads of its own: on the runtime's few helper threads, which work on
//! files, one name server that is silent would hold up everybody.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use tokio::sync::{Semaphore, oneshot};

use super::error::{NetError, NetErrorKind};

/// Names that are looked up at once; one more waits. The system gives up a name after some ten seconds.
const AT_ONCE: usize = 16;
/// Of these, those of one server: where a name server is silent, that leaves others their places.
const OF_ONE: usize = 4;
/// Bytes of a thread's stack, which the system's modules for names run on.
const STACK: usize = 512 << 10;

/// Looks up names for one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Names {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

impl Default for Names {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), own: Arc::new(Semaphore::new(OF_ONE)) }
    }
}

impl Names {
    /// The same for another server.
    pub(super) fn of_another(&self) -> Self {
        Self { all: Arc::clone(&self.all), ..Self::default() }
    }

    /// The addresses of a host, with port 0; at least one.
    pub(super) async fn look_up(&self, name: String) -> io::Result<Vec<SocketAddr>> {
        let own = Arc::clone(&self.own).acquire_owned().await.map_err(io::Error::other)?;
        let place = Arc::clone(&self.all).acquire_owned().await.map_err(io::Error::other)?;
        let (answer, answered) = oneshot::channel();
        let lookup = move || {
            let found = (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
            // Whoever asked may have gone; the places are kept as long as the thread is there.
            let _ = answer.send(found);
            drop((own, place));
        };
        thread::Builder::new().name("names".to_owned()).stack_size(STACK).spawn(lookup)?;
        let found = answered.await.map_err(io::Error::other)?;
        let found = found.map_err(|error| NetError::new(NetErrorKind::NameLookup, error.to_string()));
        let found = found.map_err(io::Error::other)?;
        if found.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_whose_names_are_not_found_keeps_no_other_from_its_own() {
        let one = Names::default();
        let other = one.of_another();
        let mut held = Vec::new();
        while let Ok(place) = Arc::clone(&one.own).try_acquire_owned() {
            held.push((place, Arc::clone(&one.all).try_acquire_owned().expect("there are more for all")));
        }
        let name = || "127.0.0.1".to_owned();
        let mut waiting = Box::pin(one.look_up(name()));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(other.look_up(name()).await.expect("an address").len(), 1);
        held.pop();
        assert_eq!(waiting.await.expect("its turn").len(), 1);
    }
}
