//! Requests of an embedding program to a server. The daemon sends none.
//!
//! They take the path of an agent's call, with session number 0, which no agent has. Dropping the future cancels the request at
//! the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use tracing::Span;

use super::control::StopReceiver;
use super::messages::call::{
    Access, Call, CallError, CallKey, Failure, Origin, RequestKind, ResponseHandle, SessionSender, ToAgent,
};
use super::messages::handle::ServerHandle;
use crate::calls::{CallOutcome, Moment, span};
use crate::config::CallLimit;
use crate::durations::Operation;
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, parse};
use crate::methods;

impl ServerHandle {
    /// Sends a request and returns its raw result within `limit`. A call of `tool` has a span, and its time is counted. With `access`, the
    /// request is checked again before it is written.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        tool: Option<&str>,
        limit: CallLimit,
        access: Option<Box<Access>>,
    ) -> Result<Bytes, RequestFailure> {
        let began = Instant::now();
        let serial = self.0.embedder_requests.fetch_add(1, Ordering::Relaxed) + 1;
        let key = CallKey { session: 0, serial };
        let line = reply::request(serial, method, params);
        let line = line.slice(..line.len() - 1);
        let Ok(Message::Request { id, .. }) = parse(&line) else {
            return Err(RequestFailure::Invalid);
        };
        // These requests do not depend on the stop level of a daemon.
        let (_running, stop) = StopReceiver::channel();
        let (to, mut answers) = SessionSender::channel(None, Arc::default(), stop);
        let span = tool.map_or_else(Span::none, |tool| span::open(Some(self.name()), tool, None, &id, &line));
        let response_handle = ResponseHandle::new(key, &id, self.name(), &to);
        let mut unanswered = PendingAnswer::new(self, key, span);
        self.call(Box::new(Call {
            request: RequestLine { line, id, rename: None, progress_token: None },
            operation: Operation::new(
                methods::find(method.as_bytes()).map_or("", |known| known.name),
                tool.map(Arc::from),
            ),
            kind: RequestKind::Plain,
            result_kind: None,
            limit,
            origin: Origin::Legacy(Arc::default()),
            access,
            response_handle,
        }))
        .await;
        drop(to);
        while let Some(message) = answers.recv().await {
            match message {
                ToAgent::Response { outcome, failure: Some(failure), .. } => {
                    unanswered.end(outcome);
                    return Err(RequestFailure::Failed(*failure));
                }
                ToAgent::Response { outcome: outcome @ CallOutcome::UnknownTool, .. } => {
                    unanswered.end(outcome);
                    return Err(RequestFailure::Hidden);
                }
                ToAgent::Response { line, outcome, .. } => {
                    unanswered.end(outcome);
                    if tool.is_some() {
                        self.0.stats.answer_times.add(began.elapsed());
                    }
                    let Ok(Message::Response { response, .. }) = parse(&line.slice(..line.len() - 1)) else {
                        return Err(self.failure(Failure::MalformedResponse));
                    };
                    return response.map_err(|error| match serde_json::from_slice(&error) {
                        Ok(error) => RequestFailure::ServerError(error),
                        Err(_) => self.failure(Failure::MalformedResponse),
                    });
                }
                ToAgent::Request(question) => question.response_handle.refuse_undeclared(question.capability),
                ToAgent::CallNotification { .. } | ToAgent::ServerNotification(_) => {}
            }
        }
        // A response handle answers even if it is dropped.
        Err(self.failure(Failure::MalformedResponse))
    }

    /// A failure of a request that was sent.
    fn failure(&self, failure: Failure) -> RequestFailure {
        RequestFailure::Failed(CallError { server: Arc::clone(self.name()), failure, may_have_arrived: true })
    }
}

/// Why a request of an embedding program has no result.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// Its text is no valid message. It was not sent.
    Invalid,
    /// Its access hides its target by now. It was not sent.
    Hidden,
    /// mcpd has ended it in place of the server.
    Failed(CallError),
    /// The server's own error.
    ServerError(ErrorObject),
}

/// A request that waits for its response. Dropping it before the response cancels it at the server.
struct PendingAnswer<'a> {
    server: &'a ServerHandle,
    key: CallKey,
    span: Span,
    /// Set if the span is recorded.
    began: Option<Moment>,
    ended: bool,
}

impl<'a> PendingAnswer<'a> {
    fn new(server: &'a ServerHandle, key: CallKey, span: Span) -> Self {
        let began = (!span.is_disabled()).then(Moment::now);
        Self { server, key, span, began, ended: false }
    }

    fn end(&mut self, outcome: CallOutcome) {
        self.ended = true;
        if let Some(began) = self.began {
            span::close(&self.span, outcome, Moment::now().since(began));
        }
    }
}

impl Drop for PendingAnswer<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.server.cancel_soon(self.key, None);
            self.end(CallOutcome::Cancelled);
        }
    }
}
