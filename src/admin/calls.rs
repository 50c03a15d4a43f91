//! The `calls` method: sends records of calls to an operator.

use std::io;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;

use super::operator::{Access, Operator, event, refuse, refuse_overload, respond, send, stopping, unknown_server};
use super::{AdminEvent, Answer, CallsRequest, CallsSummary};
use crate::calls::{CallEvent, Filter};

/// Records between two flushes.
const BURST: usize = 64;

/// Answers request `id`. With `follow` it returns when the operator sends another message or disconnects.
pub(super) async fn answer(operator: &mut Operator, id: u64, request: CallsRequest, access: &Access) -> io::Result<()> {
    let CallsRequest { last, server, tool, follow } = request;
    let filter = Filter { server: server.clone(), tool };
    let Some(history) = access.calls.read(last, filter, follow).await else {
        return refuse(operator, Some(id), stopping()).await;
    };
    if follow && history.subscription.is_none() {
        return refuse_overload(operator, id).await;
    }
    // A removed server is valid as long as the history has records of it.
    let unknown = server.as_deref().filter(|_| history.entries.is_empty());
    if let Some(error) = unknown.and_then(|server| unknown_server(&access.view.borrow(), server)) {
        return refuse(operator, Some(id), error).await;
    }
    for entry in &history.entries {
        send(operator, event(AdminEvent::Call(Box::new((&**entry).into())))).await?;
    }
    let summary = CallsSummary { unwritten: history.unwritten };
    respond(operator, Some(id), Answer::Calls(summary)).await?;
    match history.subscription {
        Some(subscription) => follow_calls(operator, subscription).await,
        None => Ok(()),
    }
}

/// Sends new records without a timeout. An operator that stops reading loses records and occupies a subscription.
async fn follow_calls(operator: &mut Operator, mut subscription: mpsc::Receiver<CallEvent>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST);
    loop {
        let count = tokio::select! {
            count = subscription.recv_many(&mut burst, BURST) => count,
            // A follower sends nothing more: this is the end of the connection.
            _ = operator.next() => 0,
        };
        if count == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        for received in burst.drain(..) {
            let message = match received {
                CallEvent::Entry(entry) => AdminEvent::Call(Box::new((&*entry).into())),
                CallEvent::Missed(missed) => AdminEvent::Missed(missed),
            };
            operator.feed(event(message)).await?;
        }
        operator.flush().await?;
    }
}
