//! A listening socket and a thread for each connection; all that came is kept.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::locked::Lock;
use super::message::{After, Request, Response};
use crate::support::wait::until;

type Handler = dyn Fn(&Request) -> Response + Send + Sync;

/// An HTTP/1.1 server. Dropping it ends every connection, and fails the test after an unexpected request or a panic of
/// the handler.
pub(crate) struct HttpServer {
    address: SocketAddr,
    shared: Arc<SharedState>,
    acceptor: Option<JoinHandle<()>>,
}

struct SharedState {
    handler: Box<Handler>,
    is_stopping: AtomicBool,
    accepted: AtomicUsize,
    requests: Lock<Vec<Request>>,
    unexpected: Lock<Vec<String>>,
    open: Lock<HashMap<usize, TcpStream>>,
    threads: Lock<Vec<JoinHandle<()>>>,
}

impl HttpServer {
    /// Serves on a free port. The handler runs on the thread of the connection and may block.
    pub(crate) fn start(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), handler)
    }

    /// Serves at the address of an earlier server.
    pub(crate) fn start_at(
        address: SocketAddr,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        // The port of an earlier server may be in use by an outgoing connection.
        let listener = until("a free port", || TcpListener::bind(address).ok());
        let shared = Arc::new(SharedState {
            handler: Box::new(handler),
            is_stopping: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            requests: Lock::default(),
            unexpected: Lock::default(),
            open: Lock::default(),
            threads: Lock::default(),
        });
        let address = listener.local_addr().expect("it is bound");
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    /// Waits for a request.
    #[track_caller]
    pub(crate) fn wait_request(&self, what: &str, is_it: impl Fn(&Request) -> bool) -> Request {
        until(what, || self.shared.requests.lock().iter().find(|request| is_it(request)).cloned())
    }

    /// The number of matching requests so far.
    pub(crate) fn count(&self, is_it: impl Fn(&Request) -> bool) -> usize {
        self.shared.requests.lock().iter().filter(|request| is_it(request)).count()
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.lock().len()
    }

    fn stop(&mut self) -> Result<(), String> {
        let Some(acceptor) = self.acceptor.take() else { return Ok(()) };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        let accepting = acceptor.join();
        for stream in self.shared.open.lock().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut *self.shared.threads.lock());
        let panicked = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        let unexpected = std::mem::take(&mut *self.shared.unexpected.lock());
        match (accepting.is_err(), panicked, unexpected.is_empty()) {
            (false, 0, true) => Ok(()),
            _ => Err(format!("{panicked} handlers panicked; requests that were not to come: {unexpected:?}")),
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let ended = self.stop();
        if !thread::panicking() {
            ended.unwrap_or_else(|wrong| panic!("an HTTP server of the test: {wrong}"));
        }
    }
}

impl SharedState {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (stream, _) = listener.accept().expect("a listening socket");
            if self.is_stopping.load(Ordering::SeqCst) {
                return;
            }
            let number = self.accepted.fetch_add(1, Ordering::SeqCst);
            // Tests depend on small writes.
            stream.set_nodelay(true).expect("a socket");
            self.open.lock().insert(number, stream.try_clone().expect("a descriptor"));
            let shared = Arc::clone(self);
            self.threads.lock().push(thread::spawn(move || {
                let _closed = CloseGuard { shared: &shared, number };
                shared.serve(number, &stream);
            }));
        }
    }

    fn serve(&self, number: usize, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(Some(request)) = Request::read(&mut reader, number) {
            self.requests.lock().push(request.clone());
            let response = (self.handler)(&request);
            match response.write(&mut &*stream, || is_there(stream)) {
                Ok(After::NextRequest) => {}
                Ok(After::Failed) => {
                    return self.unexpected.lock().push(format!("{}{}", request.head(), request.json()));
                }
                Ok(After::End) | Err(_) => return,
            }
        }
    }
}

/// Ends a connection, even after a panic of its thread.
struct CloseGuard<'a> {
    shared: &'a SharedState,
    number: usize,
}

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.shared.open.lock().remove(&self.number) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Whether the peer is still connected.
fn is_there(stream: &TcpStream) -> bool {
    match recv(stream, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((read, _)) => read > 0,
        Err(error) => error == Errno::AGAIN || error.kind() == ErrorKind::Interrupted,
    }
}
