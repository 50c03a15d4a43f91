//! What stands between a client and a server: a listening socket with threads for each connection.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::locked::Lock;

/// Dropping it ends every connection.
pub(super) struct Relay {
    address: SocketAddr,
    shared: Arc<SharedState>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SharedState {
    is_stopping: AtomicBool,
    streams: Lock<Vec<TcpStream>>,
    threads: Lock<Vec<JoinHandle<()>>>,
}

/// Connections that end with the relay.
#[derive(Clone)]
pub(super) struct Keeper(Arc<SharedState>);

impl Relay {
    /// Serves each connection on its own thread.
    pub(super) fn start(host: IpAddr, serve: impl Fn(TcpStream, &Keeper) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(SharedState::default());
        let (keeper, serve) = (Keeper(Arc::clone(&shared)), Arc::new(serve));
        let acceptor = thread::spawn(move || {
            loop {
                let (stream, _) = listener.accept().expect("a listening socket");
                if keeper.0.is_stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (serve, keeping) = (Arc::clone(&serve), keeper.clone());
                keeper.keep(&stream);
                keeper.also(move || serve(stream, &keeping));
            }
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        let _ = self.acceptor.take().map(JoinHandle::join);
        loop {
            // A thread may have started another thread.
            self.shared.streams.lock().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            let threads = std::mem::take(&mut *self.shared.threads.lock());
            if threads.is_empty() {
                return;
            }
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}

impl Keeper {
    pub(super) fn keep(&self, stream: &TcpStream) {
        stream.set_nodelay(true).expect("a socket");
        self.0.streams.lock().push(copy(stream));
        if self.0.is_stopping.load(Ordering::SeqCst) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn also(&self, work: impl FnOnce() + Send + 'static) {
        self.0.threads.lock().push(thread::spawn(work));
    }

    /// Connects to the target of a connection.
    pub(super) fn connect(&self, to: impl std::net::ToSocketAddrs) -> Option<TcpStream> {
        TcpStream::connect(to).inspect(|stream| self.keep(stream)).ok()
    }

    /// Passes bytes both ways to the end.
    pub(super) fn join(&self, one: &TcpStream, other: &TcpStream) {
        let back = (copy(other), copy(one));
        self.also(move || pass(&back.0, &back.1));
        pass(one, other);
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

pub(super) fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor")
}
