//! Responses to requests over HTTP: errors with their status, one message of JSON, or an event stream.

use std::future::poll_fn;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue,
    RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tokio::time::timeout;

use super::body::{EventStream, KEEP_ALIVE, ResponseBody};
use super::checks::{self, Refusal};
use super::hub::{Event, Reader};
use super::stream::Message;
use crate::era::request_meta::MetaError;
use crate::era::{HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION};
use crate::jsonrpc::MessageError;
use crate::jsonrpc::error_in;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The headers that a page may send: any, because tools require headers of their own. `*` does not include `Authorization`.
const PAGE_HEADERS: &str = "authorization, *";

pub(super) type Reply = Response<ResponseBody>;

/// Why a request gets an error.
pub(super) enum Failure {
    Refused(Refusal),
    /// With the id of the request, if it was read.
    Error(StatusCode, Option<Bytes>, ErrorObject),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Failure {
    /// A request was lost with its session. In the legacy era, the status makes the client open a new session.
    pub(super) fn session_ended(id: Option<Bytes>, delivery: Delivery, is_legacy: bool) -> Self {
        let error = ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "the session has ended", delivery);
        Self::Error(if is_legacy { StatusCode::NOT_FOUND } else { StatusCode::SERVICE_UNAVAILABLE }, id, error)
    }

    pub(super) fn stopping() -> Self {
        let error = ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "mcpd is being stopped", Delivery::NotSent);
        Self::Error(StatusCode::SERVICE_UNAVAILABLE, None, error.by_stopping_daemon())
    }

    pub(super) fn into_reply(self) -> Reply {
        let (refusal, status, id, error) = match self {
            Self::Refused(refusal) => {
                (Some(refusal), refusal.status(), None, ErrorObject::new(INVALID_REQUEST, refusal.to_string()))
            }
            Self::Error(status, id, error) => (None, status, id, error),
        };
        let mut reply = whole(status, [reply::error(id.as_deref(), &error)]);
        let headers = reply.headers_mut();
        match refusal {
            Some(Refusal::Method { allowed }) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Some(Refusal::Unauthorized) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        reply
    }
}

/// What a stream begins with.
pub(super) enum First {
    Message(Event),
    /// It has ended without a message.
    End,
    /// There was none for [`KEEP_ALIVE`].
    Silence,
}

impl First {
    pub(super) async fn of(reader: &Reader) -> Self {
        match timeout(KEEP_ALIVE, poll_fn(|cx| reader.poll_next(cx))).await {
            Ok(Some(event)) => Self::Message(event),
            Ok(None) => Self::End,
            Err(_) => Self::Silence,
        }
    }
}

/// The form of a response that a client can read.
#[derive(Clone, Copy, Default)]
pub(super) struct Form {
    /// As an event stream, even if nothing precedes the response.
    pub(super) prefers_events: bool,
    /// An event without data may come first.
    pub(super) is_primed: bool,
}

/// The response to a message: one message of JSON, or an event stream if something precedes the response.
pub(super) fn begun(reader: Reader, first: First, Form { prefers_events, is_primed }: Form) -> Reply {
    match first {
        First::Message(Event { message: Message { parts, is_response: true }, .. }) if !prefers_events => {
            whole(StatusCode::OK, parts)
        }
        First::Message(event) => events(EventStream::new(reader, Some(event), is_primed)),
        First::Silence => events(EventStream::new(reader, None, is_primed)),
        First::End => match reader.lost_request() {
            Some((id, delivery)) => Failure::session_ended(Some(id), delivery, reader.is_legacy()).into_reply(),
            None if reader.is_of_request() => events(EventStream::new(reader, None, false)),
            None => empty(StatusCode::ACCEPTED),
        },
    }
}

pub(super) fn malformed(error: MessageError) -> Failure {
    let (code, why, id) = match error {
        MessageError::NotJson => (PARSE_ERROR, "not JSON", None),
        MessageError::Batch => (INVALID_REQUEST, "batches are not supported", None),
        MessageError::NotAMessage { id } => (INVALID_REQUEST, "not a JSON-RPC 2.0 message", id),
        MessageError::BadResponse { .. } | MessageError::StrayResponse { .. } => {
            (INVALID_REQUEST, "no valid response", None)
        }
    };
    Failure::Error(StatusCode::BAD_REQUEST, id, ErrorObject::new(code, why))
}

pub(super) fn unsupported(id: Option<Bytes>, headers: &HeaderMap) -> Failure {
    let requested = headers.get(checks::VERSION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let requested = requested.map(|version| crate::printable::excerpt(&version, 64)).unwrap_or_default();
    Failure::Error(StatusCode::BAD_REQUEST, id, MetaError::Version(requested).to_object())
}

/// The code of an error response.
pub(super) fn error_code(parts: &[Bytes]) -> Option<i32> {
    let [line] = parts else { return None };
    memchr::memmem::find(line, b"\"error\"")?;
    let [code] = members(&error_in(line)?, ["code"]).ok()?;
    str::from_utf8(&code?).ok()?.parse().ok()
}

/// The status of an error of the modern era. Source: MCP 2026-07-28, `basic/transports/streamable-http`.
pub(super) fn status_of(code: i32, is_complete: bool) -> StatusCode {
    match code {
        HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION | INVALID_REQUEST | PARSE_ERROR => {
            StatusCode::BAD_REQUEST
        }
        INVALID_PARAMS if !is_complete => StatusCode::BAD_REQUEST,
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// What pages of listed origins may send.
pub(super) fn preflight() -> Reply {
    let mut reply = empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(PAGE_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

/// Lets a page of this listed origin read the response.
pub(super) fn allow_origin(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
    headers.insert(VARY, HeaderValue::from_static("origin"));
}

fn with_body(status: StatusCode, body: ResponseBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

pub(super) fn empty(status: StatusCode) -> Reply {
    with_body(status, ResponseBody::empty())
}

pub(super) fn whole(status: StatusCode, parts: impl IntoIterator<Item = Bytes>) -> Reply {
    let mut reply = with_body(status, ResponseBody::whole(parts));
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

/// A text of this media type.
pub(super) fn text(content_type: &'static str, body: String) -> Reply {
    let mut reply = with_body(StatusCode::OK, ResponseBody::whole([body.into()]));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

pub(super) fn events(stream: Box<EventStream>) -> Reply {
    let mut reply = with_body(StatusCode::OK, ResponseBody::Events(stream));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    reply
}
