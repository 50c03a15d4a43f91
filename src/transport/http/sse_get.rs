//! The GET stream for messages that a server sends by itself: kept open, and resumed after interruptions.
//!
//! Source: MCP 2025-11-25, `basic/transports`, "Listening for Messages from the Server"; MCP 2024-11-05,
//! `basic/transports`, "HTTP with SSE", where responses use the same stream, and its end is the end of the connection.

use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use tokio::time::{Instant, sleep};
use url::Url;

use super::Disconnect;
use super::body::{self, Content, SseStream, StreamItem};
use super::endpoint::EndpointError;
use super::event_queue::{EventSender, Ownership, TransportEvent};
use crate::backoff::Backoff;
use crate::net::client::NetError;
use crate::net::origin::{self, ForbiddenUrl};

/// First delay before a new request, if the server does not set one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A stream that lasted this long was useful even without messages.
const USEFUL_AGE: Duration = Duration::from_secs(10);
/// Longest delay between refused attempts. Some servers offer the stream only later, and others never.
const MAX_REFUSED_DELAY: Duration = Duration::from_secs(300);
/// Unreachable attempts in a row before the server counts as gone.
const ATTEMPTS: u32 = 3;

/// Reads the stream.
pub(super) struct SseGet {
    pub(super) sender: EventSender,
    pub(super) max: usize,
}

/// How a stream ended.
enum StreamEnd {
    /// A useful stream: it carried something, lasted, or can be resumed.
    Useful,
    /// The server cannot be reached.
    Unreachable(NetError),
    /// The server responded without a stream, for now.
    Failed,
    /// Perhaps there is none: it was requested before the handshake was over, while another one is open, or something
    /// in between has answered.
    Refused,
    /// The server has no such stream.
    NotOffered,
    Disconnected(Disconnect),
}

impl SseGet {
    /// Reads the stream for as long as the server offers one.
    pub(super) async fn run(self) {
        let (mut last, mut retry, mut was_open) = (None, None, false);
        let (mut backoff, mut unreachable) = (Backoff::new(FIRST_DELAY, MAX_DELAY), 0);
        loop {
            let ended = self.one_stream(&mut last, &mut retry, &mut was_open).await;
            // Whatever the outcome, nothing waits for the stream any longer.
            self.sender.send(TransportEvent::StreamReady).await;
            let was_useful = matches!(ended, StreamEnd::Useful);
            if was_useful {
                backoff.reset();
            }
            unreachable = if matches!(ended, StreamEnd::Unreachable(_)) { unreachable + 1 } else { 0 };
            let is_refused = matches!(ended, StreamEnd::Refused);
            backoff.set_limits(FIRST_DELAY, if is_refused { MAX_REFUSED_DELAY } else { MAX_DELAY });
            match ended {
                StreamEnd::NotOffered => return,
                StreamEnd::Disconnected(disconnect) => {
                    return self.sender.send(TransportEvent::Disconnected(disconnect)).await;
                }
                StreamEnd::Unreachable(reason) if unreachable >= ATTEMPTS => {
                    return self.sender.send(TransportEvent::Disconnected(Disconnect::Unreachable { reason })).await;
                }
                StreamEnd::Unreachable(_) | StreamEnd::Refused | StreamEnd::Failed | StreamEnd::Useful => {}
            }
            let pause = backoff.next(fastrand::f64());
            sleep(retry.map_or(pause, |retry| if was_useful { retry } else { pause.max(retry) })).await;
        }
    }

