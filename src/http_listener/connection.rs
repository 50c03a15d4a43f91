//! One HTTP connection, served until the client disconnects.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, Fuse, FutureExt};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::caller::Access;
use super::endpoint::{Agent, Endpoint};
use super::loopback::Stranger;
use super::protocol::Protocol;
use super::sessions::Sessions;
use super::token::Token;
use crate::session::{SessionOrders, SessionSetup};
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
    /// Who the agent is, and what ends the connection. Boxed, because two futures move it.
    pub(crate) prepared: Box<(SessionSetup, SessionOrders)>,
    /// The origins whose pages may send requests.
    pub(crate) origins: watch::Receiver<Arc<[String]>>,
    /// Of a connection to a loopback address.
    pub(crate) stranger: Option<Stranger>,
}

/// What ends a connection besides its client.
struct Orders {
    closing: Fuse<BoxFuture<'static, ()>>,
    /// The deadline for writing the last responses, once the daemon stops.
    last: Option<Pin<Box<Sleep>>>,
    /// `true` if the token was replaced, `false` if its listener was closed.
    token_changed: Fuse<BoxFuture<'static, bool>>,
    /// `None` once they were followed.
    daemon: Option<SessionOrders>,
}

enum Order {
    /// Ends the connection at once.
    CutOff,
    /// Ends it after its requests.
    Leave,
}

impl Orders {
    fn new(mut closing: watch::Receiver<bool>, orders: SessionOrders, token: Option<watch::Receiver<Token>>) -> Self {
        // A dropped sender means the same.
        let closing = async move { closing.wait_for(|closing| *closing).await.map_or((), drop) }.boxed().fuse();
        let token_changed = match token {
            Some(mut token) => async move { token.changed().await.is_ok() }.boxed(),
            None => pending().boxed(),
        };
        Self { closing, last: None, token_changed: token_changed.fuse(), daemon: Some(orders) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Order> {
        if self.last.as_mut().is_some_and(|last| last.poll_unpin(cx).is_ready()) {
            return Poll::Ready(Order::CutOff);
        }
        if self.closing.poll_unpin(cx).is_ready() {
            self.daemon = None;
            self.last = Some(Box::pin(sleep(LAST_RESPONSES_TIMEOUT)));
            return Poll::Ready(Order::Leave);
        }
        if let Poll::Ready(is_replaced) = self.token_changed.poll_unpin(cx) {
            return Poll::Ready(if is_replaced { Order::CutOff } else { Order::Leave });
        }
        let Some(orders) = &mut self.daemon else { return Poll::Pending };
        if orders.cut_off.poll_unpin(cx).is_ready() {
            Poll::Ready(Order::CutOff)
        } else if orders.profile_removed.poll_unpin(cx).is_ready() {
            self.daemon = None;
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
        let (setup, orders) = *prepared;
        let access = match &stranger {
            Some(stranger) => Access::Loopback(stranger.token.borrow().clone()),
            None => Access::Socket,
        };
        let client = stranger.as_ref().map(|stranger| stranger.client);
        let (token, mut permit) = stranger.map(|Stranger { token, permit, .. }| (token, permit)).unzip();
        let mut orders = Orders::new(setup.closing.clone(), orders, token);
        let endpoint = Arc::new(Endpoint::new(Agent::of(setup, protocol, access, client), sessions, origins, timeout));
        let of_service = Arc::clone(&endpoint);
        let service = service_fn(move |request| {
            let endpoint = Arc::clone(&of_service);
            // Boxed, because hyper has space for the future as long as the connection lasts.
            Box::pin(async move { Ok::<_, Infallible>(endpoint.respond(request).await) })
        });
        let mut http = pin!(server(timeout).serve_connection(TokioIo::new(stream), service));
        let ended = poll_fn(|cx| {
            while let Poll::Ready(order) = orders.poll(cx) {
                match order {
                    Order::CutOff => return Poll::Ready(Ok(())),
                    Order::Leave => http.as_mut().graceful_shutdown(),
                }
            }
            let ended = http.poll_unpin(cx);
            permit.take_if(|_| endpoint.is_authorized());
            ended
        });
        if let Err(error) = ended.await {
            tracing::debug!("an HTTP connection has failed: {error}");
        }
    }
}
