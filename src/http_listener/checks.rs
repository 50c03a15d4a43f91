//! Whether a request over HTTP may be served, by its path and headers. Pure.

use std::sync::Arc;

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use http::{StatusCode, Uri};

use crate::era;

/// The legacy session of a request.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static(era::VERSION_HEADER);
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// All servers of the profile.
    Aggregate,
    /// The face of one server.
    Face(Arc<str>),
    Health,
    Metrics,
}

impl Target {
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        match uri.path() {
            "/mcp" => Some(Self::Aggregate),
            "/healthz" => Some(Self::Health),
            "/metrics" => Some(Self::Metrics),
            path => {
                let name = path.strip_prefix("/servers/").filter(|name| !name.is_empty() && !name.contains('/'))?;
                Some(Self::Face(name.into()))
            }
        }
    }

    pub(super) fn face(&self) -> Option<&Arc<str>> {
        match self {
            Self::Face(server) => Some(server),
            Self::Aggregate | Self::Health | Self::Metrics => None,
        }
    }
}

/// Why a request is refused before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("header `Host` does not name this machine: use localhost, 127.0.0.1 or [::1]")]
    ForeignHost,
    #[error("the origin of this page is not in `http_origins` of the profile")]
    ForeignOrigin,
    #[error("header `Authorization` has to be `Bearer TOKEN`; `mcpd token` prints the token")]
    Unauthorized,
    #[error("no such path: use /mcp, /servers/NAME or /healthz")]
    UnknownPath,
    #[error("the method has to be one of: {allowed}")]
    Method { allowed: &'static str },
    #[error("header `Accept` has to list application/json and text/event-stream")]
    NotAcceptable,
    #[error("header `Accept` has to list text/event-stream")]
    NoEventsAccepted,
    #[error("the body has to be application/json without content coding")]
    MediaType,
    #[error("header `MCP-Protocol-Version` is repeated, or names a version that mcpd does not support")]
    Version,
    #[error("header `Mcp-Session-Id` is missing: send `initialize` first, or use MCP 2026-07-28")]
    NoSession,
    #[error("the session has ended, or never existed: send `initialize` without `Mcp-Session-Id`")]
    UnknownSession,
    #[error("the event of `Last-Event-ID` is unknown, or is not kept any more")]
    UnknownEvent,
    #[error("the sender paused too long within a body")]
    Slow,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::ForeignHost | Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::UnknownPath | Self::UnknownSession => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable | Self::NoEventsAccepted => StatusCode::NOT_ACCEPTABLE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Version | Self::NoSession | Self::UnknownEvent => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

/// The only value of a header. `Err` if it is repeated or no text.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Checks that the request is for this machine, and comes from no foreign page (DNS rebinding). A page of the same origin and those of
/// `origins` may send requests.
pub(super) fn check_sender(headers: &HeaderMap, uri: &Uri, origins: &[String]) -> Result<(), Refusal> {
    let host = only(headers, &HOST).map_err(|()| Refusal::ForeignHost)?;
    let host = uri.authority().map(http::uri::Authority::as_str).or(host).ok_or(Refusal::ForeignHost)?;
    if !is_local(host) {
        return Err(Refusal::ForeignHost);
    }
    match only(headers, &ORIGIN) {
        Ok(None) => Ok(()),
        Ok(Some(origin)) if origin.strip_prefix("http://") == Some(host) => Ok(()),
        Ok(Some(origin)) if origins.iter().any(|listed| listed == origin) => Ok(()),
        _ => Err(Refusal::ForeignOrigin),
    }
}

/// The token of a request, if it has one.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, &AUTHORIZATION).ok().flatten()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The origin of a request, if it is listed.
pub(super) fn listed_origin<'h>(headers: &'h HeaderMap, origins: &[String]) -> Option<&'h HeaderValue> {
    headers.get(ORIGIN).filter(|origin| origins.iter().any(|listed| listed.as_bytes() == origin.as_bytes()))
}

/// Whether a host, perhaps with a port, is this machine. A program at a Unix socket may have no host.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// The media ranges of `Accept`, without their parameters.
pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|range| range.split(';').next().unwrap_or_default().trim())
}

fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let (of_type, _) = media.split_once('/').unwrap_or_default();
    accepted(headers).any(|range| {
        range.eq_ignore_ascii_case(media)
            || range == "*/*"
            || range.strip_suffix("/*").is_some_and(|found| found.eq_ignore_ascii_case(of_type))
    })
}

/// Whether the client lists event streams before JSON, and so prefers them.
pub(super) fn prefers_events(headers: &HeaderMap) -> bool {
    let position = |media: &str| accepted(headers).position(|range| range.eq_ignore_ascii_case(media));
    matches!((position("text/event-stream"), position("application/json")), (Some(events), Some(json)) if events < json)
}

