//! Answering one operator.

use std::io;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::channel::{Channel, channel};
use super::feed;
use super::report::Report;
use super::{Answer, CALLS, FromDaemon, LOG_LEVEL, Request, Response, STATUS};
use crate::calls;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::logging::BadFilter;

/// For the next question, and for an answer to be taken: whoever says nothing makes room for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A question to whoever holds the daemon's state.
#[derive(Debug)]
pub(crate) enum Query {
    /// What is going on.
    Status(oneshot::Sender<Report>),
    /// What is logged, after it was changed to `filter`, if one is given.
    LogLevel { filter: Option<String>, answer: oneshot::Sender<Result<String, BadFilter>> },
}

/// The ways to those who know.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) calls: calls::Reader,
}

/// The connection of one operator.
pub(super) type Operator = Channel<Request, FromDaemon<Answer>>;

/// Answers the questions of one connection until it ends.
pub(crate) async fn serve(stream: UnixStream, access: Access) {
    let mut operator: Operator = channel(stream);
    while let Ok(Some(request)) = timeout(PATIENCE, operator.next()).await {
        // What follows a line that cannot be read cannot be told from it.
        let readable = request.is_ok();
        if answer(request, &mut operator, &access).await.is_err() || !readable {
            return;
        }
    }
}

async fn answer(request: io::Result<Request>, operator: &mut Operator, access: &Access) -> io::Result<()> {
    let request = match request {
        Ok(request) => request,
        Err(error) => return refuse(operator, None, ErrorObject::new(INVALID_REQUEST, error.to_string())).await,
    };
    let id = Some(request.id);
    let outcome = match &*request.method {
        STATUS => ask(&access.queries, Query::Status).await.map(|report| Answer::Status(Box::new(report))),
        LOG_LEVEL => {
            let filter = request.params.filter;
            match ask(&access.queries, |answer| Query::LogLevel { filter, answer }).await {
                Ok(changed) => {
                    changed.map(Answer::LogLevel).map_err(|error| ErrorObject::new(INVALID_PARAMS, error.to_string()))
                }
                Err(error) => Err(error),
            }
        }
        CALLS => return feed::answer(operator, request.id, request.params.calls.unwrap_or_default(), access).await,
        method => {
            let versions = format!("this daemon is {}, you are {}", env!("CARGO_PKG_VERSION"), request.params.version);
            Err(ErrorObject::new(METHOD_NOT_FOUND, format!("unknown method `{method}` ({versions})")))
        }
    };
    match outcome {
        Ok(result) => respond(operator, id, result).await,
        Err(error) => refuse(operator, id, error).await,
    }
}

pub(super) async fn respond(operator: &mut Operator, id: Option<u64>, result: Answer) -> io::Result<()> {
    let response = Response { jsonrpc: "2.0".to_owned(), id, result: Some(result), error: None };
    send(operator, FromDaemon::Response(response)).await
}

pub(super) async fn refuse(operator: &mut Operator, id: Option<u64>, error: ErrorObject) -> io::Result<()> {
    let response = Response { jsonrpc: "2.0".to_owned(), id, result: None, error: Some(error) };
    send(operator, FromDaemon::Response(response)).await
}

/// Sends one message, unless whoever asked does not take it.
pub(super) async fn send(operator: &mut Operator, message: FromDaemon<Answer>) -> io::Result<()> {
    timeout(PATIENCE, operator.send(message)).await?
}

async fn ask<T>(
    queries: &mpsc::Sender<Query>,
    query: impl FnOnce(oneshot::Sender<T>) -> Query,
) -> Result<T, ErrorObject> {
    let (sender, receiver) = oneshot::channel();
    queries.send(query(sender)).await.map_err(|_| stopping())?;
    receiver.await.map_err(|_| stopping())
}

pub(super) fn stopping() -> ErrorObject {
    ErrorObject::new(-31005, "mcpd is being stopped")
}
