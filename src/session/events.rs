//! What a session waits for besides its agent's messages: servers, views, orders of the daemon, timers.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};

use crate::calls::running::{QuestionReceiver, RunningCallSender};
use crate::era::Era;
use crate::jsonrpc::reply::ErrorObject;
use crate::manager::View;
use crate::server::ServerHandle;
use crate::server::messages::call::ToAgent;
use crate::server::server_request::Withdrawal;

/// Rare events: each is awaited by a future of its own.
pub(super) enum Event {
    /// A watched view was published anew.
    ViewChanged(watch::Receiver<Arc<View>>),
    /// From now on the agent is shown a per-agent view.
    PerAgentView(watch::Receiver<Arc<View>>),
    /// A server's instance for this agent has sent its lists, which `view` includes, or has not done so in time.
    Listed {
        view: Option<watch::Receiver<Arc<View>>>,
        /// Its lists were cached.
        had_cached_lists: bool,
    },
    /// A name that a parked request needs may be listed by now: a server has sent its lists or changed its state, or the deadline has
    /// passed.
    RetryParked,
    /// The server of a face has completed its handshake for agents of this era, or does not complete it in time.
    HandshakeEnded(ServerHandle, Era),
    /// A server does not need the response to the request with this id any more.
    Withdrawn(u64, Option<Withdrawal>),
    /// The agent's profile was removed, or is not available to it any more.
    ProfileRemoved,
    /// The time for the remaining calls of an agent whose profile was removed is over.
    ProfileRemovedTimeout,
    /// The daemon is about to restart. Calls have this time.
    Draining(Duration),
    /// The daemon has stopped its servers.
    Closing,
    /// Several connections together use too much memory, and this one has to be closed. The agent receives the error.
    CutOff(ErrorObject),
    /// An operator requests the running calls.
    RunningCalls(QuestionReceiver, RunningCallSender),
    /// The agent had finished sending, and has closed the connection.
    HungUp,
}

pub(super) struct Events {
    from_servers: mpsc::Receiver<ToAgent>,
    /// Polled only when woken: polling every source at each turn would add a tenth to the cost of a small call.
    waits: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Events {
    pub(super) fn new(from_servers: mpsc::Receiver<ToAgent>) -> Self {
        Self { from_servers, waits: FuturesUnordered::new() }
    }

    /// Waits for an event from now on.
    pub(super) fn push(&mut self, wait: impl Future<Output = Event> + Send + 'static) {
        self.waits.push(wait.boxed());
    }

    /// Waits until a view is published anew.
    pub(super) fn watch(&mut self, mut view: watch::Receiver<Arc<View>>) {
        self.push(async move {
            // Nobody publishes it any more.
            if view.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            Event::ViewChanged(view)
        });
    }

    /// Waits for the daemon to have stopped its servers.
    pub(super) fn watch_closing(&mut self, mut closing: watch::Receiver<bool>) {
        self.push(async move {
            // A dropped sender means the same.
            let _ = closing.wait_for(|closing| *closing).await;
            Event::Closing
        });
    }

    /// Waits for an operator's question.
    pub(super) fn watch_questions(&mut self, mut questions: QuestionReceiver) {
        self.push(async move {
            let sender = questions.next().await;
            Event::RunningCalls(questions, sender)
        });
    }

    /// Waits for an order of the daemon to this session.
    pub(super) fn watch_order<T: Send + 'static>(
        &mut self,
        order: oneshot::Receiver<T>,
        event: impl FnOnce(T) -> Event + Send + 'static,
    ) {
        self.push(async move {
            match order.await {
                Ok(order) => event(order),
                Err(_) => std::future::pending().await,
            }
        });
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        match self.waits.poll_next_unpin(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(event),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Pending, too, once no server can send anything any more.
    pub(super) fn poll_server(&mut self, cx: &mut Context<'_>) -> Poll<ToAgent> {
        match self.from_servers.poll_recv(cx) {
            Poll::Ready(Some(message)) => Poll::Ready(message),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// The next message of a server that has already arrived.
    pub(super) fn next_from_server(&mut self) -> Option<ToAgent> {
        self.from_servers.try_recv().ok()
    }
}
