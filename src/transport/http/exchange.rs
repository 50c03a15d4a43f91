//! One message to the server and what it answers: whole, as a stream, or not at all.
//!
//! Source: MCP 2025-11-25, `basic/transports`, "Sending Messages to the Server", "Resumability and Redelivery".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::{sleep, timeout};

use super::again::Again;
use super::body::{self, Content};
use super::flow::{Flow, Said};
use super::place::{SESSION, Unanswered};
use super::report::{News, Ownership, Reporter};
use super::{Lost, Parting};
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::{Malformed, Message};
use crate::net::body::{Unusable, whole};
use crate::net::client::Answer;
use crate::transport::Incoming;

/// How long a stream may stay open behind its response, which should be the end of it.
const LINGER: Duration = Duration::from_secs(1);
/// For a server to take a message that is not answered, or not here. One of a session that has ended may be taken by nobody.
const TAKEN: Duration = Duration::from_secs(10);
/// Largest body of an answer that only says that something went wrong, in bytes.
const MAX_COMPLAINT: usize = 64 << 10;

/// A message on its way.
pub(super) struct Exchange {
    pub(super) report: Reporter,
    /// The id of the request that it is, if it is one.
    pub(super) request: Option<u64>,
    /// Most bytes of a message.
    pub(super) max: usize,
    /// Where its answer breaks off it may be gone on with. With a handshake nothing is yet there to go on from.
    pub(super) may_go_on: bool,
    /// Nobody waits for its answer any longer.
    pub(super) is_given_up: Arc<AtomicBool>,
}

impl Exchange {
    /// Sends it and reports what comes of it, to the end.
    pub(super) async fn run(self, line: Bytes) {
        let end = match self.send(&line).await {
            Ok(()) => News::Done,
            Err(lost) => News::Lost(lost),
        };
        self.report.tell(end).await;
    }

    /// The same for a line that is not answered, or not here: reports whether it has been taken.
    pub(super) async fn post(self, line: Bytes) {
        let end = match timeout(TAKEN, self.send(&line)).await {
            Ok(Ok(())) => News::Done,
            Ok(Err(lost)) => News::Lost(lost),
            Err(_) => News::Lost(Lost::Cut { reason: "did not take the message".to_owned() }),
        };
        self.report.tell(end).await;
    }

    /// Until it is answered. One that is no request is when it was sent.
    async fn send(&self, line: &Bytes) -> Result<(), Lost> {
        let place = self.report.place();
        let (mut response, learnt) = match place.post(line).await {
            Ok(answered) => answered,
            Err(Unanswered::NotSent(reason)) => return Err(Lost::NotSent { reason }),
            Err(Unanswered::Cut(reason)) => {
                return Err(Lost::Cut { reason: format!("broke off the connection: {reason}") });
            }
            Err(Unanswered::LoginNeeded(why)) => {
                self.report.tell(News::Parted(Parting::LoginNeeded { why: why.clone() })).await;
                return Err(Lost::LoginNeeded { why });
            }
            // What others are allowed to call goes on.
            Err(Unanswered::NotAllowed(why)) => return Err(Lost::LoginNeeded { why }),
        };
        self.report.learnt(learnt).await;
        if let Some(session) = response.headers().get(SESSION) {
            self.report.tell(News::Session(session.clone())).await;
        }
        let status = response.status();
        if !status.is_success() {
            return self.refused(response, place.has_session()).await;
        }
        match (Content::of(response.headers()), self.request) {
            (Content::Events, Some(_)) => self.follow(Flow::new(response, self.max, self.report.turn())).await,
            (_, None) => {
                // Read to its end, so that the connection can be used again.
                let _ = timeout(LINGER, whole(&mut response, MAX_COMPLAINT, self.report.turn())).await;
                Ok(())
            }
            (Content::Json, Some(_)) => {
                let text =
                    whole(&mut response, self.max, self.report.turn()).await.map_err(|unusable| match unusable {
                        Unusable::TooLarge => Lost::TooLarge,
                        Unusable::Cut(reason) => Lost::Cut { reason: format!("broke off its answer: {reason}") },
                    })?;
                let incoming = body::message(text).await.ok_or(Lost::NoAnswer)?;
                if self.pass(incoming, Ownership::OfRequest).await { Ok(()) } else { Err(Lost::NoAnswer) }
            }
            (Content::Other, Some(_)) => Err(Lost::NoAnswer),
        }
    }

