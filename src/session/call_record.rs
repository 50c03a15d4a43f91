//! The record of each tool call: made when the call is routed, written when it ends.

use std::sync::Arc;

use tracing::Span;

use super::routed_request::RoutedRequest;
use crate::calls::{CallOutcome, Caller, CompletedCall, Log, Moment, span, text};
use crate::server::ServerHandle;
use crate::server::messages::call::TargetKind;

/// What is known of a call while it runs. Only tool calls are recorded.
pub(super) struct CallRecord {
    began: Moment,
    /// The tool's name at the server; `None` if the request is no tool call.
    tool: Option<Arc<str>>,
    request_bytes: usize,
    /// Boxed, because few calls have it.
    rare: Option<Box<Rare>>,
}

struct Rare {
    span: Span,
    arguments: Option<Box<str>>,
}

pub(super) struct CallRecorder {
    log: Log,
    caller: Arc<Caller>,
}

impl CallRecord {
    #[inline]
    fn new(request: &RoutedRequest, tool: Option<Arc<str>>, span: Span, arguments: Option<Box<str>>) -> Self {
        let is_rare = !span.is_disabled() || arguments.is_some();
        let rare = is_rare.then(|| Box::new(Rare { span, arguments }));
        Self { began: request.received, tool, request_bytes: request.line.len(), rare }
    }

    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Runs `f` in the span of the call.
    pub(super) fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        match &self.rare {
            Some(rare) => rare.span.in_scope(f),
            None => f(),
        }
    }
}

impl CallRecorder {
    pub(super) fn new(log: Log, caller: Caller) -> Self {
        Self { log, caller: Arc::new(caller) }
    }

    pub(super) fn set_client(&mut self, client: Option<String>) {
        self.caller = Arc::new(Caller { client, ..Caller::clone(&self.caller) });
    }

    /// Begins the record of a request for `server`: of a call of `tool`, if that is given.
    pub(super) fn begin(
        &self,
        request: &RoutedRequest,
        server: &str,
        tool: Option<&Arc<str>>,
        log_arguments: bool,
    ) -> CallRecord {
        let Some(tool) = tool else { return CallRecord::new(request, None, Span::none(), None) };
        let arguments = if log_arguments { request.arguments() } else { None };
        let span = span::open(Some(server), tool, Some(self.caller.session), &request.id, &request.line);
        CallRecord::new(request, Some(Arc::clone(tool)), span, arguments.map(|raw| text::arguments(&raw)))
    }

    /// Writes the record of a call. `server` is `None` if the call reached none.
    pub(super) fn end(
        &self,
        record: CallRecord,
        server: Option<&ServerHandle>,
        outcome: CallOutcome,
        reply_bytes: usize,
    ) {
        let CallRecord { began, tool: Some(tool), request_bytes, rare } = record else { return };
        let ended = Moment::now();
        let arguments = rare.and_then(|rare| {
            if !rare.span.is_disabled() {
                span::close(&rare.span, outcome, ended.since(began));
            }
            rare.arguments
        });
        let (caller, server) = (Arc::clone(&self.caller), server.map(|server| Arc::clone(server.name())));
        self.log.push(CompletedCall {
            began,
            ended,
            caller,
            server,
            tool,
            outcome,
            request_bytes,
            reply_bytes,
            arguments,
        });
    }

    /// Records a request that ends without having reached a server.
    pub(super) fn unrouted(&self, request: &RoutedRequest, outcome: CallOutcome, reply_bytes: usize) {
        if request.subject != TargetKind::Tool {
            return;
        }
        let tool = text::unknown_tool(&request.key);
        let span = span::open(None, &tool, Some(self.caller.session), &request.id, &request.line);
        let record = CallRecord::new(request, Some(tool), span, None);
        self.end(record, None, outcome, reply_bytes);
    }
}
