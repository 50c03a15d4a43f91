//! The tracing span of a call. Unless somebody listens it costs a comparison: no field is made.

use std::time::Duration;

use bytes::Bytes;
use tracing::{Span, field};

use super::report::milliseconds;
use super::trace::Parent;
use super::{Outcome, text};

/// Opens it for the request `line` with this `id`. The name of a span is fixed when mcpd is built; `otel.name` is where
/// exporters look for another one.
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
        note_parent(&span, line);
    }
    span
}

/// Notes of which trace it is a part, if the agent says so, and in which span of that.
fn note_parent(span: &Span, line: &Bytes) {
    if let Some(parent) = Parent::of(line) {
        span.record("trace_id", parent.trace_id());
        span.record("parent_id", parent.span_id());
    }
}

/// Notes how it ended, and says so in one line.
pub(crate) fn close(span: &Span, outcome: Outcome, duration: Duration) {
    span.record("outcome", outcome.word());
    span.record("duration_ms", milliseconds(duration));
    if let Some(code) = outcome.code() {
        span.record("code", code);
    }
    span.in_scope(|| tracing::debug!("call ended"));
}
