//! One message to the server, and its response: a body, a stream, or an error. An interrupted stream is requested again.
//!
//! Source: MCP 2025-11-25, `basic/transports`, "Sending Messages to the Server", "Resumability and Redelivery".

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::AbortHandle;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::body::{self, Content, SseStream, StreamItem};
use super::endpoint::{EndpointError, SESSION};
use super::event_queue::{EventSender, Ownership, Source, TransportEvent};
use super::{Disconnect, HeaderParams, RequestError, modern};
use crate::backoff::Backoff;
use crate::era::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::{MessageError, reply};
use crate::message_limit::buffer_unit;
use crate::net::body::{BodyError, read_whole};
use crate::net::client::Response;
use crate::tap::Direction;
use crate::transport::Incoming;
use crate::transport::reader::INLINE;

/// How long a stream may stay open after its response, which should end it.
const LINGER: Duration = Duration::from_secs(1);
/// Limit for a server to accept a message without a response. After an HTTP session has ended, nothing may accept it.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest error body that is read, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The exchange of one message.
pub(super) struct Exchange {
    pub(super) sender: EventSender,
    /// The request's id; `None` for other messages.
    pub(super) request: Option<u64>,
    /// Message cap, in bytes.
    pub(super) max: usize,
    pub(super) mode: SendMode,
    /// The request was cancelled.
    pub(super) is_cancelled: Arc<AtomicBool>,
}

/// How a message is sent.
#[derive(Debug)]
pub(super) enum SendMode {
    /// It opens an HTTP session, so an interrupted response cannot be resumed.
    First,
    /// Within an HTTP session. An interrupted response is resumed.
    Later,
    /// By itself, with some of its params in headers.
    Modern(Arc<HeaderParams>),
}

impl Exchange {
    /// Sends the message, and reports all events until it ends.
    pub(super) async fn run(self, line: Bytes) {
        let end = match self.send(&line).await {
            Ok(()) => TransportEvent::Completed,
            Err(error) => TransportEvent::RequestFailed(error),
        };
        self.sender.send(end).await;
    }

    /// Sends a message that expects no response here, and reports whether it was accepted.
    pub(super) async fn post(self, line: Bytes) {
        let end = match timeout(ACCEPT_TIMEOUT, self.send(&line)).await {
            Ok(Ok(())) => TransportEvent::Completed,
            Ok(Err(error)) => TransportEvent::RequestFailed(error),
            Err(_) => TransportEvent::RequestFailed(RequestError::Interrupted {
                reason: "did not accept the message".to_owned().into(),
            }),
        };
        self.sender.send(end).await;
    }

    /// Returns when the request is answered. Another message is done once it was sent.
    async fn send(&self, line: &Bytes) -> Result<(), RequestError> {
        let endpoint = self.sender.endpoint();
        let headers = self.headers(line).await.map_err(|modern::HeadersTooLarge| {
            let reason = "the headers that its tool requires exceed 8 KiB".to_owned();
            RequestError::NotSent { reason: reason.into() }
        })?;
        let (mut response, update) = match endpoint.post(line, headers).await {
            Ok(response) => response,
            Err(EndpointError::NotSent(reason)) => return Err(RequestError::NotSent { reason }),
            Err(EndpointError::Unprocessed(reason)) => return Err(RequestError::Unprocessed { reason }),
            Err(EndpointError::Interrupted(reason)) => {
                return Err(RequestError::Interrupted { reason: reason.prefixed("closed the connection: ") });
            }
            Err(EndpointError::LoginNeeded(why)) => {
                self.sender.send(TransportEvent::Disconnected(Disconnect::LoginNeeded { why: why.clone() })).await;
                return Err(RequestError::LoginNeeded { why });
            }
            // Other requests may still be permitted.
            Err(EndpointError::InsufficientScope(why)) => return Err(RequestError::LoginNeeded { why }),
        };
        self.sender.send_update(update).await;
        let status = response.status();
        if let Some(session) = response.headers().get(SESSION).filter(|_| status.is_success()) {
            self.sender.send(TransportEvent::Session(session.clone())).await;
        }
        if !status.is_success() {
            return self.handle_error_status(response, endpoint.has_http_session()).await;
        }
        if let (Some(coding), Some(_)) = (response.unknown_coding(), self.request) {
            return Err(RequestError::UnknownCoding { coding: coding.to_owned() });
        }
        match (Content::of(response.headers()), self.request) {
            (Content::Events, Some(_)) => self.follow(SseStream::new(response, self.max, &self.sender)).await,
            (_, None) => {
                // Read to its end, so that the connection can be reused.
                let _ = timeout(LINGER, read_whole(&mut response, MAX_ERROR_BODY, self.sender.body_slots())).await;
                Ok(())
            }
            (Content::Json, Some(_)) => {
                let text =
                    read_whole(&mut response, self.max, self.sender.body_slots()).await.map_err(
                        |error| match error {
                            BodyError::TooLarge => RequestError::TooLarge,
                            BodyError::Interrupted(reason) => RequestError::Interrupted {
                                reason: format!("interrupted its response: {reason}").into(),
                            },
                        },
                    )?;
                let incoming = body::read_message(text, self.sender.tap())
                    .await
                    .ok_or(RequestError::NoResponse { media_type: None })?;
                if self.pass(incoming, Ownership::OfRequest).await {
                    Ok(())
                } else {
                    Err(RequestError::NoResponse { media_type: None })
                }
            }
            (Content::Other, Some(_)) => {
                Err(RequestError::NoResponse { media_type: Some(body::media_type(response.headers())) })
            }
        }
    }

