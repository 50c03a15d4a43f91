//! An agent whose profile is there no more, or not for it: it gets what it waits for, for a bounded time, and is disconnected.

use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::Session;
use super::events::Rare;
use super::in_flight::InFlight;
use crate::calls::Outcome;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::server::messages::call::ToAgent;

/// For its calls in flight, as they have at a server that is removed.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// Waits until the agent is to leave.
pub(super) async fn told(leave: oneshot::Receiver<()>) -> Rare {
    if leave.await.is_err() {
        std::future::pending::<()>().await;
    }
    Rare::Leaving
}

impl Session {
    /// Takes nothing on from now on.
    pub(super) fn leave(&mut self) {
        let refusal = gone(Delivery::NotSent);
        self.refuse_deferred(&refusal);
        self.refusal = Some(refusal);
        self.end_listens();
        self.waits.push(sleep(LAST_CALLS).map(|()| Rare::Overdue).boxed());
    }

    /// Answers what has taken too long, and has servers give it up.
    pub(super) async fn give_up_calls(&mut self, answers: &mut mpsc::Receiver<ToAgent>) {
        while let Ok(answer) = answers.try_recv() {
            self.deliver(answer);
        }
        for (id, InFlight { key, server, account, .. }) in self.calls.drain() {
            let line = reply::error(Some(&id), &gone(Delivery::Unknown).about_server(server.name()));
            self.tell(account, &server, Outcome::ShuttingDown, line.len());
            self.respond(Some(&id), [line]);
            server.cancel(key, None).await;
        }
    }
}

fn gone(delivery: Delivery) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "the profile of this connection was removed", delivery)
}
