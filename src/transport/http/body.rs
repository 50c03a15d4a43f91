//! Contents of response bodies: messages, as lines, and error texts.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime};

use crate::net::client::Response;
use crate::printable::excerpt;
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