pub(super) fn check_post(headers: &HeaderMap) -> Result<(), Refusal> {
    let content_type = only(headers, &CONTENT_TYPE).ok().flatten().unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") || headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::MediaType);
    }
    if accepts(headers, "application/json") && accepts(headers, "text/event-stream") {
        Ok(())
    } else {
        Err(Refusal::NotAcceptable)
    }
}

pub(super) fn check_get(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, "text/event-stream") { Ok(()) } else { Err(Refusal::NoEventsAccepted) }
}

/// The version in the headers, if they have one.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&'static str>, Refusal> {
    match only(headers, &VERSION) {
        Ok(None) => Ok(None),
        Ok(Some(version)) => era::supported(version.trim()).map(Some).ok_or(Refusal::Version),
        Err(()) => Err(Refusal::Version),
    }
}

/// The id of the session, if the headers have one.
pub(super) fn session_id(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    only(headers, &SESSION_ID).map_err(|()| Refusal::UnknownSession)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn only_this_machine_and_listed_origins_may_send() {
        let foreign = "http://evil.example.com";
        for (pairs, expected) in [
            (&[("host", "localhost")][..], Ok(())),
            (&[("host", "LOCALHOST:7780")], Ok(())),
            (&[("host", "127.0.0.1:1")], Ok(())),
            (&[("host", "[::1]")], Ok(())),
            (&[("host", "[::1]:7780")], Ok(())),
            (&[("host", "")], Ok(())),
            (&[], Err(Refusal::ForeignHost)),
            (&[("host", "evil.example.com")], Err(Refusal::ForeignHost)),
            (&[("host", "localhost.evil.example.com")], Err(Refusal::ForeignHost)),
            (&[("host", "127.0.0.1.evil.example.com:80")], Err(Refusal::ForeignHost)),
            (&[("host", "127.0.0.2")], Err(Refusal::ForeignHost)),
            (&[("host", "localhost"), ("host", "localhost")], Err(Refusal::ForeignHost)),
            (&[("host", "localhost"), ("origin", foreign)], Err(Refusal::ForeignOrigin)),
            (&[("host", "localhost:1"), ("origin", "http://localhost:2")], Err(Refusal::ForeignOrigin)),
            (&[("host", "localhost:1"), ("origin", "null")], Err(Refusal::ForeignOrigin)),
            (&[("host", "localhost:1"), ("origin", "http://localhost:1")], Ok(())),
            (&[("host", "localhost:1"), ("origin", "https://ui.example.com")], Ok(())),
            (&[("host", "localhost:1"), ("origin", "https://ui.example.com.evil")], Err(Refusal::ForeignOrigin)),
        ] {
            let origins = ["https://ui.example.com".to_owned()];
            assert_eq!(check_sender(&headers(pairs), &Uri::from_static("/mcp"), &origins), expected, "{pairs:?}");
        }
        let absolute = Uri::from_static("http://evil.example.com/mcp");
        assert_eq!(check_sender(&headers(&[("host", "localhost")]), &absolute, &[]), Err(Refusal::ForeignHost));
    }

    #[test]
    fn post_needs_json_and_accepts_both_forms_of_responses() {
        let both = "application/json, text/event-stream";
        for (content_type, accept, expected) in [
            ("application/json", both, Ok(())),
            ("Application/JSON; charset=utf-8", "text/event-stream;q=0.5,application/json;q=1", Ok(())),
            ("application/json", "*/*", Ok(())),
            ("application/json", "application/*, text/*", Ok(())),
            ("application/json", "application/json", Err(Refusal::NotAcceptable)),
            ("application/json", "text/event-stream", Err(Refusal::NotAcceptable)),
            ("application/json", "", Err(Refusal::NotAcceptable)),
            ("text/plain", both, Err(Refusal::MediaType)),
            ("", both, Err(Refusal::MediaType)),
        ] {
            let found = check_post(&headers(&[("content-type", content_type), ("accept", accept)]));
            assert_eq!(found, expected, "{content_type} {accept}");
        }
        let preferred = |accept| prefers_events(&headers(&[("accept", accept)]));
        assert!(preferred("text/event-stream, application/json") && preferred("Text/Event-Stream, application/json"));
        assert!(!preferred(both) && !preferred("*/*") && !preferred("text/event-stream, */*"));
        let coded = headers(&[("content-type", "application/json"), ("content-encoding", "gzip"), ("accept", both)]);
        assert_eq!(check_post(&coded), Err(Refusal::MediaType));
    }

    #[test]
    fn paths_name_all_servers_or_one() {
        for (path, expected) in [
            ("/mcp", Some(Target::Aggregate)),
            ("/mcp?x=1", Some(Target::Aggregate)),
            ("/healthz", Some(Target::Health)),
            ("/servers/git", Some(Target::Face("git".into()))),
            ("/servers/", None),
            ("/servers/a/b", None),
            ("/mcp/", None),
            ("/", None),
        ] {
            assert_eq!(Target::of(&path.parse().expect("a path")), expected, "{path}");
        }
    }
}
