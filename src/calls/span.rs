//! The tracing span of a call, and the trace that it belongs to. Without a subscriber it costs one comparison, and no field is formatted.
//!
//! Source: MCP 2026-07-28, `basic`, "OpenTelemetry trace context"; W3C Trace Context, "traceparent Header". Agents of older
//! versions use the same member.

use std::time::Duration;

use bytes::Bytes;
use memchr::memmem;
use tracing::{Span, field};

use super::CallOutcome;
use super::report::milliseconds;
use crate::calls;
use crate::jsonrpc::members::{members, text};

/// Opens a span for the request `line` with this `id`. Span names are static, so exporters read `otel.name`.
#[inline]
pub(crate) fn open(server: Option<&str>, tool: &str, session: Option<u64>, id: &[u8], line: &Bytes) -> Span {
    let span = tracing::debug_span!(
        "mcp.call",
        otel.name = %format_args!("mcp.{}.{}", server.unwrap_or("-"), calls::cut_tool(tool)),
        session,
        request_id = %calls::cut_request_id(id),
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

/// The key of `_meta`.
const KEY: &str = "traceparent";
/// The length of a value of version 00. A later version may continue after a dash.
const LENGTH: usize = 55;

/// The span of an agent that a call belongs to.
#[derive(Debug, PartialEq)]
pub(crate) struct Parent {
    /// The member in the line.
    raw: Bytes,
    value: Bytes,
}

impl Parent {
    /// Reads `traceparent` from the `_meta` of the request `line`; `None` if absent or malformed.
    pub(crate) fn of(line: &Bytes) -> Option<Self> {
        // Most requests lack it, and no sender escapes its characters.
        memmem::find(line, KEY.as_bytes())?;
        let [params] = members(line, ["params"]).ok()?;
        let [meta] = members(&params?, ["_meta"]).ok()?;
        let [raw] = members(&meta?, [KEY]).ok()?;
        let raw = raw?;
        let value = text(&raw)?;
        is_well_formed(&value).then_some(Self { raw, value })
    }

    /// The member's value in the line, as raw JSON.
    pub(crate) fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Whether spans of the trace are recorded.
    pub(crate) fn is_sampled(&self) -> bool {
        self.flags() & 1 == 1
    }

    pub(crate) fn flags(&self) -> u8 {
        u8::from_str_radix(self.part(53..55), 16).unwrap_or_default()
    }

    /// The ids of the trace and of the span, which are not zero.
    pub(crate) fn ids(&self) -> [u128; 2] {
        [self.trace_id(), self.span_id()].map(|id| u128::from_str_radix(id, 16).unwrap_or_default())
    }

    /// 32 hexadecimal digits.
    fn trace_id(&self) -> &str {
        self.part(3..35)
    }

    /// 16 hexadecimal digits.
    fn span_id(&self) -> &str {
        self.part(36..52)
    }

    fn part(&self, range: std::ops::Range<usize>) -> &str {
        str::from_utf8(&self.value[range]).unwrap_or_default()
    }
}

fn is_well_formed(value: &[u8]) -> bool {
    let Some((value, rest)) = value.split_at_checked(LENGTH) else { return false };
    let mut parts = value.split(|byte| *byte == b'-');
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths = [2, 32, 16, 2];
    let is_known = match &value[..2] {
        b"00" => rest.is_empty(),
        b"ff" => false,
        _ => rest.first().is_none_or(|byte| *byte == b'-'),
    };
    let are_parts = lengths.iter().all(|length| parts.next().is_some_and(|part| part.len() == *length && is_hex(part)));
    // All zeros are invalid.
    let is_id = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    is_known && are_parts && is_id(&value[3..35]) && is_id(&value[36..52])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent(meta: &str) -> Option<(String, String)> {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","_meta":{meta}}}}}"#);
        Parent::of(&Bytes::from(line)).map(|parent| (parent.trace_id().to_owned(), parent.span_id().to_owned()))
    }

    #[test]
    fn trace_and_span_ids_are_read_from_traceparent() {
        for (version, end) in [("00", "-01"), ("00", "-00"), ("01", "-01"), ("cc", "-01-more")] {
            let meta = format!(r#"{{"traceparent":"{version}-{TRACE}-{SPAN}{end}"}}"#);
            assert_eq!(parent(&meta), Some((TRACE.to_owned(), SPAN.to_owned())), "{meta}");
        }
    }

    #[test]
    fn malformed_traceparent_is_ignored() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for value in [
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}{SPAN}--01"),
            format!("00-{TRACE}-{SPAN}"),
            String::new(),
        ] {
            assert_eq!(parent(&format!(r#"{{"traceparent":"{value}"}}"#)), None, "{value}");
        }
        for meta in [r#"{"traceparent":7}"#, r#"{"traceparent":null}"#, r#"["traceparent"]"#, "{}"] {
            assert_eq!(parent(meta), None, "{meta}");
        }
    }
}