    /// Reports a message; whether it answers the request.
    async fn pass(&self, incoming: Incoming, ownership: Ownership) -> bool {
        let answers = self.request.is_some_and(|request| answers(&incoming, request));
        self.report.tell(News::Message(incoming, ownership)).await;
        answers
    }

    /// Reads a stream to the response, and goes on elsewhere where it ends before.
    async fn follow(&self, mut flow: Flow) -> Result<(), Lost> {
        let mut ownership = Ownership::OfRequest;
        let mut again = Again::default();
        loop {
            while let Some(said) = flow.next().await {
                match said {
                    Said::Message(incoming) => {
                        if self.pass(incoming, ownership).await {
                            let _ = timeout(LINGER, self.finish(flow)).await;
                            return Ok(());
                        }
                    }
                    // Which message it was nobody can tell; waiting on might be in vain.
                    Said::TooLarge => return Err(Lost::TooLarge),
                    Said::Endpoint(_) => {}
                }
            }
            let cut = || Lost::Cut { reason: "broke off its answer".to_owned() };
            if !self.may_go_on || self.is_given_up.load(Ordering::Relaxed) {
                return Err(cut());
            }
            flow = self.resume(&flow, &mut again).await.ok_or_else(cut)?;
            ownership = Ownership::Unknown;
        }
    }

    /// What a server says behind its response is passed on, too.
    async fn finish(&self, mut flow: Flow) {
        while let Some(said) = flow.next().await {
            if let Said::Message(incoming) = said {
                self.pass(incoming, Ownership::Unknown).await;
            }
        }
    }

    /// What comes behind the last event of a stream; `None` if that cannot be had.
    async fn resume(&self, ended: &Flow, again: &mut Again) -> Option<Flow> {
        let last = ended.last_id()?;
        loop {
            sleep(again.pause(&last, ended.retry())?).await;
            match self.report.place().listen(Some(&last)).await {
                Ok((response, learnt)) => {
                    self.report.learnt(learnt).await;
                    return body::is_stream(&response)
                        .then(|| Flow::going_on(response, self.max, &last, self.report.turn()));
                }
                Err(Unanswered::LoginNeeded(_) | Unanswered::NotAllowed(_)) => return None,
                Err(Unanswered::NotSent(_) | Unanswered::Cut(_)) => {}
            }
        }
    }

    /// What a status other than success says, with whatever is in its body.
    async fn refused(&self, mut response: Answer, has_session: bool) -> Result<(), Lost> {
        let (status, retry_after) = (response.status(), body::retry_after(response.headers()));
        if status == StatusCode::NOT_FOUND && has_session {
            self.report.tell(News::Parted(Parting::SessionEnded)).await;
            return Err(Lost::Status { status, retry_after, said: None });
        }
        let said = timeout(TAKEN, whole(&mut response, MAX_COMPLAINT, self.report.turn())).await;
        let said = said.ok().and_then(Result::ok).unwrap_or_default();
        if status == StatusCode::BAD_REQUEST && has_session && is_about_session(&said) {
            self.report.tell(News::Parted(Parting::SessionEnded)).await;
        }
        // It may be the response itself (MCP 2025-11-25: "MAY comprise a JSON-RPC error response").
        if let Some(incoming) = body::message(said.clone()).await
            && let Some(request) = self.request
            && answers(&incoming, request)
        {
            self.report.tell(News::Message(incoming, Ownership::OfRequest)).await;
            return Ok(());
        }
        Err(Lost::Status { status, retry_after, said: body::complaint(&said, |text| self.report.place().masked(text)) })
    }
}

/// Whether an error that answers nothing is about the session. The servers of the TypeScript SDK's examples say so instead of with
/// HTTP 404.
fn is_about_session(body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
    let answers = value.get("id").is_some_and(|id| id.is_number());
    let message = value.pointer("/error/message").and_then(serde_json::Value::as_str).unwrap_or_default();
    !answers && message.to_ascii_lowercase().contains("session id")
}

/// Whether this ends the request, be it valid or not.
fn answers(incoming: &Incoming, request: u64) -> bool {
    match incoming {
        Incoming::Message { message: Message::Response { id, .. }, .. }
        | Incoming::Malformed(Malformed::BadResponse { id })
        | Incoming::TooLarge { id: Some(id), is_response: true } => minted(id) == Some(request),
        Incoming::Batch(members) => members.iter().any(|member| answers(member, request)),
        Incoming::Message { .. } | Incoming::Malformed(_) | Incoming::TooLarge { .. } => false,
    }
}
