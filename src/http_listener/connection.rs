//! One HTTP connection, served until the client disconnects.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::endpoint::{Agent, Endpoint};
use super::hub::Hub;
use super::loopback::Stranger;
use super::sessions::{Access, Sessions};
use super::transport::HttpTransport;
use crate::session::{self, SessionOrders, SessionSetup};
use crate::test_variable::test_variable;

/// Maximum size of the headers of a request.
pub(super) const MAX_HEAD: usize = 64 << 10;
/// Maximum number of headers.
pub(super) const MAX_HEADERS: usize = 100;
/// How long a client may take for the headers of a request, or keep a connection without a request, or pause within a body.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// The same on a loopback address, where any user of the machine can connect.
pub(super) const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);

fn server(timeout: Duration) -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(timeout).max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
    server
}

fn send_timeout(is_stranger: bool) -> Duration {
    let default = if is_stranger { STRANGER_TIMEOUT } else { SEND_TIMEOUT };
    test_variable("MCPD_TEST_LINE_TIMEOUT_MS").map_or(default, Duration::from_millis)
}

/// An HTTP connection.
pub(crate) struct Connection {
    pub(crate) sessions: Sessions,
    /// Of the session of this connection, which begins with its first modern request.
    pub(crate) setup: SessionSetup,
    pub(crate) orders: SessionOrders,
    /// The origins whose pages may send requests.
    pub(crate) origins: Arc<[String]>,
    /// Of a connection to a loopback address.
    pub(crate) stranger: Option<Stranger>,
}

/// The session of a connection that has sent no modern request yet. It follows the orders of the daemon.
struct PreparedSession {
    setup: SessionSetup,
    orders: SessionOrders,
    closing: BoxFuture<'static, ()>,
}

enum Order {
    /// Ends the connection at once.
    CutOff,
    /// Ends it after its requests.
    Leave,
}

impl PreparedSession {
    fn new(setup: SessionSetup, orders: SessionOrders) -> Self {
        let mut closing = setup.closing.clone();
        // A dropped sender means the same.
        let closing = async move { closing.wait_for(|closing| *closing).await.map_or((), drop) }.boxed();
        Self { setup, orders, closing }
    }

    fn poll_order(&mut self, cx: &mut Context<'_>) -> Poll<Order> {
        if self.orders.cut_off.poll_unpin(cx).is_ready() {
            Poll::Ready(Order::CutOff)
        } else if self.closing.poll_unpin(cx).is_ready() || self.orders.profile_removed.poll_unpin(cx).is_ready() {
            Poll::Ready(Order::Leave)
        } else {
            Poll::Pending
        }
    }
}

impl Connection {
    /// Serves it until the client disconnects or the daemon stops.
    pub(crate) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let Self { sessions, setup, orders, origins, stranger } = self;
        let timeout = send_timeout(stranger.is_some());
        let (token, mut permit) = stranger.map(|Stranger { token, permit }| (token, permit)).unzip();
        let access = token.as_ref().map_or(Access::Socket, |token| Access::Loopback(Arc::clone(&token.borrow())));
        // `false` if the listener is closed.
        let mut changed = pin!(OptionFuture::from(token.map(async |mut token| token.changed().await.is_ok())).fuse());
        let mut has_token = true;
        let hub = Hub::new(false);
        let agent = Agent::of(&setup, access);
        let (shared_hub, is_authorized) = (Arc::clone(&hub), AtomicBool::new(false));
        let endpoint = Arc::new(Endpoint { agent, sessions, origins, timeout, hub: shared_hub, is_authorized });
        let of_service = Arc::clone(&endpoint);
        let service = service_fn(move |request| {
            let endpoint = Arc::clone(&of_service);
            // Boxed, because hyper has space for the future as long as the connection lasts.
            Box::pin(async move { Ok::<_, Infallible>(endpoint.respond(request).await) })
        });
        let mut http = pin!(server(timeout).serve_connection(TokioIo::new(stream), service));
        let mut prepared = Some(PreparedSession::new(setup, orders));
        let mut session: Option<BoxFuture<'static, ()>> = None;
        let ended = poll_fn(|cx| {
            loop {
                if let Some(running) = &mut session
                    && running.poll_unpin(cx).is_ready()
                {
                    session = None;
                    http.as_mut().graceful_shutdown();
                }
                match prepared.as_mut().map(|prepared| prepared.poll_order(cx)) {
                    Some(Poll::Ready(Order::CutOff)) => return Poll::Ready(Ok(())),
                    Some(Poll::Ready(Order::Leave)) => {
                        prepared = None;
                        http.as_mut().graceful_shutdown();
                    }
                    Some(Poll::Pending) | None => {}
                }
                if has_token && let Poll::Ready(Some(is_other)) = changed.poll_unpin(cx) {
                    if is_other {
                        return Poll::Ready(Ok(()));
                    }
                    has_token = false;
                    http.as_mut().graceful_shutdown();
                }
                if let Poll::Ready(ended) = http.poll_unpin(cx) {
                    return Poll::Ready(ended);
                }
                permit.take_if(|_| endpoint.is_authorized());
                let Some(prepared) = prepared.take_if(|_| hub.has_posts()) else { return Poll::Pending };
                let transport = HttpTransport::of_connection(Arc::clone(&hub));
                session = Some(session::run(transport, prepared.setup, prepared.orders).boxed());
            }
        });
        if let Err(error) = ended.await {
            tracing::debug!("an HTTP connection has failed: {error}");
        }
        hub.close();
        if let Some(session) = session {
            session.await;
        }
    }
}
