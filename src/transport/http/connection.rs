//! The connection to one server: its state, and what each event changes. The header of the parent module has the diagram.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::StatusCode;
use tokio::time::{sleep, timeout};

use super::endpoint::{Endpoint, EndpointUpdate};
use super::event_queue::{EventQueue, Ownership, Source, TransportEvent};
use super::exchange::{Exchange, Exchanges, Open, SendMode};
use super::sse_get::SseGet;
use super::{Disconnect, HeaderParams, ReadAgain, RequestError, renewal};
use crate::config::Remote;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::pending::parse_own_id;
use crate::net::client::{Client, NetError};
use crate::oauth::Login;
use crate::tap::{Direction, TapPoint};
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
    state: ConnectionState,
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
        let due = renewal::first(&mut endpoint).await;
        let mut http = Self {
            queue: EventQueue::new(endpoint),
            state: ConnectionState::New,
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

    /// Notes messages here. Called before the first one.
    pub(crate) fn set_tap(&mut self, tap: TapPoint) {
        self.queue.set_tap(tap);
    }

    /// Waits until something listens at the URL of a program that was just started.
    pub(crate) async fn wait_listening(&mut self) -> Result<(), Disconnect> {
        self.queue.endpoint().wait_listening().await.map_err(|reason| Disconnect::Unreachable { reason })
    }

    /// Starts to renew the token when it is due, if ever.
    fn schedule_renewal(&mut self, due: Option<Instant>) {
        let login = self.queue.endpoint().login().cloned();
        let keep = |(login, due)| self.run(renewal::renew(self.queue.sender(SSE_GET), login, due));
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
        self.state = ConnectionState::Modern;
    }

    /// Whether requests carry params in headers.
    pub(crate) fn sends_header_params(&self) -> bool {
        matches!(self.state, ConnectionState::Modern)
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
        if let ConnectionState::AwaitingStream { .. } = self.state {
            self.queue.change(|endpoint| endpoint.set_protocol(protocol));
            self.state = ConnectionState::AwaitingStream { initialized: Some(initialized) };
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
        self.queue.tap().note(Direction::To, &line);
        let opening_line = matches!(self.state, ConnectionState::New).then(|| line.clone());
        let begun = self.exchange(line, request);
        if let Some(line) = opening_line {
            self.state = ConnectionState::Opening { source: begun, line };
        } else if let ConnectionState::Initializing { initialized, source } = &mut self.state
            && *initialized == number
        {
            *source = Some(begun);
        }
    }

    fn exchange(&mut self, line: Bytes, request: Option<u64>) -> Source {
        self.begun += 1;
        let source = self.begun;
        // Over HTTP+SSE the response comes on another stream.
        let awaited = request.filter(|_| !matches!(self.state, ConnectionState::OpenSse));
        let mode = match &self.state {
            ConnectionState::New => SendMode::First,
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
        matches!(self.state, ConnectionState::AwaitingEndpoint { .. } | ConnectionState::OpenSse)
    }

    /// The server has forgotten the session: the connection is over.
    pub(crate) fn forget_session(&mut self) {
        self.disconnect.get_or_insert(Disconnect::SessionEnded);
    }

    /// Stops all exchanges, and ends the HTTP session.
    pub(crate) async fn close(self) {
        let endpoint = self.queue.endpoint();
        drop(self);
        if endpoint.has_http_session() {
            let _ = timeout(CLOSE_TIMEOUT, endpoint.delete()).await;
        }
    }
}

/// Rejected credentials in a row before the connection to a modern server is over: a single call may be refused for its own reasons. In a
/// session, a ping decides.
const MAX_UNAUTHORIZED: u32 = 3;

impl HttpConnection {
    /// Handles an event. Returns what the server's task must know.
    fn take(&mut self, source: Source, event: TransportEvent) -> Option<Result<Arrival, Disconnect>> {
        match event {
            TransportEvent::Message(incoming, ownership) => {
                let within = self.open.get(source).and_then(|open| open.request);
                if let Some((id, response)) = incoming.as_response() {
                    self.answered(source, response.is_ok(), parse_own_id(id).filter(|id| within != Some(*id)));
                }
                let source_request = within.filter(|_| ownership == Ownership::OfRequest);
                return Some(Ok(Arrival::Incoming { incoming, source_request }));
            }
            TransportEvent::Session(session) => {
                // A server that was restarted may answer in a new session, and name it.
                let is_renamed = self.queue.endpoint().has_http_session() && !self.state.is_modern();
                if self.state.is_opened_by(source) || is_renamed {
                    self.queue.change(|endpoint| endpoint.set_session(&session));
                }
            }
            TransportEvent::EndpointUpdate(EndpointUpdate { token, url, headers }) => {
                self.queue.change(|endpoint| endpoint.set_headers(&headers));
                url.into_iter().for_each(|url| self.queue.change(|endpoint| endpoint.set_url(url)));
                if let Some(token) = token {
                    self.schedule_renewal(token.refresh_at());
                    self.queue.change(|endpoint| endpoint.set_token(token));
                }
            }
            TransportEvent::StreamReady => {
                if let ConnectionState::AwaitingStream { initialized: Some(initialized) } = self.state {
                    self.state = ConnectionState::Initializing { initialized, source: None };
                    return Some(Ok(Arrival::MayWrite));
                }
            }
            TransportEvent::Endpoint(url) => {
                if let ConnectionState::AwaitingEndpoint { line, request } =
                    std::mem::replace(&mut self.state, ConnectionState::OpenSse)
                {
                    self.queue.change(|endpoint| endpoint.set_url(url));
                    self.exchange(line, request);
                }
            }
            TransportEvent::Completed => {
                self.unauthorized = 0;
                let done = self.open.end(source)?;
                self.initialized_accepted(source);
                // The body may not have been a response, for example a batch. If it was one, this
                // only reports free capacity.
                let answered = done.request.filter(|_| !self.is_http_sse());
                let failed =
                    |request| Arrival::RequestFailed { request, error: RequestError::NoResponse { media_type: None } };
                return Some(Ok(answered.map_or(Arrival::MayWrite, failed)));
            }
            TransportEvent::RequestFailed(error) => return self.failed(source, error),
            TransportEvent::CancellationExpired => {
                let open = self.open.end(source)?;
                open.abort.abort();
                let error = RequestError::Interrupted { reason: "sent no response".to_owned().into() };
                return open.request.map(|request| Ok(Arrival::RequestFailed { request, error }));
            }
            TransportEvent::SessionInDoubt => return Some(Ok(Arrival::SessionInDoubt)),
            TransportEvent::Disconnected(disconnect) => self.disconnect = Some(disconnect),
        }
        None
    }

    /// The connection is open once `initialize` is answered. A request that was answered on another stream no longer
    /// needs its own.
    fn answered(&mut self, source: Source, has_result: bool, elsewhere: Option<u64>) {
        if self.state.is_opened_by(source) {
            self.state =
                if has_result { ConnectionState::AwaitingStream { initialized: None } } else { ConnectionState::New };
        }
        let exchange = elsewhere.and_then(|request| self.open.of(request)).map(|(source, _)| source);
        if let Some(open) = exchange.and_then(|source| self.open.end(source)) {
            open.abort.abort();
        }
    }

    /// The server has accepted or refused `notifications/initialized`.
    fn initialized_accepted(&mut self, source: Source) {
        if matches!(self.state, ConnectionState::Initializing { source: Some(initializing), .. } if initializing == source)
        {
            self.state = ConnectionState::Open;
        }
    }

    fn sse_get(&self) -> SseGet {
        SseGet { sender: self.queue.sender(SSE_GET), max: self.max }
    }

    /// Why the connection is over after this error.
    fn disconnect_by(&self, error: &RequestError) -> Disconnect {
        match error {
            // The next attempt reads the secrets again.
            RequestError::Status { status: status @ StatusCode::UNAUTHORIZED, retry_after, message }
                if self.queue.endpoint().has_renewed_secrets() =>
            {
                Disconnect::Status { status: *status, retry_after: *retry_after, message: message.clone() }
            }
            error => error.disconnect_at_first(),
        }
    }

    fn failed(&mut self, source: Source, error: RequestError) -> Option<Result<Arrival, Disconnect>> {
        let open = self.open.end(source)?;
        match &self.state {
            // The era may be the reason.
            ConnectionState::Opening { source: opening, .. }
                if *opening == source && (self.has_modern || !self.open.is_empty()) =>
            {
                self.state = ConnectionState::Probing;
            }
            // The next request has that version.
            ConnectionState::Opening { source: opening, .. }
                if *opening == source && error.permits_second_initialize() =>
            {
                self.state = ConnectionState::New;
            }
            ConnectionState::Opening { source: opening, line } if *opening == source => {
                if !error.may_be_http_sse() {
                    let disconnect = self.disconnect_by(&error);
                    self.disconnect.get_or_insert(disconnect);
                    return None;
                }
                self.state = ConnectionState::AwaitingEndpoint { line: line.clone(), request: open.request };
                let sse_get = self.sse_get();
                self.run(sse_get.run_http_sse(error.disconnect()));
                return None;
            }
            ConnectionState::Initializing { .. } => self.initialized_accepted(source),
            _ => {}
        }
        self.unauthorized = if error.is_unauthorized() && self.state.is_modern() { self.unauthorized + 1 } else { 0 };
        // No other exchange shows that the server is reachable or accepts the credentials.
        let is_away = matches!(error, RequestError::NotSent { .. }) && self.open.is_empty();
        if is_away || self.unauthorized >= MAX_UNAUTHORIZED {
            let disconnect = self.disconnect_by(&error);
            self.disconnect.get_or_insert(disconnect);
        }
        Some(Ok(open.request.map_or(Arrival::MayWrite, |request| Arrival::RequestFailed { request, error })))
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(super) enum ConnectionState {
    New,
    /// Only requests that detect the era were sent, and no `initialize`.
    Probing,
    /// The server has no HTTP sessions: each message is independent.
    Modern,
    /// `initialize` was sent. Its line is kept, since a server of 2024-11-05 gets it again at another URL.
    Opening {
        source: Source,
        line: Bytes,
    },
    /// `initialize` was answered. `initialized` is the number of the line that ends the handshake, once it is known. It
    /// waits for the stream.
    AwaitingStream {
        initialized: Option<u64>,
    },
    /// Only that line may be sent.
    Initializing {
        initialized: u64,
        source: Option<Source>,
    },
    Open,
    /// The server's stream has yet to name the URL for messages.
    AwaitingEndpoint {
        line: Bytes,
        request: Option<u64>,
    },
    /// All responses come on the server's stream.
    OpenSse,
}

impl ConnectionState {
    /// Whether lines must wait.
    pub(super) fn must_wait(&self) -> bool {
        match self {
            Self::AwaitingStream { initialized } => initialized.is_some(),
            Self::Initializing { source, .. } => source.is_some(),
            Self::AwaitingEndpoint { .. } => true,
            Self::New | Self::Probing | Self::Modern | Self::Opening { .. } | Self::Open | Self::OpenSse => false,
        }
    }

    /// Notes the next message. Before there is an HTTP session, only `initialize` opens one.
    pub(super) fn note_sent(&mut self, line: &Bytes) {
        if matches!(self, Self::New | Self::Probing) {
            let method = members(line, ["method"]).ok().and_then(|[method]| text(&method?));
            *self = if method.is_some_and(|method| method[..] == *b"initialize") { Self::New } else { Self::Probing };
        }
    }

    /// Whether messages are sent in the modern era.
    pub(super) fn is_modern(&self) -> bool {
        matches!(self, Self::Probing | Self::Modern)
    }

    /// Whether this exchange opens the HTTP session.
    pub(super) fn is_opened_by(&self, exchange: Source) -> bool {
        matches!(self, Self::Opening { source, .. } if *source == exchange)
    }
}
