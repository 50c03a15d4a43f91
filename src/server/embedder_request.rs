//! Requests of an embedding program to a server. The daemon sends none.
//!
//! They take the path of an agent's call, with session number 0, which no agent has. Dropping the future cancels the request at
//! the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::Serialize;
use tracing::Span;

use super::messages::call::{Access, Call, CallKey, Origin, RequestKind, ResponseHandle, SessionSender, ToAgent};
use super::messages::handle::ServerHandle;
use super::stop_level::StopReceiver;
use crate::calls::{CallOutcome, Moment, span};
use crate::config::CallLimit;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::request_line::RequestLine;
use crate::jsonrpc::{Message, parse};

impl ServerHandle {
    /// Sends a request and returns its raw result within `limit`. A call of `tool` has a span. With `access`, the request is checked
    /// again before it is written.
    ///
    /// # Errors
    /// The server's error object, or the one that an agent would get from mcpd.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        tool: Option<&str>,
        limit: CallLimit,
        access: Option<Box<Access>>,
    ) -> Result<Bytes, ErrorObject> {
        let serial = self.0.embedder_requests.fetch_add(1, Ordering::Relaxed) + 1;
        let key = CallKey { session: 0, serial };
        let line = reply::request(serial, method, params);
        let line = line.slice(..line.len() - 1);
        let Ok(Message::Request { id, .. }) = parse(&line) else {
            return Err(ErrorObject::new(reply::INVALID_REQUEST, "the request is not valid JSON-RPC"));
        };
        // These requests do not depend on the stop level of a daemon.
        let (_running, stop) = StopReceiver::channel();
        let (to, mut answers) = SessionSender::channel(None, Arc::default(), stop);
        let span = tool.map_or_else(Span::none, |tool| span::open(Some(self.name()), tool, None, &id, &line));
        let response_handle = ResponseHandle::new(key, &id, self.name(), &to);
        let mut unanswered = PendingAnswer::new(self, key, span);
        self.call(Box::new(Call {
            request: RequestLine { line, id, rename: None, progress_token: None },
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
                ToAgent::Response { line, outcome, .. } => {
                    if let Ok(Message::Response { response, .. }) = parse(&line.slice(..line.len() - 1)) {
                        unanswered.end(outcome);
                        return response.map_err(|error| error_object(&error));
                    }
                }
                ToAgent::Request(question) => question.response_handle.unable(question.capability),
                ToAgent::CallNotification { .. } | ToAgent::ServerNotification(_) => {}
            }
        }
        Err(ErrorObject::new(reply::INTERNAL_ERROR, "no answer"))
    }
}

/// A server's error object, or a replacement if it is malformed.
fn error_object(raw: &Bytes) -> ErrorObject {
    serde_json::from_slice(raw).unwrap_or_else(|_| ErrorObject::new(reply::INTERNAL_ERROR, "a malformed error"))
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
