//! One message to the server and what it answers: whole, as a stream, or not at all.
//!
//! Source: MCP 2025-11-25, `basic/transports`, "Sending Messages to the Server", "Resumability and Redelivery".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::again::Again;
use super::body::{self, Content};
use super::flow::{Flow, Said};
use super::place::{SESSION, Unanswered};
use super::report::{News, Ownership, Reporter};
use super::{Lost, Mirrors, Parting, modern};
use crate::era::{HEADER_MISMATCH, UNSUPPORTED_VERSION};
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::{Malformed, Message, reply};
use crate::net::body::{Unusable, whole};
use crate::net::client::Answer;
use crate::transport::Incoming;
use crate::transport::incoming::INLINE;

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
    pub(super) manner: Manner,
    /// Nobody waits for its answer any longer.
    pub(super) is_given_up: Arc<AtomicBool>,
}

/// How it is sent.
#[derive(Debug)]
pub(super) enum Manner {
    /// As the one that opens a session: nothing is yet there to go on from where its answer breaks off.
    First,
    /// Within one: where its answer breaks off it may be gone on with.
    Later,
    /// By itself, with parts of it in its head.
    Modern(Arc<Mirrors>),
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
        let head = self.head(line).await.map_err(|modern::TooLong| {
            let reason = "what it wants to have of the request in headers is over 8 KiB".to_owned();
            Lost::NotSent { reason: reason.into() }
        })?;
        let (mut response, learnt) = match place.post(line, head).await {
            Ok(answered) => answered,
            Err(Unanswered::NotSent(reason)) => return Err(Lost::NotSent { reason }),
            Err(Unanswered::Unprocessed(reason)) => return Err(Lost::Unprocessed { reason }),
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

    /// What it has in its head. A large one is read where nobody else has to wait.
    async fn head(&self, line: &Bytes) -> Result<HeaderMap, modern::TooLong> {
        let Manner::Modern(mirrors) = &self.manner else { return Ok(HeaderMap::new()) };
        if line.len() <= INLINE {
            return modern::head(line, mirrors);
        }
        let (line, mirrors) = (line.clone(), Arc::clone(mirrors));
        spawn_blocking(move || modern::head(&line, &mirrors)).await.unwrap_or_else(|_| Ok(HeaderMap::new()))
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
            if !matches!(self.manner, Manner::Later) || self.is_given_up.load(Ordering::Relaxed) {
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
            sleep(again.pause(&last, ended.retry(), fastrand::f64())?).await;
            match self.report.place().listen(Some(&last)).await {
                Ok((response, learnt)) => {
                    self.report.learnt(learnt).await;
                    return body::is_stream(&response)
                        .then(|| Flow::going_on(response, self.max, &last, self.report.turn()));
                }
                Err(Unanswered::LoginNeeded(_) | Unanswered::NotAllowed(_)) => return None,
                Err(Unanswered::NotSent(_) | Unanswered::Unprocessed(_) | Unanswered::Cut(_)) => {}
            }
        }
    }

    /// Whether a server with sessions says what only one without them does: it is another one than it was.
    fn is_of_another_era(&self, body: &Bytes) -> bool {
        let member = |object: &Bytes, name| members(object, [name]).ok().and_then(|[value]| value);
        let code = member(body, "error").and_then(|error| member(&error, "code"));
        let is_one_of =
            |code: &Bytes| [HEADER_MISMATCH, UNSUPPORTED_VERSION].iter().any(|one| *code == one.to_string());
        matches!(self.manner, Manner::Later) && code.as_ref().is_some_and(is_one_of)
    }

    /// What a status other than success says, with whatever is in its body.
    async fn refused(&self, mut response: Answer, has_session: bool) -> Result<(), Lost> {
        let (status, retry_after) = (response.status(), body::retry_after(response.headers()));
        if status == StatusCode::NOT_FOUND && has_session {
            self.report.tell(News::Parted(Parting::SessionEnded)).await;
            // Source: MCP 2025-11-25, `basic/transports`, "Session Management".
            return Err(Lost::Unprocessed { reason: format!("has ended the session (HTTP {status})") });
        }
        let said = timeout(TAKEN, whole(&mut response, MAX_COMPLAINT, self.report.turn())).await;
        let said = said.ok().and_then(Result::ok).unwrap_or_default();
        let has_ended = has_session && is_about_session(&said);
        if status == StatusCode::BAD_REQUEST && (has_ended || self.is_of_another_era(&said)) {
            self.report.tell(News::Parted(Parting::SessionEnded)).await;
        }
        // It may be the response itself (MCP 2025-11-25: "MAY comprise a JSON-RPC error response").
        if let Some(request) = self.request {
            let is_modern = matches!(self.manner, Manner::Modern(_));
            let nameless = Some(&said).filter(|_| is_modern && says_why(status)).and_then(|said| named(said, request));
            if let Some(incoming) = body::message(nameless.unwrap_or_else(|| said.clone())).await
                && answers(&incoming, request)
            {
                self.report.tell(News::Message(incoming, Ownership::OfRequest)).await;
                return Ok(());
            }
        }
        let complaint = body::complaint(&said, |text| self.report.place().masked(text));
        let via = response.proxy().map(|proxy| format!("through {proxy}"));
        let said = complaint.into_iter().chain(via).reduce(|complaint, via| format!("{complaint} ({via})"));
        Err(Lost::Status { status, retry_after, said })
    }
}

/// Whether it is a status with which servers of the modern era say in a JSON-RPC error what is wrong (MCP 2026-07-28,
/// `basic/transports/streamable-http`, "Protocol Version Header", "Server Validation").
fn says_why(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
}

/// An error that names no request, since it was said before any was read, as the answer to the one that it can only be about.
fn named(body: &Bytes, request: u64) -> Option<Bytes> {
    let [version, id, error] = members(body, ["jsonrpc", "id", "error"]).ok()?;
    let is_nameless = version? == r#""2.0""# && id.is_none_or(|id| id == "null");
    error.filter(|_| is_nameless).map(|error| reply::raw_error(request.to_string().as_bytes(), &error))
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
