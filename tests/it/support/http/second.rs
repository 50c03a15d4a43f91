//! HTTP/2 over TLS before a server that speaks HTTP/1.1, to which each request goes by a connection of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::tls;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Dropping it ends every connection.
pub(crate) struct Http2 {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// The number of requests to refuse before processing.
    refusals: Arc<AtomicUsize>,
    /// The number of cuts of all connections.
    cuts: Option<watch::Sender<usize>>,
    thread: Option<JoinHandle<()>>,
}

/// State of each connection.
#[derive(Clone)]
struct Front {
    server: SocketAddr,
    /// Limit of requests per connection, which then closes in order.
    requests: usize,
    refusals: Arc<AtomicUsize>,
    cuts: watch::Receiver<usize>,
}

impl Http2 {
    /// A server that requires a new connection after this many requests.
    pub(crate) fn closing_after(requests: usize, server: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (accepted, (sender, cuts)) = (Arc::new(AtomicUsize::new(0)), watch::channel(0));
        let refusals = Arc::new(AtomicUsize::new(0));
        let thread = thread::spawn({
            let (accepted, refusals) = (Arc::clone(&accepted), Arc::clone(&refusals));
            move || runtime.block_on(accept(&listener, &accepted, Front { server, requests, refusals, cuts }))
        });
        Self { address, accepted, refusals, cuts: Some(sender), thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Resets the stream of the next request with REFUSED_STREAM.
    pub(crate) fn refuse_next(&self) {
        self.refusals.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether every planned refusal has happened.
    pub(crate) fn has_refused(&self) -> bool {
        self.refusals.load(Ordering::SeqCst) == 0
    }

    /// Cuts all connections at once.
    pub(crate) fn cut(&self) {
        self.cuts.as_ref().expect("it is there").send_modify(|times| *times += 1);
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        drop(self.cuts.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the HTTP/2 server of the test panicked");
    }
}

async fn accept(listener: &TcpListener, accepted: &AtomicUsize, front: Front) {
    let acceptor = TlsAcceptor::from(tls::config(b"h2"));
    let mut cuts = front.cuts.clone();
    loop {
        let (stream, _) = tokio::select! {
            connection = listener.accept() => connection.expect("a listening socket"),
            // Ends when no further cut is possible.
            cut = cuts.changed() => if cut.is_ok() { continue } else { return },
        };
        accepted.fetch_add(1, Ordering::SeqCst);
        stream.set_nodelay(true).expect("a socket");
        let (acceptor, mut front) = (acceptor.clone(), front.clone());
        front.cuts.mark_unchanged();
        tokio::spawn(async move {
            let mut cuts = front.cuts.clone();
            tokio::select! {
                // Errors of client connections are ignored.
                _ = serve(acceptor, stream, front) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    Front { server, requests, refusals, .. }: Front,
) -> Result<(), Failure> {
    let stream = TokioIo::new(acceptor.accept(stream).await?);
    let (begun, mut count) = watch::channel(0);
    let service = service_fn(move |request| {
        begun.send_modify(|count| *count += 1);
        let is_refused = refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        forward_or_refuse(request, server, is_refused)
    });
    let mut connection = std::pin::pin!(
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service)
    );
    tokio::select! {
        ended = &mut connection => return Ok(ended?),
        _ = count.wait_for(|count| *count >= requests) => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

async fn forward_or_refuse(
    request: Request<Incoming>,
    server: SocketAddr,
    is_refused: bool,
) -> Result<Response<Incoming>, Failure> {
    if is_refused {
        let refused: Failure = Box::new(h2::Error::from(h2::Reason::REFUSED_STREAM));
        return Err(refused);
    }
    forward(request, server).await
}

/// The connection to the server ends with the client's stream: its task is done when the body is dropped.
async fn forward(mut request: Request<Incoming>, server: SocketAddr) -> Result<Response<Incoming>, Failure> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(TcpStream::connect(server).await?)).await?;
    tokio::spawn(connection);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse::<Uri>()?;
    let host = request.uri().authority().map_or("localhost", |authority| authority.as_str());
    let host = HeaderValue::from_str(host)?;
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = path;
    Ok(sender.send_request(request).await?)
}