    /// The headers of the message. A large message is parsed on a helper thread.
    async fn headers(&self, line: &Bytes) -> Result<HeaderMap, modern::HeadersTooLarge> {
        let SendMode::Modern(header_params) = &self.mode else { return Ok(HeaderMap::new()) };
        if line.len() <= INLINE {
            return modern::request_headers(line, header_params);
        }
        let (line, header_params) = (line.clone(), Arc::clone(header_params));
        spawn_blocking(move || modern::request_headers(&line, &header_params))
            .await
            .unwrap_or_else(|_| Ok(HeaderMap::new()))
    }

    /// Reports a message. Returns whether it answers the request.
    async fn pass(&self, incoming: Incoming, ownership: Ownership) -> bool {
        let answers = self.request.is_some_and(|request| answers(&incoming, request));
        self.sender.send(TransportEvent::Message(incoming, ownership)).await;
        answers
    }

    /// Reads a stream up to the response, and resumes it elsewhere if it is interrupted.
    async fn follow(&self, mut stream: SseStream) -> Result<(), RequestError> {
        let mut ownership = Ownership::OfRequest;
        let mut attempts = StreamRetry::default();
        loop {
            while let Some(item) = stream.next().await {
                match item {
                    StreamItem::Message(incoming) => {
                        if self.pass(incoming, ownership).await {
                            let _ = timeout(LINGER, self.finish(stream)).await;
                            return Ok(());
                        }
                    }
                    // It may have been the response.
                    StreamItem::TooLarge => return Err(RequestError::TooLarge),
                    StreamItem::Endpoint(_) => {}
                }
            }
            let cut = || RequestError::Interrupted { reason: "interrupted its response".to_owned().into() };
            if !matches!(self.mode, SendMode::Later) || self.is_cancelled.load(Ordering::Relaxed) {
                return Err(cut());
            }
            stream = self.resume(&stream, &mut attempts).await.ok_or_else(cut)?;
            ownership = Ownership::Unknown;
        }
    }

    /// Messages after the response are passed on, too.
    async fn finish(&self, mut stream: SseStream) {
        while let Some(item) = stream.next().await {
            if let StreamItem::Message(incoming) = item {
                self.pass(incoming, Ownership::Unknown).await;
            }
        }
    }

    /// The stream after the last event; `None` if it cannot be resumed.
    async fn resume(&self, ended: &SseStream, attempts: &mut StreamRetry) -> Option<SseStream> {
        let last = ended.last_id()?;
        loop {
            sleep(attempts.pause(&last, ended.retry(), fastrand::f64())?).await;
            match self.sender.endpoint().listen(Some(&last)).await {
                Ok((response, update)) => {
                    self.sender.send_update(update).await;
                    return body::is_stream(&response)
                        .then(|| SseStream::resumed(response, self.max, &last, &self.sender));
                }
                Err(EndpointError::LoginNeeded(_) | EndpointError::InsufficientScope(_)) => return None,
                Err(EndpointError::NotSent(_) | EndpointError::Unprocessed(_) | EndpointError::Interrupted(_)) => {}
            }
        }
    }

