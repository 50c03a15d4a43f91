//! The connection of one operator, and what answers have in common.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::channel::Channel;
use super::report::{ReloadReport, Report};
use super::{Answer, EnvironmentChanges, Event, FromDaemon, Request, Response, Told};
use crate::calls;
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::logging::BadFilter;
use crate::manager::{Manager, View};
use crate::suggest::nearest;

/// For the next question, and for an answer to be taken: whoever says nothing makes room for others.
pub(super) const OPERATOR_TIMEOUT: Duration = Duration::from_secs(2);

/// Operators at once that have lines told or an order carried out, which may last; one more is refused with −31003, so that
/// there is always room for those who only want to know how things are.
pub(crate) const MAX_LASTING: usize = 24;

/// Servers that are named to an operator who has asked for one that there is not.
const MAX_NAMED: usize = 20;

/// A question to whoever holds the daemon's state.
#[derive(Debug)]
pub(crate) enum Query {
    /// What is going on.
    Status(oneshot::Sender<Report>),
    /// What is logged, after it was changed to `filter`, if one is given.
    LogLevel { filter: Option<String>, answer: oneshot::Sender<Result<String, BadFilter>> },
}

/// The answer to an operator's wish that the configuration is read again: what has become of the servers, or why nothing has
/// changed.
pub(crate) type ReloadAnswer = oneshot::Sender<Result<ReloadReport, String>>;

/// An operator's wish that the configuration is read again.
pub(crate) struct ReloadRequest {
    /// Variables that it is to be read with from now on.
    pub(crate) environment: Option<EnvironmentChanges>,
    pub(crate) answer: ReloadAnswer,
}

/// The ways to those who know.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) calls: calls::Reader,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) manager: Manager,
    pub(crate) reloads: mpsc::Sender<ReloadRequest>,
    /// [`MAX_LASTING`] of them.
    pub(crate) lasting: Arc<Semaphore>,
}

/// The connection of one operator.
pub(super) type Operator = Channel<Request, FromDaemon<Answer>>;

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
    timeout(OPERATOR_TIMEOUT, operator.send(message)).await?
}

pub(super) async fn ask<T>(
    queries: &mpsc::Sender<Query>,
    query: impl FnOnce(oneshot::Sender<T>) -> Query,
) -> Result<T, ErrorObject> {
    let (sender, receiver) = oneshot::channel();
    queries.send(query(sender)).await.map_err(|_| stopping())?;
    receiver.await.map_err(|_| stopping())
}

pub(super) fn event(event: Told) -> FromDaemon<Answer> {
    FromDaemon::Event(Event { jsonrpc: "2.0".to_owned(), event })
}

/// Ends the connection with the answer that there are too many of its kind: it keeps nobody's place.
pub(super) async fn turn_away(operator: &mut Operator, id: u64) -> io::Result<()> {
    let error = ErrorObject::new(
        ErrorCode::Overloaded.number(),
        "too many operators have mcpd do something that lasts: try again later",
    );
    refuse(operator, Some(id), error).await?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// What to answer if there is no such server.
pub(super) fn unknown_server(view: &View, server: &str) -> Option<ErrorObject> {
    let names: Vec<_> = view.servers.iter().map(|member| &**member.handle.name()).collect();
    let error = || ErrorObject::new(INVALID_PARAMS, no_server(server, &names));
    (!names.contains(&server)).then(error)
}

/// That there is no `server`, which may have been meant, and which there are.
fn no_server(server: &str, names: &[&str]) -> String {
    let meant = nearest(server, names.iter().copied());
    let meant = meant.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"));
    let there_are = match names.len().checked_sub(MAX_NAMED) {
        _ if names.is_empty() => "none is configured".to_owned(),
        Some(more @ 1..) => format!("{} and {more} more", names[..MAX_NAMED].join(", ")),
        _ => names.join(", "),
    };
    format!("there is no server `{server}`{meant}; servers: {there_are}")
}

pub(super) fn stopping() -> ErrorObject {
    ErrorObject::new(ErrorCode::ShuttingDown.number(), "mcpd is being stopped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_there_is_not_is_told_with_the_one_that_may_be_meant() {
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
