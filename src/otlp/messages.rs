//! The messages of OTLP that spans need, and the attributes of a span.
//!
//! Sources: github.com/open-telemetry/opentelemetry-proto, `trace/v1/trace.proto`, `common/v1/common.proto`;
//! github.com/open-telemetry/semantic-conventions-genai, `docs/gen-ai/mcp.md`. Names that begin with `mcpd.` are mcpd's own.

use std::borrow::Cow;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use prost::Message;

use super::span::{Side, Span, TracedCall};
use crate::calls::CallOutcome;
use crate::clock::{Moment, WallClockAnchor};

/// The one method that has spans.
const METHOD: &str = "tools/call";

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(enumeration = "SpanKind", tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum SpanKind {
    Unspecified = 0,
    Server = 2,
    Client = 3,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(enumeration = "StatusCode", tag = "3")]
    code: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum StatusCode {
    Unset = 0,
    Error = 2,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The attributes of one object.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn text(mut self, key: &str, text: impl Into<String>) -> Self {
        self.push(key, Value::Text(text.into()));
        self
    }

    fn optional_text(self, key: &str, text: Option<impl Into<String>>) -> Self {
        match text {
            Some(text) => self.text(key, text),
            None => self,
        }
    }

    fn number(mut self, key: &str, number: impl TryInto<i64>) -> Self {
        self.push(key, Value::Number(number.try_into().unwrap_or(i64::MAX)));
        self
    }

    fn push(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) });
    }
}

/// The request to the collector with these spans, whose times are relative to `anchor`.
pub(super) fn encode(spans: &[Span], anchor: WallClockAnchor) -> Bytes {
    let (name, version) = ("mcpd", env!("CARGO_PKG_VERSION"));
    let attributes = Attributes::default()
        .text("service.name", name)
        .text("service.version", version)
        .number("process.pid", std::process::id());
    let scope = InstrumentationScope { name: name.to_owned(), version: version.to_owned() };
    let spans = spans.iter().map(|span| message(span, anchor)).collect();
    let resource_spans = vec![ResourceSpans {
        resource: Some(Resource { attributes: attributes.0 }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
    }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec().into()
}

/// Stands for the name of a tool that the agent does not have.
const UNKNOWN: &str = "_OTHER";

fn message(span: &Span, anchor: WallClockAnchor) -> SpanMessage {
    let Span { context, side, call, began, ended, outcome, .. } = span;
    let (kind, tool) = match side {
        Side::Server => (SpanKind::Server, &call.exposed),
        Side::Client { tool, .. } => (SpanKind::Client, tool),
    };
    // The name of an unknown tool is any text of the agent.
    let name = if call.server.is_some() { format!("{METHOD} {tool}") } else { METHOD.to_owned() };
    let status = error_type(*outcome).map(|_| Status { code: StatusCode::Error.into() });
    SpanMessage {
        trace_id: context.trace.to_be_bytes().into(),
        span_id: context.id.to_be_bytes().into(),
        parent_span_id: context.parent.map_or_else(Vec::new, |parent| parent.to_be_bytes().into()),
        name,
        kind: kind.into(),
        start_time_unix_nano: unix_nanoseconds(*began, anchor),
        end_time_unix_nano: unix_nanoseconds(*ended, anchor),
        attributes: attributes(span, tool),
        status,
        flags: context.flags.into(),
    }
}

fn attributes(Span { side, call, outcome, request_bytes, reply_bytes, .. }: &Span, tool: &str) -> Vec<KeyValue> {
    let TracedCall { caller, server, id, .. } = &**call;
    let id = match side {
        Side::Server => Some(id.to_string()),
        Side::Client { id, .. } => id.map(|id| id.to_string()),
    };
    let attributes = Attributes::default()
        .text("mcp.method.name", METHOD)
        .text("gen_ai.operation.name", "execute_tool")
        .text("gen_ai.tool.name", if server.is_some() { tool } else { UNKNOWN })
        .optional_text("jsonrpc.request.id", id)
        .optional_text("error.type", error_type(*outcome))
        .optional_text("rpc.response.status_code", outcome.code().map(|code| code.to_string()))
        .optional_text("mcpd.server", server.as_deref())
        .text("mcpd.profile", &*caller.profile)
        .optional_text("mcpd.client", caller.client.as_deref())
        .number("mcpd.session", caller.session)
        .text("mcpd.outcome", outcome.word())
        .number("mcpd.request.size", *request_bytes)
        .number("mcpd.response.size", *reply_bytes);
    attributes.0
}

/// The value of `error.type`; `None` for a success.
fn error_type(outcome: CallOutcome) -> Option<Cow<'static, str>> {
    match outcome {
        CallOutcome::Ok => None,
        CallOutcome::Error { code: Some(code) } => Some(code.to_string().into()),
        CallOutcome::Error { code: None } => Some("_OTHER".into()),
        other => Some(other.word().into()),
    }
}

fn unix_nanoseconds(moment: Moment, anchor: WallClockAnchor) -> u64 {
    let since = anchor.time_of(moment).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