    /// Whether a server with HTTP sessions sends an error that only servers without have: it was replaced.
    fn is_of_another_era(&self, body: &Bytes) -> bool {
        let member = |object: &Bytes, name| members(object, [name]).ok().and_then(|[value]| value);
        let code = member(body, "error").and_then(|error| member(&error, "code"));
        let is_one_of =
            |code: &Bytes| [HEADER_MISMATCH, UNSUPPORTED_VERSION].iter().any(|one| *code == one.to_string());
        matches!(self.mode, SendMode::Later) && code.as_ref().is_some_and(is_one_of)
    }

    /// Handles an error status and its body.
    async fn handle_error_status(&self, mut response: Response, has_http_session: bool) -> Result<(), RequestError> {
        let (status, retry_after) = (response.status(), body::retry_after(response.headers()));
        let body = timeout(ACCEPT_TIMEOUT, read_whole(&mut response, MAX_ERROR_BODY, self.sender.body_slots())).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        if status == StatusCode::BAD_REQUEST && self.is_of_another_era(&body) {
            self.sender.send(TransportEvent::Disconnected(Disconnect::SessionEnded)).await;
        }
        // The body may be the response itself (MCP 2025-11-25: "MAY comprise a JSON-RPC error response").
        if let Some(request) = self.request {
            let is_modern = matches!(self.mode, SendMode::Modern(_));
            let without_id = Some(&body)
                .filter(|_| is_modern && has_json_rpc_error(status))
                .and_then(|body| with_request_id(body, request));
            if let Some(incoming) = body::parse_message(without_id.unwrap_or_else(|| body.clone())).await
                && answers(&incoming, request)
            {
                self.sender.tap().note(Direction::From, &body);
                self.sender.send(TransportEvent::Message(incoming, Ownership::OfRequest)).await;
                return Ok(());
            }
        }
        let error_text = body::error_text(&body, |text| self.sender.endpoint().masked(text));
        let via = response.proxy().map(|proxy| format!("through {proxy}"));
        let message = error_text.into_iter().chain(via).reduce(|error_text, via| format!("{error_text} ({via})"));
        // Source: MCP 2025-11-25, `basic/transports`, "Session Management".
        if status == StatusCode::NOT_FOUND && has_http_session {
            return Err(RequestError::NotFoundInSession { message });
        }
        Err(RequestError::Status { status, retry_after, message })
    }
}

/// Whether modern servers use this status with a JSON-RPC error (MCP 2026-07-28, `basic/transports/streamable-http`,
/// "Protocol Version Header", "Server Validation").
fn has_json_rpc_error(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
}

/// An error without an id, since it precedes reading, as the response to the request that it must concern.
fn with_request_id(body: &Bytes, request: u64) -> Option<Bytes> {
    let [version, id, error] = members(body, ["jsonrpc", "id", "error"]).ok()?;
    let has_no_id = version? == r#""2.0""# && id.is_none_or(|id| id == "null");
    error.filter(|_| has_no_id).map(|error| reply::raw_error(request.to_string().as_bytes(), &error))
}

/// Whether this ends the request, valid or not.
fn answers(incoming: &Incoming, request: u64) -> bool {
    let id = match incoming {
        Incoming::Unclear(unclear) => match &unclear.error {
            MessageError::BadResponse { id } => Some(id),
            _ => incoming.as_response().map(|(id, _)| id),
        },
        Incoming::TooLarge { id, is_response: true, .. } => id.as_ref(),
        _ => incoming.as_response().map(|(id, _)| id),
    };
    id.and_then(|id| parse_own_id(id)) == Some(request)
}

/// Maximum of exchanges; further lines wait in the outbox. A call has one until its response, and for a while after its
/// cancellation.
const MAX_EXCHANGES: usize = 512;
/// Maximum of bytes sent by them, in buffer units; further lines wait, too.
const MAX_MESSAGES: usize = 4;

/// The exchanges of one connection.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: HashMap<Source, Open>,
    /// Bytes sent by unfinished exchanges.
    bytes: usize,
    /// Line numbers and ids of requests that wait to be sent.
    announced: VecDeque<(u64, u64)>,
}

/// An unfinished exchange.
#[derive(Debug)]
pub(super) struct Open {
    /// The request's id; `None` for other messages.
    pub(super) request: Option<u64>,
    pub(super) bytes: usize,
    pub(super) abort: AbortHandle,
    pub(super) is_cancelled: Arc<AtomicBool>,
}

impl Exchanges {
    /// Registers that a line will be the request with this id.
    pub(super) fn announce(&mut self, line: u64, request: u64) {
        self.announced.push_back((line, request));
    }

