//! One open `text/event-stream`, as messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use tokio::sync::OwnedSemaphorePermit;

use super::body;
use super::sse_parser::{Event, SseParser};
use crate::jsonrpc::Message;
use crate::net::body::{LARGE, LargeBodySlots};
use crate::net::client::Response;
use crate::transport::Incoming;

/// An open stream.
pub(super) struct SseStream {
    response: Response,
    parser: SseParser,
    body_slots: Arc<LargeBodySlots>,
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
    pub(super) fn new(response: Response, max: usize, body_slots: &Arc<LargeBodySlots>) -> Self {
        Self::of(response, SseParser::new(max), body_slots)
    }

    /// A stream that resumes an interrupted one.
    pub(super) fn resumed(
        response: Response,
        max: usize,
        last: &HeaderValue,
        body_slots: &Arc<LargeBodySlots>,
    ) -> Self {
        Self::of(response, SseParser::resumed(max, last.as_bytes()), body_slots)
    }

    fn of(mut response: Response, parser: SseParser, body_slots: &Arc<LargeBodySlots>) -> Self {
        response.drop_headers();
        Self { response, parser, body_slots: Arc::clone(body_slots), permit: None }
    }

    /// The next item; `None` once the stream has ended for any reason.
    pub(super) async fn next(&mut self) -> Option<StreamItem> {
        loop {
            while let Some(event) = self.parser.pop() {
                match event {
                    Event::TooLarge => return Some(StreamItem::TooLarge),
                    Event::Data { name, data } if name[..] == *b"endpoint" && !data.starts_with(b"{") => {
                        return Some(StreamItem::Endpoint(data));
                    }
                    Event::Data { name, data } if name.is_empty() || name[..] == *b"message" => {
                        // An event without data only sets the resume id.
                        if let Some(incoming) = body::parse_message(data).await {
                            return Some(StreamItem::Message(incoming));
                        }
                    }
                    // MCP does not define the name, but what answers a request is its response.
                    Event::Data { data, .. } => {
                        if let Some(incoming @ Incoming::Message { message: Message::Response { .. }, .. }) =
                            body::parse_message(data).await
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
