//! An operator's connection, and helpers that the methods share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::report::{ReloadReport, Report};
use super::{AdminEvent, Answer, Channel, DaemonMessage, EnvironmentChanges, Notification, Request, Response};
use crate::calls::History;
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use crate::logging::BadFilter;
use crate::manager::{Manager, View};
use crate::masking::KnownSecrets;
use crate::masking::mask::Masked;
use crate::suggest::nearest;
use crate::tap::Tap;

/// Maximum wait for the next request, and for the operator to read a message.
pub(super) const OPERATOR_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes of a long text in one message, so that a slow operator receives each in time.
const PART: usize = 64 << 10;

/// Limit of concurrent requests that may take long, such as `logs` or `restart`. Further ones are refused with −31003, so
/// that `status` always finds a free connection.
pub(crate) const MAX_LONG_REQUESTS: usize = 24;

/// Maximum number of servers listed in the error for an unknown server.
const MAX_NAMED: usize = 20;

/// A request to the daemon's main loop.
#[derive(Debug)]
pub(crate) enum Query {
    /// Returns the status.
    Status(oneshot::Sender<Report>),
    /// Restarts the daemon. Dropped if it is being stopped.
    Restart(oneshot::Sender<Restarting>),
    /// Reads the tokens of loopback listeners again.
    Tokens(oneshot::Sender<()>),
    /// Sets the log filter, if `filter` is given, and returns the filter in effect.
    LogLevel { filter: Option<String>, answer: oneshot::Sender<Result<String, BadFilter>> },
}

/// The daemon ends its servers before a restart.
#[derive(Debug)]
pub(crate) struct Restarting {
    /// Maximum time until no server is left.
    pub(crate) at_most: Duration,
    /// Then the next program follows. Dropped if it does not, because the daemon is stopped.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// Receives the result of a reload, or the reason why nothing has changed.
pub(crate) type ReloadAnswer = oneshot::Sender<Result<ReloadReport, String>>;

pub(crate) struct ReloadRequest {
    /// Changes of environment variables that persist for later reloads.
    pub(crate) environment: Option<EnvironmentChanges>,
    pub(crate) answer: ReloadAnswer,
}

/// Channels and handles to the daemon's parts.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) calls: History,
    pub(crate) tap: Tap,
    pub(crate) secrets: KnownSecrets,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) manager: Manager,
    pub(crate) reloads: mpsc::Sender<ReloadRequest>,
    /// Has [`MAX_LONG_REQUESTS`] permits.
    pub(crate) long_requests: Arc<Semaphore>,
}

pub(super) type Operator = Channel<Request, DaemonMessage<Answer>>;

pub(super) async fn respond(operator: &mut Operator, id: Option<u64>, result: Answer) -> io::Result<()> {
    let response = Response { jsonrpc: "2.0".to_owned(), id, result: Some(result), error: None };
    send(operator, DaemonMessage::Response(response)).await
}

pub(super) async fn refuse(operator: &mut Operator, id: Option<u64>, error: ErrorObject) -> io::Result<()> {
    let response = Response { jsonrpc: "2.0".to_owned(), id, result: None, error: Some(error) };
    send(operator, DaemonMessage::Response(response)).await
}

/// Sends one message, or fails if the operator does not read it in time.
pub(super) async fn send(operator: &mut Operator, message: DaemonMessage<Answer>) -> io::Result<()> {
    timeout(OPERATOR_TIMEOUT, operator.send(message)).await?
}

/// Masks what is sent from now on, or does not. Fails if not all secrets are known.
pub(super) fn set_masked(operator: &mut Operator, is_masked: bool, secrets: &KnownSecrets) -> Result<(), ErrorObject> {
    let masking = is_masked.then(|| secrets.masking()).transpose();
    let masking = masking.map_err(|error| ErrorObject::new(INTERNAL_ERROR, error.to_string()))?;
    operator.get_mut().codec_mut().masking = masking;
    Ok(())
}

/// `text` as this operator may see it.
pub(super) fn shown(operator: &mut Operator, text: String) -> io::Result<Masked> {
    match &mut operator.get_mut().codec_mut().masking {
        Some(masking) => Ok(masking.current().map_err(io::Error::other)?.apply(&text)),
        None => Ok(Masked { text, count: 0 }),
    }
}

/// Sends a long text in parts, each in an event. It is masked before, since a secret may lie in two parts.
pub(super) async fn send_text(
    operator: &mut Operator,
    text: String,
    part_event: impl Fn(String) -> AdminEvent,
) -> io::Result<()> {
    let text = shown(operator, text)?.text;
    for part in parts(&text) {
        timeout(OPERATOR_TIMEOUT, operator.feed(event(part_event(part.to_owned())))).await??;
        // Let agents' tasks run in between.
        yield_now().await;
    }
    Ok(())
}

/// The parts of a long text.
pub(super) fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let end = (0..=PART.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
        let (part, rest) = text.split_at(end);
        text = rest;
        (!part.is_empty()).then_some(part)
    })
}

pub(super) async fn ask<T>(
    queries: &mpsc::Sender<Query>,
    query: impl FnOnce(oneshot::Sender<T>) -> Query,
) -> Result<T, ErrorObject> {
    let (sender, receiver) = oneshot::channel();
    queries.send(query(sender)).await.map_err(|_| stopping())?;
    receiver.await.map_err(|_| stopping())
}

pub(super) fn event(event: AdminEvent) -> DaemonMessage<Answer> {
    DaemonMessage::Notification(Notification { jsonrpc: "2.0".to_owned(), event })
}

/// Refuses a long request at the limit and closes the connection, so that it takes no place.
pub(super) async fn refuse_overload(operator: &mut Operator, id: u64) -> io::Result<()> {
    let error = ErrorObject::new(
        ErrorCode::Overloaded.number(),
        "too many long operator requests are in progress: try again later",
    );
    refuse(operator, Some(id), error).await?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// The error for an unknown server; `None` if it exists.
pub(super) fn unknown_server(view: &View, server: &str) -> Option<ErrorObject> {
    let names: Vec<_> = view.servers.iter().map(|member| &**member.handle.name()).collect();
    let error = || ErrorObject::new(INVALID_PARAMS, no_server(server, &names));
    (!names.contains(&server)).then(error)
}

/// Names the server, a similar name and the configured servers.
fn no_server(server: &str, names: &[&str]) -> String {
    let similar = nearest(server, names.iter().copied());
    let similar = similar.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
    let configured = match names.len().checked_sub(MAX_NAMED) {
        _ if names.is_empty() => "none is configured".to_owned(),
        Some(more @ 1..) => format!("{} and {more} more", names[..MAX_NAMED].join(", ")),
        _ => names.join(", "),
    };
    format!("there is no server `{server}`{similar}; servers: {configured}")
}

pub(super) fn stopping() -> ErrorObject {
    ErrorObject::new(ErrorCode::ShuttingDown.number(), "mcpd is stopping or restarting")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_an_unknown_server_suggests_a_similar_name() {
        let many: Vec<String> = (1..=22).map(|at| format!("s{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (names, expected) in [
            (&["files", "git"][..], "there is no server `flies` (did you mean `files`?); servers: files, git"),
            (&["web"], "there is no server `flies`; servers: web"),
            (&[], "there is no server `flies`; servers: none is configured"),
        ] {
            assert_eq!(no_server("flies", names), expected);
        }
        assert!(no_server("x", &many).ends_with("s19, s20 and 2 more"));
    }
}
