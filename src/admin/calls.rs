//! The `calls` method: sends records of calls to an operator.

use std::io;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::time::sleep;

use super::operator::{Access, Operator, event, refuse, refuse_overload, respond, send, unknown_server};
use super::{AdminEvent, Answer, CallsRequest, CallsSummary};
use crate::calls::{CallEvent, Filter, Subscription};

/// Pause after each batch, so that following costs little while many calls end.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);

/// Answers request `id`. With `follow` it returns when the operator sends another message or disconnects.
pub(super) async fn answer(operator: &mut Operator, id: u64, request: CallsRequest, access: &Access) -> io::Result<()> {
    let CallsRequest { last, server, tool, follow } = request;
    let filter = Filter { server: server.clone(), tool };
    let history = access.calls.read(last, filter, follow);
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
async fn follow_calls(operator: &mut Operator, mut subscription: Subscription) -> io::Result<()> {
    loop {
        let mut next = tokio::select! {
            next = subscription.next() => next,
            // A follower sends nothing more: this is the end of the connection.
            _ = operator.next() => None,
        };
        if next.is_none() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        while let Some(received) = next {
            let message = match received {
                CallEvent::Entry(entry) => AdminEvent::Call(Box::new((&*entry).into())),
                CallEvent::Missed(missed) => AdminEvent::Missed(missed),
            };
            operator.feed(event(message)).await?;
            next = subscription.next().now_or_never().flatten();
        }
        operator.flush().await?;
        sleep(BATCH_INTERVAL).await;
    }
}
