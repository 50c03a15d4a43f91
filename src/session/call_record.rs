//! The record of each tool call: made when the call is routed, written when it ends.

use std::sync::Arc;

use tracing::Span;

use super::received_call::ReceivedCall;
use crate::calls::{self, CallOutcome, Caller, CompletedCall, History, Moment, span};
use crate::logging::Limiter;
use crate::methods::Forwarding;
use crate::server::ServerHandle;

/// What is known of a call while it runs. Only tool calls are written to the history.
pub(super) struct CallRecord {
    began: Moment,
    /// The tool's name at the server; `None` if the request is no tool call.
    tool: Option<Arc<str>>,
    request_bytes: usize,
    /// The span and the arguments, if they are recorded. Boxed, because few calls have them.
    trace: Option<Box<TraceDetails>>,
}

struct TraceDetails {
    span: Span,
    arguments: Option<Box<str>>,
}

pub(super) struct CallRecorder {
    history: History,
    warnings: Arc<Limiter>,
    caller: Arc<Caller>,
}

impl CallRecord {
    #[inline]
    fn new(request: &ReceivedCall, tool: Option<Arc<str>>, span: Span, arguments: Option<Box<str>>) -> Self {
        let is_traced = !span.is_disabled() || arguments.is_some();
        let trace = is_traced.then(|| Box::new(TraceDetails { span, arguments }));
        Self { began: request.received, tool, request_bytes: request.line.len(), trace }
    }

    /// Runs `f` in the span of the call.
    pub(super) fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        match &self.trace {
            Some(trace) => trace.span.in_scope(f),
            None => f(),
        }
    }
}

impl CallRecorder {
    pub(super) fn new(history: History, warnings: Arc<Limiter>, caller: Caller) -> Self {
        Self { history, warnings, caller: Arc::new(caller) }
    }

    pub(super) fn set_client(&mut self, client: Option<String>) {
        self.caller = Arc::new(Caller { client, ..Caller::clone(&self.caller) });
    }

    /// Begins the record of a request for `server`: of a call of `tool`, if that is given.
    pub(super) fn begin(
        &self,
        request: &ReceivedCall,
        server: &str,
        tool: Option<&Arc<str>>,
        log_arguments: bool,
    ) -> CallRecord {
        let Some(tool) = tool else { return CallRecord::new(request, None, Span::none(), None) };
        let arguments = if log_arguments { request.arguments() } else { None };
        let span = span::open(Some(server), tool, Some(self.caller.session), &request.id, &request.line);
        CallRecord::new(request, Some(Arc::clone(tool)), span, arguments.map(|raw| calls::cut_arguments(&raw)))
    }

    /// Writes the record of a call. `server` is `None` if the call reached none.
    pub(super) fn end(
        &self,
        record: CallRecord,
        server: Option<&ServerHandle>,
        outcome: CallOutcome,
        reply_bytes: usize,
    ) {
        let CallRecord { began, tool: Some(tool), request_bytes, trace } = record else { return };
        let ended = Moment::now();
        let arguments = trace.and_then(|trace| {
            if !trace.span.is_disabled() {
                span::close(&trace.span, outcome, ended.since(began));
            }
            trace.arguments
        });
        let (caller, server) = (Arc::clone(&self.caller), server.map(|server| Arc::clone(server.name())));
        self.history.push(CompletedCall {
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

    /// Logs that a server has failed to answer its part of a merged list.
    pub(super) fn warn_of_incomplete_list(&self, server: &str) {
        if self.warnings.admits("incomplete list of an extension", server) {
            tracing::warn!(
                server,
                "a merged list of an extension lacks items of this server: it is down, failed, timed out or requires input"
            );
        }
    }

    /// Logs that the agent has sent a request with the id of an unanswered one.
    pub(super) fn warn_of_reused_id(&self) {
        let client = self.caller.client.as_deref().unwrap_or("unknown");
        if self.warnings.admits("request with an id that is in use", client) {
            tracing::warn!(
                client,
                session = self.caller.session,
                "refused a request of this agent: its id is that of an unanswered request; MCP requires a new id for each request"
            );
        }
    }

    /// Records a request that ends without having reached a server.
    pub(super) fn record_unforwarded(&self, request: &ReceivedCall, outcome: CallOutcome, reply_bytes: usize) {
        if request.forwarding != Forwarding::CallTool {
            return;
        }
        let tool = calls::unknown_tool(&request.exposed_name);
        let span = span::open(None, &tool, Some(self.caller.session), &request.id, &request.line);
        let record = CallRecord::new(request, Some(tool), span, None);
        self.end(record, None, outcome, reply_bytes);
    }
}
