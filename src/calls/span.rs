//! The tracing span of a call. Unless somebody listens it costs a comparison: no field is made.

use std::time::Duration;

use tracing::{Span, field};

use super::report::milliseconds;
use super::{Outcome, text};

/// Opens it. The name of a span is fixed when mcpd is built; `otel.name` is where exporters look for another one.
#[inline]
pub(crate) fn open(server: Option<&str>, tool: &str, session: Option<u64>, id: &[u8]) -> Span {
    tracing::debug_span!(
        "mcp.call",
        otel.name = %format_args!("mcp.{}.{}", server.unwrap_or("-"), text::tool(tool)),
        session,
        request_id = %text::request_id(id),
        outcome = field::Empty,
        code = field::Empty,
        duration_ms = field::Empty,
    )
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
