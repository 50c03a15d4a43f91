//! Telling one operator of calls, and of those that come.

use std::io;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;

use super::operator::{Access, Operator, event, refuse, respond, send, stopping, turn_away, unknown_server};
use super::{Answer, CallsTold, CallsWanted, Told};
use crate::calls::{CallEvent, Filter};

/// Entries that are written in one go.
const BURST: usize = 64;

/// Answers the question `id` for calls. With `follow` it returns when the operator says anything more, or leaves.
pub(super) async fn answer(operator: &mut Operator, id: u64, wanted: CallsWanted, access: &Access) -> io::Result<()> {
    let CallsWanted { last, server, tool, follow } = wanted;
    let filter = Filter { server: server.clone(), tool };
    let Some(told) = access.calls.read(last, filter, follow).await else {
        return refuse(operator, Some(id), stopping()).await;
    };
    if follow && told.subscription.is_none() {
        return turn_away(operator, id).await;
    }
    // One that was removed may be asked for as long as there is anything to tell of it.
    let unknown = server.as_deref().filter(|_| told.entries.is_empty());
    if let Some(error) = unknown.and_then(|server| unknown_server(&access.view.borrow(), server)) {
        return refuse(operator, Some(id), error).await;
    }
    for entry in &told.entries {
        send(operator, event(Told::Call(Box::new((&**entry).into())))).await?;
    }
    let all = CallsTold { unwritten: told.unwritten };
    respond(operator, Some(id), Answer::Calls(all)).await?;
    match told.subscription {
        Some(following) => pass_on(operator, following).await,
        None => Ok(()),
    }
}

/// Whoever follows may stop reading for as long as it likes: it loses entries, and there are few of its kind.
async fn pass_on(operator: &mut Operator, mut following: mpsc::Receiver<CallEvent>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST);
    loop {
        let count = tokio::select! {
            count = following.recv_many(&mut burst, BURST) => count,
            // Nothing more is expected of whoever follows but to leave.
            _ = operator.next() => 0,
        };
        if count == 0 {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        for followed in burst.drain(..) {
            let told = match followed {
                CallEvent::Entry(entry) => Told::Call(Box::new((&*entry).into())),
                CallEvent::Missed(missed) => Told::Missed(missed),
            };
            operator.feed(event(told)).await?;
        }
        operator.flush().await?;
    }
}
