//! The record of each tool call: made when the call is routed, written when it ends.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use super::own_request::OwnRequest;
use super::received_call::ReceivedCall;
use crate::calls::{self, CallOutcome, Caller, CompletedCall, History, Moment, span};
use crate::durations::{Durations, ErrorType, Labels, Measured, Operation};
use crate::logging::Limiter;
use crate::methods::Forwarding;
use crate::otlp::{ClientSpan, ServerSpan, TracedCall, Tracer};
use crate::server::ServerHandle;

/// What is known of a call while it runs. Only tool calls are written to the history.
pub(super) struct CallRecord {
    began: Moment,
    /// The tool's name at the server; `None` if the request is no tool call.
    tool: Option<Arc<str>>,
    /// What it counts as; `None` for a part of another request.
    operation: Option<Operation>,
    request_bytes: usize,
    /// The spans and the arguments, if they are recorded. Boxed, because few calls have them.
    trace: Option<Box<TraceDetails>>,
}

struct TraceDetails {
    span: Span,
    exported: Option<ServerSpan>,
    arguments: Option<Box<str>>,
}

impl TraceDetails {
    fn none() -> Self {
        Self { span: Span::none(), exported: None, arguments: None }
    }
}

pub(super) struct CallRecorder {
    history: History,
    tracer: Tracer,
    warnings: Arc<Limiter>,
    durations: Durations,
    caller: Arc<Caller>,
    began: Moment,
}

impl CallRecord {
    #[inline]
    fn new(request: &ReceivedCall, tool: Option<Arc<str>>, operation: Option<Operation>, trace: TraceDetails) -> Self {
        let TraceDetails { span, exported, arguments } = &trace;
        let is_traced = !span.is_disabled() || exported.is_some() || arguments.is_some();
        let trace = is_traced.then(|| Box::new(trace));
        Self { began: request.received, tool, operation, request_bytes: request.line.len(), trace }
    }

    /// The exported span of the call at its server.
    #[inline]
    pub(super) fn client_span(&self) -> Option<Box<ClientSpan>> {
        let exported = self.trace.as_ref()?.exported.as_ref()?;
        Some(Box::new(exported.client(self.tool.as_ref()?)))
    }

    /// When its request was received, and the server's name of its tool. `None` if it is no tool call.
    pub(super) fn tool_call(&self) -> Option<(Moment, &Arc<str>)> {
        Some((self.began, self.tool.as_ref()?))
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
    pub(super) fn new(
        history: History,
        tracer: Tracer,
        warnings: Arc<Limiter>,
        durations: Durations,
        caller: Caller,
    ) -> Self {
        Self { history, tracer, warnings, durations, caller: Arc::new(caller), began: Moment::now() }
    }

    pub(super) fn set_client(&mut self, client: Option<String>) {
        self.caller = Arc::new(Caller { client, ..Caller::clone(&self.caller) });
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Begins the record of a request for `server`: of a call of `tool`, if that is given. `operation` is what it counts as.
    pub(super) fn begin(
        &self,
        request: &ReceivedCall,
        server: &Arc<str>,
        tool: Option<&Arc<str>>,
        operation: Option<Operation>,
        log_arguments: bool,
    ) -> CallRecord {
        let Some(tool) = tool else { return CallRecord::new(request, None, operation, TraceDetails::none()) };
        let arguments = if log_arguments { request.arguments() } else { None };
        let arguments = arguments.map(|raw| calls::cut_arguments(&raw));
        let trace = TraceDetails { arguments, ..self.open_spans(request, Some(server), tool) };
        CallRecord::new(request, Some(Arc::clone(tool)), operation, trace)
    }

    #[inline]
    fn open_spans(&self, request: &ReceivedCall, server: Option<&Arc<str>>, tool: &str) -> TraceDetails {
        let span =
            span::open(server.map(|server| &**server), tool, Some(self.caller.session), &request.id, &request.line);
        let exported = self.tracer.begin(&request.line, || TracedCall {
            caller: Arc::clone(&self.caller),
            server: server.cloned(),
            exposed: calls::unknown_tool(&request.exposed_name),
            id: calls::cut_request_id(&request.id).trim_matches('"').into(),
            received: request.received,
        });
        TraceDetails { span, exported, arguments: None }
    }

    /// Counts a request, and writes the record of a call. `server` is `None` if it reached none.
    pub(super) fn end(
        &self,
        record: CallRecord,
        server: Option<&ServerHandle>,
        outcome: CallOutcome,
        reply_bytes: usize,
    ) {
        let CallRecord { began, tool, operation, request_bytes, trace } = record;
        let ended = Moment::now();
        if let Some(operation) = operation {
            self.count(&operation, server, outcome, ended.since(began));
        }
        let Some(tool) = tool else { return };
        let arguments = trace.and_then(|trace| {
            let TraceDetails { span, exported, arguments } = *trace;
            if !span.is_disabled() {
                span::close(&span, outcome, ended.since(began));
            }
            if let Some(exported) = exported {
                exported.end(ended, outcome, reply_bytes);
            }
            arguments
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

    fn count(&self, operation: &Operation, server: Option<&ServerHandle>, outcome: CallOutcome, took: Duration) {
        let labels = Labels {
            server: server.map(ServerHandle::name),
            profile: Some(&self.caller.profile),
            ..Labels::of(operation, outcome)
        };
        self.durations.add(Measured::ServerOperation, labels, took);
    }

    /// Counts a request that mcpd answers.
    pub(super) fn count_own(&self, request: &OwnRequest, outcome: CallOutcome) {
        if let Some((method, received)) = request.measured() {
            self.count(&Operation::new(method, None), None, outcome, Moment::now().since(received));
        }
    }

    /// Counts the session of an agent with this protocol version.
    pub(super) fn count_session(&self, protocol: &'static str, has_failed: bool) {
        let labels = Labels {
            profile: Some(&self.caller.profile),
            protocol: Some(protocol),
            error: has_failed.then_some(ErrorType::Word("disconnected")),
            ..Labels::default()
        };
        self.durations.add(Measured::ServerSession, labels, Moment::now().since(self.began));
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
        let method = request.method.name;
        if request.forwarding != Forwarding::CallTool {
            let record = CallRecord::new(request, None, Some(Operation::new(method, None)), TraceDetails::none());
            return self.end(record, None, outcome, reply_bytes);
        }
        let tool = calls::unknown_tool(&request.exposed_name);
        let trace = self.open_spans(request, None, &tool);
        let record = CallRecord::new(request, Some(tool), Some(Operation::of_unlisted_tool(method)), trace);
        self.end(record, None, outcome, reply_bytes);
    }
}
