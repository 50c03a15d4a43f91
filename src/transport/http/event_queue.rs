//! Events from exchanges and streams to their connection, and the endpoint that they share.

#[expect(
    clippy::disallowed_types,
    reason = "a cell: each lock lasts for one copy or change of an `Arc`, without waiting"
)]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use http::header::HeaderValue;
use tokio::sync::mpsc;

use super::endpoint::{Endpoint, EndpointUpdate};
use super::{Disconnect, RequestError};
use crate::net::body::{LargeBodySlots, MAX_LARGE_BODIES};
use crate::tap::TapPoint;
use crate::transport::Incoming;

/// Queued events. The server's task reads them at every body_slots; when the queue is full, streams pause.
const MAX_EVENTS: usize = 64;

/// What happened.
#[derive(Debug)]
pub(super) enum TransportEvent {
    /// A message, on the request's own stream or another one.
    Message(Incoming, Ownership),
    Session(HeaderValue),
    EndpointUpdate(EndpointUpdate),
    /// The stream for the server's own messages is open, or there is none.
    StreamReady,
    /// The URL for messages.
    Endpoint(url::Url),
    /// The server has responded as if it had forgotten the session.
    SessionInDoubt,
    /// A message was sent, and answered if it was a request.
    Completed,
    /// A request has no response.
    RequestFailed(RequestError),
    /// A request was cancelled long enough ago.
    CancellationExpired,
    /// The connection is over.
    Disconnected(Disconnect),
}

/// Whether all messages of a stream concern one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    OfRequest,
    /// Servers repeat messages of other streams on resumed ones.
    Unknown,
}

/// The sender of an event: the number of an exchange, or [`SSE_GET`](super::connection::SSE_GET).
pub(super) type Source = u64;

/// An event with its sender. Boxed, since a queue allocates 32 entries at once.
type QueuedEvent = Box<(Source, TransportEvent)>;

/// Sends events to the connection.
#[derive(Debug)]
pub(super) struct EventSender {
    source: Source,
    to: mpsc::Sender<QueuedEvent>,
    endpoint: SharedEndpoint,
    body_slots: Arc<LargeBodySlots>,
    tap: TapPoint,
}

/// The endpoint as the connection changes it and its exchanges read it.
#[derive(Debug, Clone)]
#[expect(clippy::disallowed_types, reason = "see the import")]
struct SharedEndpoint(Arc<Mutex<Arc<Endpoint>>>);

impl SharedEndpoint {
    #[expect(clippy::disallowed_types, reason = "see the import")]
    fn new(endpoint: Endpoint) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(endpoint))))
    }

    fn get(&self) -> Arc<Endpoint> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Endpoint)) {
        change(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// The queue, its shared endpoint, and a source of senders.
pub(super) struct EventQueue {
    to: mpsc::Sender<QueuedEvent>,
    receiver: mpsc::Receiver<QueuedEvent>,
    endpoint: SharedEndpoint,
    body_slots: Arc<LargeBodySlots>,
    tap: TapPoint,
}

impl EventQueue {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        let (to, receiver) = mpsc::channel(MAX_EVENTS);
        let body_slots = Arc::new(LargeBodySlots::new(MAX_LARGE_BODIES));
        let tap = TapPoint::default();
        Self { to, receiver, endpoint: SharedEndpoint::new(endpoint), body_slots, tap }
    }

    /// Notes messages here. Senders note what they receive.
    pub(super) fn set_tap(&mut self, tap: TapPoint) {
        self.tap = tap;
    }

    pub(super) fn tap(&self) -> &TapPoint {
        &self.tap
    }

    pub(super) fn sender(&self, source: Source) -> EventSender {
        let (to, endpoint, body_slots) = (self.to.clone(), self.endpoint.clone(), Arc::clone(&self.body_slots));
        EventSender { source, to, endpoint, body_slots, tap: self.tap.clone() }
    }

    /// The next event. Cancel-safe.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Source, TransportEvent)>> {
        self.receiver.poll_recv(cx).map(|queued| queued.map(|queued| *queued))
    }

    pub(super) fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoint.get()
    }

    /// Changes the endpoint for requests from now on.
    pub(super) fn change(&self, change: impl FnOnce(&mut Endpoint)) {
        self.endpoint.change(change);
    }
}

impl EventSender {
    /// Sends an event, once the queue has space.
    pub(super) async fn send(&self, event: TransportEvent) {
        let _ = self.to.send(Box::new((self.source, event))).await;
    }

    /// Sends what was learned, if anything.
    pub(super) async fn send_update(&self, update: EndpointUpdate) {
        if update.token.is_some() || update.url.is_some() || !update.headers.is_empty() {
            self.send(TransportEvent::EndpointUpdate(update)).await;
        }
    }

    /// The current endpoint.
    pub(super) fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoint.get()
    }

    pub(super) fn tap(&self) -> &TapPoint {
        &self.tap
    }

    /// Limits how many large responses of this server are read at a time.
    pub(super) fn body_slots(&self) -> &Arc<LargeBodySlots> {
        &self.body_slots
    }
}
