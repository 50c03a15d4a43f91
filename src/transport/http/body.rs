//! Contents of response bodies: messages, as lines, an open `text/event-stream`, and error texts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::body;
use super::event_queue::EventSender;
use super::sse_parser::{SseEvent, SseParser};
use crate::jsonrpc::Message;
use crate::net::body::{LARGE, LargeBodySlots};
use crate::net::client::Response;
use crate::printable::excerpt;
use crate::tap::{Direction, TapPoint};
use crate::transport::Incoming;

/// Longest quote of a server's text, in characters.
const MAX_QUOTE_LEN: usize = 200;

/// The content type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    Other,
}

impl Content {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let media = media_type_of(headers);
        if media.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if media.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else {
            Self::Other
        }
    }
}

fn media_type_of(headers: &HeaderMap) -> &[u8] {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
    content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// The media type for a person; `none` without one.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    match media_type_of(headers) {
        [] => "none".to_owned(),
        name => excerpt(&String::from_utf8_lossy(name), MAX_QUOTE_LEN),
    }
}

/// Whether it is a successful event stream.
pub(super) fn is_stream(answer: &Response) -> bool {
    answer.status().is_success() && Content::of(answer.headers()) == Content::Events
}

/// The message in a body or event; `None` if it is blank.
pub(super) async fn read_message(text: Bytes, tap: &TapPoint) -> Option<Incoming> {
    tap.note(Direction::From, &text);
    parse_message(text).await
}

/// As [`read_message`], for a text that is noted already.
pub(super) async fn parse_message(text: Bytes) -> Option<Incoming> {
    let text = trimmed(text);
    if text.is_empty() { None } else { Some(Incoming::of_any_size(text, one_line).await) }
}

fn trimmed(text: Bytes) -> Bytes {
    let start = text.len() - text.trim_ascii_start().len();
    let end = start + text.trim_ascii().len();
    text.slice(start..end)
}

/// Puts JSON on one line: line breaks become spaces. Text that is not JSON stays as it is.
pub(crate) fn one_line(text: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_none() || serde_json::from_slice::<&RawValue>(&text).is_err() {
        return text;
    }
    let mut line = BytesMut::from(&text[..]);
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.freeze()
}

/// The delay that a server requests. Source: RFC 9110, 10.2.3.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

/// The error text in a body that is no message: the message of a JSON error, or the first line. `masked` removes
/// secrets.
pub(super) fn error_text(body: &[u8], masked: impl FnOnce(&str) -> String) -> Option<String> {
    let value = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = value.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        [error.get("message"), value.get("error_description"), value.get("message"), Some(error)]
            .into_iter()
            .flatten()
            .find_map(serde_json::Value::as_str)
    });
    let text = String::from_utf8_lossy(body);
    let is_page = text.trim_start().starts_with('<');
    let line = message.or_else(|| text.lines().map(str::trim).find(|line| !line.is_empty()).filter(|_| !is_page))?;
    // Masked before it is shortened, since a part of a secret is a secret.
    Some(excerpt(&masked(line), MAX_QUOTE_LEN))
}

/// An open stream.
pub(super) struct SseStream {
    response: Response,
    parser: SseParser,
    body_slots: Arc<LargeBodySlots>,
    tap: TapPoint,
    /// Set while a large event is incomplete.
    permit: Option<OwnedSemaphorePermit>,
}

/// The next item of a stream.
#[derive(Debug)]
pub(super) enum StreamItem {
    Message(Incoming),
    /// The URL for messages (MCP 2024-11-05, `basic/transports`, "HTTP with SSE").
    Endpoint(Bytes),
    /// An event over the message cap.
    TooLarge,
}

impl SseStream {
    pub(super) fn new(response: Response, max: usize, sender: &EventSender) -> Self {
        Self::of(response, SseParser::new(max), sender)
    }

    /// A stream that resumes an interrupted one.
    pub(super) fn resumed(response: Response, max: usize, last: &HeaderValue, sender: &EventSender) -> Self {
        Self::of(response, SseParser::resumed(max, last.as_bytes()), sender)
    }

    fn of(mut response: Response, parser: SseParser, sender: &EventSender) -> Self {
        response.drop_headers();
        let (body_slots, tap) = (Arc::clone(sender.body_slots()), sender.tap().clone());
        Self { response, parser, body_slots, tap, permit: None }
    }

    /// The next item; `None` once the stream has ended for any reason.
    pub(super) async fn next(&mut self) -> Option<StreamItem> {
        loop {
            while let Some(event) = self.parser.pop() {
                match event {
                    SseEvent::TooLarge => return Some(StreamItem::TooLarge),
                    SseEvent::Data { name, data } if name[..] == *b"endpoint" && !data.starts_with(b"{") => {
                        return Some(StreamItem::Endpoint(data));
                    }
                    SseEvent::Data { name, data } if name.is_empty() || name[..] == *b"message" => {
                        // An event without data only sets the resume id.
                        if let Some(incoming) = body::read_message(data, &self.tap).await {
                            return Some(StreamItem::Message(incoming));
                        }
                    }
                    // MCP does not define the name, but what answers a request is its response.
                    SseEvent::Data { data, .. } => {
                        if let Some(incoming @ Incoming::Message { message: Message::Response { .. }, .. }) =
                            body::read_message(data, &self.tap).await
                        {
                            return Some(StreamItem::Message(incoming));
                        }
                    }
                }
            }
            if self.parser.buffered() <= LARGE {
                self.permit = None;
            } else if self.permit.is_none() {
                // The semaphore is never closed.
                self.permit = Arc::clone(&self.body_slots).acquire_owned().await.ok();
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.parser.read(chunk);
        }
    }

    /// The event id from which the stream can be resumed.
    pub(super) fn last_id(&self) -> Option<HeaderValue> {
        self.parser.last_id().and_then(|id| HeaderValue::from_bytes(id).ok())
    }

    /// The reconnect delay that the server requested.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.parser.retry()
    }
}
