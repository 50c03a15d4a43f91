//! Messages in the bodies of answers: read in bounded memory, and made lines.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime};

use crate::transport::Incoming;

/// What is larger is read one after another, in bytes: as many answers as a server may owe, all of the largest size, would be all
/// the memory there is.
pub(super) const LARGE: usize = 256 << 10;
/// So many of them at once.
pub(super) const TURNS: usize = 4;
/// Copied rather than kept within what it was read with, in bytes.
const SMALL: usize = 8 << 10;

/// Whose turn it is to be read on.
pub(super) type Turn = tokio::sync::Semaphore;

/// Most characters shown of a server's own words.
const MOST_SHOWN: usize = 200;

/// What a body is said to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    Other,
}

/// Why a body is of no use.
#[derive(Debug)]
pub(super) enum Unusable {
    TooLarge,
    Cut(String),
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

/// The whole of a body, if it has at most `max` bytes. Once it is large it is read on in its `turn`.
pub(super) async fn whole(response: &mut Response, max: usize, turn: &Turn) -> Result<Bytes, Unusable> {
    let cut = |error: reqwest::Error| Unusable::Cut(super::place::reason(&error));
    let fits = |length: usize| if length <= max { Ok(()) } else { Err(Unusable::TooLarge) };
    fits(response.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX)))?;
    let Some(first) = response.chunk().await.map_err(cut)? else { return Ok(Bytes::new()) };
    fits(first.len())?;
    let Some(second) = response.chunk().await.map_err(cut)? else { return Ok(by_itself(first)) };
    let (mut body, mut held) = (BytesMut::from(&first[..]), None);
    let mut next = Some(second);
    while let Some(chunk) = next {
        fits(body.len() + chunk.len())?;
        body.extend_from_slice(&chunk);
        if body.len() > LARGE && held.is_none() {
            held = Some(turn.acquire().await);
        }
        next = response.chunk().await.map_err(cut)?;
    }
    Ok(body.freeze())
}

/// A small part of what was read at once does not keep all of that in memory.
pub(super) fn by_itself(part: Bytes) -> Bytes {
    if part.len() <= SMALL { Bytes::copy_from_slice(&part) } else { part }
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
    let line = masked(line);
    let harmless = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    Some(harmless.take(MOST_SHOWN).collect())
}
