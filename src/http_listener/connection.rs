//! One HTTP connection, served until the client disconnects.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, Fuse, FutureExt};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::endpoint::{Agent, Endpoint};
use super::hub::Hub;
use super::loopback::Stranger;
use super::protocol::Protocol;
use super::sessions::{Access, Sessions};
use super::token::Token;
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

/// Time to write the last responses when the daemon stops: more than sessions take for theirs.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(750);

/// An HTTP connection.
pub(crate) struct Connection {
    pub(crate) protocol: Protocol,
    pub(crate) sessions: Sessions,
    /// Of the session of this connection, which begins with its first modern request.
    pub(crate) prepared: Box<(SessionSetup, SessionOrders)>,
    /// The origins whose pages may send requests.
    pub(crate) origins: Arc<[String]>,
    /// Of a connection to a loopback address.
    pub(crate) stranger: Option<Stranger>,
}

/// What ends a connection besides its client.
struct Orders {
    closing: Fuse<BoxFuture<'static, ()>>,
    /// Until when the last responses are written, once the daemon stops.
    last: Option<Pin<Box<Sleep>>>,
    /// `true` if the token was replaced, `false` if its listener was closed.
    token_changed: Fuse<BoxFuture<'static, bool>>,
    /// The session of a connection that has sent no modern request yet. Later, the session follows its orders itself.
    prepared: Option<Box<(SessionSetup, SessionOrders)>>,
}

enum Order {
    /// Ends the connection at once.
    CutOff,
    /// Ends it after its requests.
    Leave,
}

impl Orders {
    fn new(prepared: Box<(SessionSetup, SessionOrders)>, token: Option<watch::Receiver<Token>>) -> Self {
        let mut closing = prepared.0.closing.clone();
        // A dropped sender means the same.
        let closing = async move { closing.wait_for(|closing| *closing).await.map_or((), drop) }.boxed().fuse();
        let token_changed = match token {
            Some(mut token) => async move { token.changed().await.is_ok() }.boxed(),
            None => pending().boxed(),
        };
        Self { closing, last: None, token_changed: token_changed.fuse(), prepared: Some(prepared) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Order> {
        if self.last.as_mut().is_some_and(|last| last.poll_unpin(cx).is_ready()) {
            return Poll::Ready(Order::CutOff);
        }
        if self.closing.poll_unpin(cx).is_ready() {
            self.prepared = None;
            self.last = Some(Box::pin(sleep(LAST_RESPONSES_TIMEOUT)));
            return Poll::Ready(Order::Leave);
        }
        if let Poll::Ready(is_replaced) = self.token_changed.poll_unpin(cx) {
            return Poll::Ready(if is_replaced { Order::CutOff } else { Order::Leave });
        }
        let Some(prepared) = &mut self.prepared else { return Poll::Pending };
        let (_, orders) = &mut **prepared;
        if orders.cut_off.poll_unpin(cx).is_ready() {
            Poll::Ready(Order::CutOff)
        } else if orders.profile_removed.poll_unpin(cx).is_ready() {
            self.prepared = None;
            Poll::Ready(Order::Leave)
        } else {
            Poll::Pending
        }
    }
}

impl Connection {
    /// Serves it until the client disconnects or the daemon stops.
    pub(crate) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let Self { protocol, sessions, prepared, origins, stranger } = self;
        let timeout = send_timeout(stranger.is_some());
        let (token, mut permit) = stranger.map(|Stranger { token, permit }| (token, permit)).unzip();
        let access = token.as_ref().map_or(Access::Socket, |token| Access::Loopback(token.borrow().clone()));
        let hub = Hub::new(false);
        let agent = Agent::of(&prepared.0, protocol, access);
        let (shared_hub, is_authorized) = (Arc::clone(&hub), AtomicBool::new(false));
        let endpoint = Arc::new(Endpoint { agent, sessions, origins, timeout, hub: shared_hub, is_authorized });
        let of_service = Arc::clone(&endpoint);
        let service = service_fn(move |request| {
            let endpoint = Arc::clone(&of_service);
            // Boxed, because hyper has space for the future as long as the connection lasts.
            Box::pin(async move { Ok::<_, Infallible>(endpoint.respond(request).await) })
        });
        let mut http = pin!(server(timeout).serve_connection(TokioIo::new(stream), service));
        let mut orders = Orders::new(prepared, token);
        let mut session: Option<BoxFuture<'static, ()>> = None;
        let ended = poll_fn(|cx| {
            loop {
                if let Some(running) = &mut session
                    && running.poll_unpin(cx).is_ready()
                {
                    session = None;
                    http.as_mut().graceful_shutdown();
                }
                while let Poll::Ready(order) = orders.poll(cx) {
                    match order {
                        Order::CutOff => return Poll::Ready(Ok(())),
                        Order::Leave => http.as_mut().graceful_shutdown(),
                    }
                }
                if let Poll::Ready(ended) = http.poll_unpin(cx) {
                    return Poll::Ready(ended);
                }
                permit.take_if(|_| endpoint.is_authorized());
                let Some(prepared) = orders.prepared.take_if(|_| hub.has_posts()) else { return Poll::Pending };
                let (setup, orders) = *prepared;
                session = Some(session::run(HttpTransport::of_connection(Arc::clone(&hub)), setup, orders).boxed());
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
