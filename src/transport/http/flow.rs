//! One open `text/event-stream`, as messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use tokio::sync::OwnedSemaphorePermit;

use super::body;
use super::events::{Event, Events};
use crate::net::body::{LARGE, Turn};
use crate::net::client::Answer;
use crate::transport::Incoming;

/// An open stream.
pub(super) struct Flow {
    response: Answer,
    events: Events,
    turn: Arc<Turn>,
    /// While there is a large event that has not ended.
    held: Option<OwnedSemaphorePermit>,
}

/// What it says next.
#[derive(Debug)]
pub(super) enum Said {
    Message(Incoming),
    /// Where messages are to be sent to (MCP 2024-11-05, `basic/transports`, "HTTP with SSE").
    Endpoint(Bytes),
    /// An event over the message cap.
    TooLarge,
}

impl Flow {
    pub(super) fn new(response: Answer, max: usize, turn: &Arc<Turn>) -> Self {
        Self::of(response, Events::new(max), turn)
    }

    /// One that goes on where another one broke off.
    pub(super) fn going_on(response: Answer, max: usize, last: &HeaderValue, turn: &Arc<Turn>) -> Self {
        Self::of(response, Events::going_on(max, last.as_bytes()), turn)
    }

    fn of(mut response: Answer, events: Events, turn: &Arc<Turn>) -> Self {
        response.forget_headers();
        Self { response, events, turn: Arc::clone(turn), held: None }
    }

    /// The next thing it says; `None` when it has ended, however.
    pub(super) async fn next(&mut self) -> Option<Said> {
        loop {
            while let Some(event) = self.events.pop() {
                match event {
                    Event::TooLarge => return Some(Said::TooLarge),
                    Event::Data { name, data } if name[..] == *b"endpoint" => return Some(Said::Endpoint(data)),
                    Event::Data { name, data } if name.is_empty() || name[..] == *b"message" => {
                        // One without data only tells where the stream may be gone on with.
                        if let Some(incoming) = body::message(data).await {
                            return Some(Said::Message(incoming));
                        }
                    }
                    // A name that MCP does not have.
                    Event::Data { .. } => {}
                }
            }
            if self.events.held() <= LARGE {
                self.held = None;
            } else if self.held.is_none() {
                // A semaphore that nobody closes.
                self.held = Arc::clone(&self.turn).acquire_owned().await.ok();
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.events.read(chunk);
        }
    }

    /// Where it may be gone on with.
    pub(super) fn last_id(&self) -> Option<HeaderValue> {
        self.events.last_id().and_then(|id| HeaderValue::from_bytes(id).ok())
    }

    /// How long the server wants to be left alone before.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.events.retry()
    }
}
