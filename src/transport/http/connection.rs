//! The connection to one server.

mod handler;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{sleep, timeout};

use super::endpoint::Endpoint;
use super::event_queue::{EventQueue, Source, TransportEvent};
use super::exchange::{Exchange, SendMode};
use super::exchanges::{Exchanges, Open};
use super::state::State;
use super::{Disconnect, HeaderParams, ReadAgain, token};
use crate::config::Remote;
use crate::net::client::{Client, NetError};
use crate::oauth::Login;
use crate::transport::{Arrival, Outbox};

/// How long the end of the handshake waits for the server's own stream.
const STREAM_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a cancelled request may still be answered before its connection is closed.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Limit for ending the HTTP session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The source number of the server's own stream.
const SSE_GET: Source = 0;

/// The connection to one server.
pub(crate) struct HttpConnection {
    queue: EventQueue,
    state: State,
    /// Message cap, in bytes.
    max: usize,
    open: Exchanges,
    /// Params that the tools of a modern server require in headers.
    header_params: Arc<HeaderParams>,
    /// Rejected credentials in a row.
    unauthorized: u32,
    running: FuturesUnordered<Abortable<BoxFuture<'static, ()>>>,
    /// The number of the last exchange.
    begun: Source,
    /// Renews the token in time.
    renewal: Option<AbortHandle>,
    /// Returned once all earlier events were.
    disconnect: Option<Disconnect>,
    /// The server has responded in the modern era, so `initialize` may fail.
    has_modern: bool,
}

impl HttpConnection {
    /// A connection to the configured server. It sends nothing yet.
    ///
    /// # Errors
    /// If its URL or headers are not valid; for a person.
    pub(crate) async fn new(
        remote: &Remote,
        client: Client,
        login: Option<Login>,
        read_again: ReadAgain,
        max: usize,
    ) -> Result<Self, NetError> {
        let mut endpoint = Endpoint::new(remote, client, login, read_again)?;
        let due = token::first(&mut endpoint).await;
        let mut http = Self {
            queue: EventQueue::new(endpoint),
            state: State::New,
            max,
            open: Exchanges::default(),
            header_params: Arc::default(),
            unauthorized: 0,
            running: FuturesUnordered::new(),
            begun: SSE_GET,
            renewal: None,
            disconnect: None,
            has_modern: false,
        };
        http.schedule_renewal(due);
        Ok(http)
    }

    /// Starts to renew the token when it is due, if ever.
    fn schedule_renewal(&mut self, due: Option<Instant>) {
        let login = self.queue.endpoint().login().cloned();
        let keep = |(login, due)| self.run(token::renew(self.queue.sender(SSE_GET), login, due));
        let renewal = login.zip(due).map(keep);
        if let Some(before) = std::mem::replace(&mut self.renewal, renewal) {
            before.abort();
        }
    }

    /// Registers that a line of the outbox is the request with this id.
    pub(crate) fn announce(&mut self, line: u64, request: u64) {
        self.open.announce(line, request);
    }

    /// The server has responded in the modern era. It may have HTTP sessions as well.
    pub(crate) fn note_modern_support(&mut self) {
        self.has_modern = true;
    }

    /// Whether the server has responded in the modern era.
    pub(crate) fn is_known_modern(&self) -> bool {
        self.has_modern
    }

    /// The server is modern. Requests open no HTTP session.
    pub(crate) fn discovered(&mut self) {
        self.state = State::Modern;
    }

    /// Whether requests carry params in headers.
    pub(crate) fn sends_header_params(&self) -> bool {
        matches!(self.state, State::Modern)
    }

    /// Sets the params that its tools require there.
    pub(crate) fn set_header_params(&mut self, header_params: HeaderParams) {
        self.header_params = Arc::new(header_params);
    }

    /// States this version in the headers of all requests until another one is negotiated.
    pub(crate) fn state_protocol(&mut self, protocol: &'static str) {
        self.queue.change(|endpoint| endpoint.set_protocol(protocol));
    }

    /// Sets the negotiated version and the number of the line with `notifications/initialized`.
    pub(crate) fn set_protocol(&mut self, protocol: &'static str, initialized: u64) {
        if let State::AwaitingStream { .. } = self.state {
            self.queue.change(|endpoint| endpoint.set_protocol(protocol));
            self.state = State::AwaitingStream { initialized: Some(initialized) };
            let (sse_get, late) = (self.sse_get(), self.queue.sender(SSE_GET));
            self.run(sse_get.run());
            self.run(async move {
                sleep(STREAM_TIMEOUT).await;
                late.send(TransportEvent::StreamReady).await;
            });
        }
    }

