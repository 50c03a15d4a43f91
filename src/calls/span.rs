//! The tracing span of a call. Without a subscriber it costs one comparison, and no field is formatted.

use std::time::Duration;

use bytes::Bytes;
use tracing::{Span, field};

use super::report::milliseconds;
use super::trace::Parent;
use super::{CallOutcome, text};

/// Opens a span for the request `line` with this `id`. Span names are static, so exporters read `otel.name`.
#[inline]
pub(crate) fn open(server: Option<&str>, tool: &str, session: Option<u64>, id: &[u8], line: &Bytes) -> Span {
    let span = tracing::debug_span!(
        "mcp.call",
        otel.name = %format_args!("mcp.{}.{}", server.unwrap_or("-"), text::tool(tool)),
        session,
        request_id = %text::request_id(id),
        outcome = field::Empty,
        code = field::Empty,
        duration_ms = field::Empty,
        trace_id = field::Empty,
        parent_id = field::Empty,
    );
    if !span.is_disabled() {
        record_parent(&span, line);
    }
    span
}

/// Records the trace and parent span that the agent sent, if any.
fn record_parent(span: &Span, line: &Bytes) {
    if let Some(parent) = Parent::of(line) {
        span.record("trace_id", parent.trace_id());
        span.record("parent_id", parent.span_id());
    }
}

/// Records the outcome and logs one line.
pub(crate) fn close(span: &Span, outcome: CallOutcome, duration: Duration) {
    span.record("outcome", outcome.word());
    span.record("duration_ms", milliseconds(duration));
    if let Some(code) = outcome.code() {
        span.record("code", code);
    }
    span.in_scope(|| tracing::debug!("call ended"));
}
