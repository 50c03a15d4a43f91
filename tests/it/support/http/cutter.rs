//! A proxy that passes bytes on until it has passed so many, and then cuts the connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::net::connect_unspec;

use super::locked::Lock;

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    FromServer,
}

/// The point of a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) direction: Direction,
    /// Bytes that still pass in that direction, over all connections. The connection with the next byte is cut.
    pub(crate) after: u64,
    /// With a reset, which may overtake passed bytes, instead of an orderly end.
    pub(crate) resets: bool,
}

/// The proxy. Dropping it ends every connection.
pub(crate) struct Cutter {
    address: SocketAddr,
    shared: Arc<SharedState>,
    acceptor: Option<JoinHandle<()>>,
}

struct SharedState {
    upstream: SocketAddr,
    is_stopping: AtomicBool,
    /// Both ends of each connection.
    pairs: Lock<Vec<[TcpStream; 2]>>,
    threads: Lock<Vec<JoinHandle<()>>>,
    plan: Lock<Plan>,
}

#[derive(Default)]
struct Plan {
    cut: Option<Cut>,
    to_server: u64,
    from_server: u64,
}

impl Cutter {
    /// Forwards connections to `upstream`.
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(SharedState {
            upstream,
            is_stopping: AtomicBool::new(false),
            pairs: Lock::default(),
            threads: Lock::default(),
            plan: Lock::default(),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Plans one cut, counted from now, and drops an earlier plan.
    pub(crate) fn plan(&self, cut: Cut) {
        self.shared.plan.lock().cut = Some(cut);
    }

    /// Drops the planned cut. Returns whether it was still pending.
    pub(crate) fn give_up(&self) -> bool {
        self.shared.plan.lock().cut.take().is_some()
    }

    /// Cuts all connections.
    pub(crate) fn cut_all(&self) {
        self.shared.end_all();
    }

    /// How many bytes passed so far, to the server and from it.
    pub(crate) fn passed(&self) -> (u64, u64) {
        let plan = self.shared.plan.lock();
        (plan.to_server, plan.from_server)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        let _ = self.acceptor.take().map(JoinHandle::join);
        self.shared.end_all();
        let threads = std::mem::take(&mut *self.shared.threads.lock());
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl SharedState {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (client, _) = listener.accept().expect("a listening socket");
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            // Without an upstream the connection ends at once.
            let Ok(server) = TcpStream::connect(self.upstream) else { continue };
            for stream in [&client, &server] {
                stream.set_nodelay(true).expect("a socket");
            }
            let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            self.pairs.lock().push([copy(&client), copy(&server)]);
            let back = (copy(&server), copy(&client));
            let ways = [(client, server, Direction::ToServer), (back.0, back.1, Direction::FromServer)];
            let threads = ways.map(|(from, to, direction)| {
                let shared = Arc::clone(self);
                thread::spawn(move || shared.pass(from, &to, direction))
            });
            self.threads.lock().extend(threads);
        }
    }

    fn pass(&self, mut from: TcpStream, to: &TcpStream, direction: Direction) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let (passes, cut) = self.plan.lock().take(direction, read);
            let written = (&*to).write_all(&bytes[..passes]);
            if let Some(cut) = cut {
                return end(&[&from, to], cut.resets);
            }
            if written.is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    fn end_all(&self) {
        for [client, server] in self.pairs.lock().drain(..) {
            end(&[&client, &server], false);
        }
    }
}

impl Plan {
    /// How many of these bytes pass, and the following action.
    fn take(&mut self, direction: Direction, read: usize) -> (usize, Option<Cut>) {
        let passed = match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::FromServer => &mut self.from_server,
        };
        let Some(cut) = self.cut.as_mut().filter(|cut| cut.direction == direction) else {
            *passed += read as u64;
            return (read, None);
        };
        let passes = cut.after.min(read as u64);
        cut.after -= passes;
        *passed += passes;
        let cuts = passes < read as u64;
        (usize::try_from(passes).expect("no more than were read"), self.cut.take_if(|_| cuts))
    }
}

/// Ends both halves of a connection. To dissolve the association of a TCP socket resets it at once (connect(2), `AF_UNSPEC`).
fn end(streams: &[&TcpStream], resets: bool) {
    for stream in streams {
        let _ = if resets { connect_unspec(stream).map_err(Into::into) } else { stream.shutdown(Shutdown::Both) };
    }
}
