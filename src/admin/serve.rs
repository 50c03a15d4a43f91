//! Answering one operator.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::channel::channel;
use super::operator::{Access, OPERATOR_TIMEOUT, Operator, Query, ask, refuse, respond};
use super::{Answer, CALLS, CHECK, DISABLE, ENABLE, HEALTH, LOG_LEVEL, LOGS, RELOAD, RESTART, STATUS, TOOLS};
use super::{Request, check, feed, logs, orders, tools};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};

/// Whether an operator's next request is waited for: then the operator makes room for others.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Notified when it begins.
    begins: Arc<Notify>,
    is_waiting: AtomicBool,
    has_asked: AtomicBool,
}

impl Waiting {
    /// For the first request.
    pub(crate) fn new(begins: Arc<Notify>) -> Self {
        Self { begins, is_waiting: AtomicBool::new(true), has_asked: AtomicBool::new(false) }
    }

    pub(crate) fn is_for_any(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn is_for_first(&self) -> bool {
        self.is_for_any() && !self.has_asked.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.has_asked.store(true, Ordering::Relaxed);
    }

    fn begin(&self) {
        self.is_waiting.store(true, Ordering::Relaxed);
        self.begins.notify_one();
    }
}

/// Answers the questions of one connection until it ends.
pub(crate) async fn serve(stream: UnixStream, access: Access, waiting: Arc<Waiting>) {
    let mut operator: Operator = channel(stream);
    while let Ok(Some(request)) = timeout(OPERATOR_TIMEOUT, operator.next()).await {
        waiting.end();
        // What follows a line that cannot be read cannot be told from it.
        let readable = request.is_ok();
        if answer(request, &mut operator, &access).await.is_err() || !readable {
            return;
        }
        waiting.begin();
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
        CHECK => return check::answer(operator, request.id, access).await,
        CALLS => return feed::answer(operator, request.id, request.params.calls.unwrap_or_default(), access).await,
        LOGS => return logs::answer(operator, request.id, request.params.logs.unwrap_or_default(), access).await,
        TOOLS => return tools::answer(operator, request.id, request.params.tools.unwrap_or_default(), access).await,
        RELOAD => return orders::reload(operator, request.id, request.params.environment, access).await,
        order @ (RESTART | ENABLE | DISABLE | HEALTH) => {
            return orders::answer(operator, (request.id, order), &request.params, access).await;
        }
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