    /// The request was cancelled. It fails after a while if it gets no response.
    pub(crate) fn cancel(&mut self, request: u64) {
        if let Some((source, open)) = self.open.of(request) {
            let sender = self.queue.sender(source);
            open.is_cancelled.store(true, Ordering::Relaxed);
            // Closing the stream tells a modern server, which then sends no response.
            let after = if self.state.is_modern() { Duration::ZERO } else { CANCEL_GRACE };
            self.run(async move {
                sleep(after).await;
                sender.send(TransportEvent::CancellationExpired).await;
            });
        }
    }

    /// Begins an exchange for each line of `outbox` that may be sent now. Pending if one may not.
    pub(crate) fn poll_write(&mut self, outbox: &mut Outbox) -> Poll<()> {
        while !outbox.is_empty() {
            if self.state.must_wait() || self.open.are_too_many(self.max) {
                return Poll::Pending;
            }
            let Some((number, line)) = outbox.take_first() else { break };
            self.begin(number, line);
        }
        Poll::Ready(())
    }

    fn begin(&mut self, number: u64, mut line: Bytes) {
        line.truncate(line.len() - usize::from(line.ends_with(b"\n")));
        let request = self.open.announced(number);
        self.state.note_sent(&line);
        // A modern server receives requests only.
        if request.is_none() && self.state.is_modern() {
            return;
        }
        let opening_line = matches!(self.state, State::New).then(|| line.clone());
        let begun = self.exchange(line, request);
        if let Some(line) = opening_line {
            self.state = State::Opening { source: begun, line };
        } else if let State::Initializing { initialized, source } = &mut self.state
            && *initialized == number
        {
            *source = Some(begun);
        }
    }

    fn exchange(&mut self, line: Bytes, request: Option<u64>) -> Source {
        self.begun += 1;
        let source = self.begun;
        // Over HTTP+SSE the response comes on another stream.
        let awaited = request.filter(|_| !matches!(self.state, State::OpenSse));
        let mode = match &self.state {
            State::New => SendMode::First,
            state if state.is_modern() => SendMode::Modern(Arc::clone(&self.header_params)),
            _ => SendMode::Later,
        };
        let is_cancelled = Arc::<AtomicBool>::default();
        let exchange = Exchange {
            sender: self.queue.sender(source),
            request: awaited,
            max: self.max,
            mode,
            is_cancelled: Arc::clone(&is_cancelled),
        };
        let bytes = line.len();
        let abort = if request.is_some() { self.run(exchange.run(line)) } else { self.run(exchange.post(line)) };
        self.open.insert(source, Open { request, bytes, abort, is_cancelled });
        source
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (abort, registration) = AbortHandle::new_pair();
        self.running.push(Abortable::new(task.boxed(), registration));
        abort
    }

    /// The next event, or why the connection is over. Cancel-safe.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arrival, Disconnect>> {
        loop {
            while let Poll::Ready(Some(_)) = self.running.poll_next_unpin(cx) {}
            let Poll::Ready(Some((source, event))) = self.queue.poll_event(cx) else {
                return self.disconnect.take().map_or(Poll::Pending, |disconnect| Poll::Ready(Err(disconnect)));
            };
            if let Some(arrival) = self.take(source, event) {
                return Poll::Ready(arrival);
            }
        }
    }

    /// Whether the server is one of 2024-11-05.
    pub(crate) fn is_http_sse(&self) -> bool {
        matches!(self.state, State::AwaitingEndpoint { .. } | State::OpenSse)
    }

    /// The server has forgotten the session: the connection is over.
    pub(crate) fn forget_session(&mut self) {
        self.disconnect.get_or_insert(Disconnect::SessionEnded);
    }

    /// Stops all exchanges, and ends the HTTP session.
    pub(crate) async fn close(self) {
        let endpoint = self.queue.endpoint();
        drop(self);
        if endpoint.has_session() {
            let _ = timeout(CLOSE_TIMEOUT, endpoint.delete()).await;
        }
    }
}