    async fn one_stream(
        &self,
        last: &mut Option<HeaderValue>,
        retry: &mut Option<Duration>,
        was_open: &mut bool,
    ) -> StreamEnd {
        let endpoint = self.sender.endpoint();
        // Boxed, so that the state of the request is freed while the stream is open.
        let (response, update) = match Box::pin(endpoint.listen(last.as_ref())).await {
            Ok(response) => response,
            // Such as a page where people log in.
            Err(EndpointError::NotSent(reason)) if reason.is_redirect() => return StreamEnd::Refused,
            Err(EndpointError::NotSent(reason)) => return StreamEnd::Unreachable(reason),
            Err(EndpointError::Unprocessed(_) | EndpointError::Interrupted(_)) => return StreamEnd::Failed,
            Err(EndpointError::LoginNeeded(why)) => return StreamEnd::Disconnected(Disconnect::LoginNeeded { why }),
            Err(EndpointError::InsufficientScope(_)) => return StreamEnd::Refused,
        };
        self.sender.send_update(update).await;
        match response.status() {
            // Before the first stream, 404 may mean that GET is not supported.
            StatusCode::NOT_FOUND if endpoint.has_http_session() && *was_open => {
                self.sender.send(TransportEvent::SessionInDoubt).await;
                return StreamEnd::Refused;
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                *retry = body::retry_after(response.headers()).map(|after| after.min(MAX_DELAY)).or(*retry);
                return StreamEnd::Failed;
            }
            StatusCode::METHOD_NOT_ALLOWED => return StreamEnd::NotOffered,
            status if !status.is_success() => {
                // Perhaps the server only does not know the resume id.
                *last = None;
                return StreamEnd::Refused;
            }
            _ if Content::of(response.headers()) != Content::Events || response.unknown_coding().is_some() => {
                return StreamEnd::Refused;
            }
            _ => {}
        }
        *was_open = true;
        self.sender.send(TransportEvent::StreamReady).await;
        let (began, mut has_spoken) = (Instant::now(), false);
        let mut stream = SseStream::new(response, self.max, &self.sender);
        while let Some(item) = stream.next().await {
            has_spoken = true;
            if let StreamItem::Message(incoming) = item {
                self.sender.send(TransportEvent::Message(incoming, Ownership::Unknown)).await;
            }
        }
        // Servers that prefer polling set a resume id and end the stream (MCP 2025-11-25, `basic/transports`,
        // "Listening for Messages from the Server").
        let goes_on = stream.last_id();
        let was_useful = has_spoken || goes_on.is_some() || began.elapsed() >= USEFUL_AGE;
        *last = goes_on.or(last.take());
        *retry = stream.retry().or(*retry);
        if was_useful { StreamEnd::Useful } else { StreamEnd::Failed }
    }

    /// Reads the one stream of a server of 2024-11-05, which first names the URL for messages. A server without a
    /// stream is no such server, so its response to the POST (`refusal`) is the error.
    pub(super) async fn run_http_sse(self, refusal: Disconnect) {
        let disconnect = self.http_sse_stream(refusal).await;
        self.sender.send(TransportEvent::Disconnected(disconnect)).await;
    }

    async fn http_sse_stream(&self, refusal: Disconnect) -> Disconnect {
        let endpoint = self.sender.endpoint();
        let (response, base) = match Box::pin(endpoint.listen_somewhere()).await {
            Ok((response, update, base)) => {
                self.sender.send_update(update).await;
                (response, base)
            }
            Err(EndpointError::NotSent(reason)) => return Disconnect::Unreachable { reason },
            Err(EndpointError::Unprocessed(reason)) => return Disconnect::Unreachable { reason: reason.into() },
            Err(EndpointError::Interrupted(reason)) => {
                return Disconnect::Unreachable { reason: reason.to_string().into() };
            }
            Err(EndpointError::LoginNeeded(why) | EndpointError::InsufficientScope(why)) => {
                return Disconnect::LoginNeeded { why };
            }
        };
        if !body::is_stream(&response) {
            return refusal;
        }
        let mut stream = SseStream::new(response, self.max, &self.sender);
        while let Some(item) = stream.next().await {
            match item {
                StreamItem::Message(incoming) => {
                    self.sender.send(TransportEvent::Message(incoming, Ownership::Unknown)).await
                }
                StreamItem::TooLarge => {}
                StreamItem::Endpoint(text) => match message_url(&base, &text) {
                    Ok(url) => self.sender.send(TransportEvent::Endpoint(url)).await,
                    Err(target) => {
                        return Disconnect::ProtocolViolation { what: format!("names {target} as its endpoint") };
                    }
                },
            }
        }
        Disconnect::Closed
    }
}

/// The URL for messages. It must have the same origin, since headers may contain secrets.
fn message_url(base: &Url, text: &[u8]) -> Result<Url, ForbiddenUrl> {
    origin::within(base, String::from_utf8_lossy(text).trim())
}
