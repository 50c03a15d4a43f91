//! Answering one operator.

use std::io;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::channel::{Channel, channel};
use super::report::Report;
use super::{Request, Response, STATUS};
use crate::jsonrpc::reply::{ErrorObject, INVALID_REQUEST, METHOD_NOT_FOUND};

/// For the next question, and for an answer to be taken: whoever says nothing makes room for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A question to whoever holds the daemon's state.
pub(crate) type Query = oneshot::Sender<Report>;

/// Answers the questions of one connection until it ends.
pub(crate) async fn serve(stream: UnixStream, queries: mpsc::Sender<Query>) {
    let mut channel: Channel<Request, Response> = channel(stream);
    while let Ok(Some(request)) = timeout(PATIENCE, channel.next()).await {
        let readable = request.is_ok();
        let response = answer(request, &queries).await;
        let sent = timeout(PATIENCE, channel.send(response)).await;
        if !matches!(sent, Ok(Ok(()))) || !readable {
            return;
        }
    }
}

async fn answer(request: io::Result<Request>, queries: &mpsc::Sender<Query>) -> Response {
    let (id, outcome) = match request {
        Err(error) => (None, Err(ErrorObject::new(INVALID_REQUEST, error.to_string()))),
        Ok(request) if request.method == STATUS => (Some(request.id), ask(queries).await),
        Ok(request) => {
            let versions = format!("this daemon is {}, you are {}", env!("CARGO_PKG_VERSION"), request.params.version);
            let message = format!("unknown method `{}` ({versions})", request.method);
            (Some(request.id), Err(ErrorObject::new(METHOD_NOT_FOUND, message)))
        }
    };
    let (result, error) = match outcome {
        Ok(report) => (Some(report), None),
        Err(error) => (None, Some(error)),
    };
    Response { jsonrpc: "2.0".to_owned(), id, result, error }
}

async fn ask(queries: &mpsc::Sender<Query>) -> Result<Report, ErrorObject> {
    let gone = || ErrorObject::new(-31005, "mcpd is being stopped");
    let (sender, receiver) = oneshot::channel();
    queries.send(sender).await.map_err(|_| gone())?;
    receiver.await.map_err(|_| gone())
}