    /// The id of a line that is a request. Earlier entries are dropped.
    pub(super) fn announced(&mut self, line: u64) -> Option<u64> {
        while self.announced.front().is_some_and(|(other, _)| *other < line) {
            self.announced.pop_front();
        }
        let (_, request) = *self.announced.front().filter(|(other, _)| *other == line)?;
        self.announced.pop_front();
        Some(request)
    }

    pub(super) fn insert(&mut self, source: Source, open: Open) {
        self.bytes += open.bytes;
        self.open.insert(source, open);
    }

    /// Removes an exchange that has ended.
    pub(super) fn end(&mut self, source: Source) -> Option<Open> {
        let open = self.open.remove(&source)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    pub(super) fn get(&self, source: Source) -> Option<&Open> {
        self.open.get(&source)
    }

    /// The exchange of a request.
    pub(super) fn of(&self, request: u64) -> Option<(Source, &Open)> {
        self.open.iter().find(|(_, open)| open.request == Some(request)).map(|(source, open)| (*source, open))
    }

    pub(super) fn are_too_many(&self, max_message: usize) -> bool {
        self.open.len() >= MAX_EXCHANGES || self.bytes >= MAX_MESSAGES * buffer_unit(max_message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// First delay, if the server does not set one.
const RESUME_FIRST_DELAY: Duration = Duration::from_millis(500);
/// Attempts in a row from the same event id. The delay doubles between them.
const RESUMPTIONS: u32 = 5;
/// Longest delay, unless the server sets a longer one.
const RESUME_MAX_DELAY: Duration = Duration::from_secs(4);

/// The attempts to resume one stream.
#[derive(Debug)]
struct StreamRetry {
    /// The event id of the last attempt.
    from: Option<HeaderValue>,
    /// Counts attempts from that id.
    backoff: Backoff,
    /// The delay that the server requested last.
    retry: Option<Duration>,
}

impl StreamRetry {
    /// The delay before the request for events after `last`. `None` once all attempts from there failed: a server that
    /// has lost the stream may send an empty one each time. `random` is for [`Backoff::next`].
    fn pause(&mut self, last: &HeaderValue, retry: Option<Duration>, random: f64) -> Option<Duration> {
        if self.from.as_ref() != Some(last) {
            self.from = Some(last.clone());
            self.backoff.reset();
        }
        self.retry = retry.or(self.retry);
        if self.backoff.attempts() == RESUMPTIONS {
            return None;
        }
        let first = self.retry.unwrap_or(RESUME_FIRST_DELAY);
        self.backoff.set_limits(first, RESUME_MAX_DELAY.max(first));
        Some(self.backoff.next(random).max(self.retry.unwrap_or_default()))
    }
}

impl Default for StreamRetry {
    fn default() -> Self {
        Self { from: None, backoff: Backoff::new(RESUME_FIRST_DELAY, RESUME_MAX_DELAY), retry: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(attempts: &mut StreamRetry, last: &'static str, retry: Option<u64>) -> Vec<Option<u128>> {
        let (last, retry) = (HeaderValue::from_static(last), retry.map(Duration::from_millis));
        let mut pause = |retry| attempts.pause(&last, retry, 0.0).map(|pause| pause.as_millis());
        [retry, None, None, None, None, None].map(&mut pause).into()
    }

    #[test]
    fn attempts_are_limited_per_event_id() {
        let mut attempts = StreamRetry::default();
        let usual = [Some(500), Some(1_000), Some(2_000), Some(4_000), Some(4_000), None];
        assert_eq!(pauses(&mut attempts, "1", None), usual);
        assert_eq!(attempts.pause(&HeaderValue::from_static("1"), None, 0.0), None);
        assert_eq!(pauses(&mut attempts, "2", None), usual);
    }

    #[test]
    fn delay_of_the_server_is_remembered() {
        let mut attempts = StreamRetry::default();
        let requested = [Some(20), Some(40), Some(80), Some(160), Some(320), None];
        assert_eq!(pauses(&mut attempts, "1", Some(20)), requested);
        assert_eq!(pauses(&mut attempts, "2", None), requested);
        assert_eq!(pauses(&mut attempts, "3", Some(60_000)), [[Some(60_000); 5].as_slice(), &[None]].concat());
        assert_eq!(attempts.pause(&HeaderValue::from_static("4"), Some(Duration::ZERO), 0.0), Some(Duration::ZERO));
    }
}
