//! What is in the bodies of answers: messages, made lines, and complaints.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime};

use crate::net::client::Answer;
use crate::printable::excerpt;
use crate::transport::Incoming;

/// Most characters shown of a server's own words.
const MOST_SHOWN: usize = 200;

/// What a body is said to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    Other,
}

impl Content {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let said = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
        let media = said.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if media.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if media.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else {
            Self::Other
        }
    }
}

/// Whether it is a stream that was asked for.
pub(super) fn is_stream(answer: &Answer) -> bool {
    answer.status().is_success() && Content::of(answer.headers()) == Content::Events
}

/// What a body or an event says; `None` if it is blank.
pub(super) async fn message(text: Bytes) -> Option<Incoming> {
    let text = trimmed(text);
    if text.is_empty() { None } else { Some(Incoming::of_any_size(text, one_line).await) }
}

fn trimmed(text: Bytes) -> Bytes {
    let start = text.len() - text.trim_ascii_start().len();
    let end = start + text.trim_ascii().len();
    text.slice(start..end)
}

/// JSON over several lines as one, as agents get it: what stands between its lines becomes spaces. What is no JSON stays as it is.
fn one_line(text: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_none() || serde_json::from_slice::<&RawValue>(&text).is_err() {
        return text;
    }
    let mut line = BytesMut::from(&text[..]);
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.freeze()
}

/// How long a server wants to be left alone. Source: RFC 9110, 10.2.3.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = said.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(said).ok()?;
    Some(until.duration_since(SystemTime::now()).unwrap_or_default())
}

/// What a body that is no message says, for a person: the message of an error in it, or its first line, without what `masked` takes
/// out.
pub(super) fn complaint(body: &[u8], masked: impl FnOnce(&str) -> String) -> Option<String> {
    let value = serde_json::from_slice::<serde_json::Value>(body).ok();
    let told = value.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        [error.get("message"), value.get("error_description"), value.get("message"), Some(error)]
            .into_iter()
            .flatten()
            .find_map(serde_json::Value::as_str)
    });
    let text = String::from_utf8_lossy(body);
    let is_page = text.trim_start().starts_with('<');
    let line = told.or_else(|| text.lines().map(str::trim).find(|line| !line.is_empty()).filter(|_| !is_page))?;
    // Before it is cut: part of a secret is one, too.
    Some(excerpt(&masked(line), MOST_SHOWN))
}
