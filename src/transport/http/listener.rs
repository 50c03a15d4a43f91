//! The stream for what a server says by itself: kept open, and gone on with where it broke off.
//!
//! Source: MCP 2025-11-25, `basic/transports`, "Listening for Messages from the Server"; MCP 2024-11-05, `basic/transports`,
//! "HTTP with SSE", where the answers come on it, too, and its end is that of the connection.

use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use tokio::time::{Instant, sleep};
use url::Url;

use super::Parting;
use super::body::{self, Content};
use super::flow::{Flow, Said};
use super::place::Unanswered;
use super::report::{News, Ownership, Reporter};
use crate::backoff::Backoff;
use crate::net::client::NetError;
use crate::net::origin;

/// Before the stream is asked for again, if the server does not say how long.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A stream that lived so long was a good one, whatever it said.
const GOOD: Duration = Duration::from_secs(10);
/// Attempts in a row that do not reach the server, until it is taken to be gone; or are refused, until there is no stream.
const ATTEMPTS: u32 = 3;

/// Whoever reads it.
pub(super) struct Listener {
    pub(super) report: Reporter,
    pub(super) max: usize,
}

/// How one stream has ended.
enum Ended {
    /// It is worth to ask for it again: a stream was there, and said something, lasted, or can be gone on with.
    WasGood,
    /// The server cannot be reached.
    Unreachable(NetError),
    /// Something is there, but no stream, for now.
    Failed,
    /// There is none, perhaps: it was asked for before the handshake was over, or while another one is open.
    Refused,
    /// There is none.
    NotOffered,
    Parted(Parting),
}

impl Listener {
    /// Reads the stream for as long as there is one to be had.
    pub(super) async fn attend(self) {
        let (mut last, mut retry, mut was_open) = (None, None, false);
        let (mut backoff, mut unreachable, mut refused) = (Backoff::new(FIRST_DELAY, MAX_DELAY), 0, 0);
        loop {
            let ended = self.one_stream(&mut last, &mut retry, &mut was_open).await;
            // Whatever it was, nobody waits for it any longer.
            self.report.tell(News::Attended).await;
            let was_good = matches!(ended, Ended::WasGood);
            if was_good {
                backoff.reset();
            }
            unreachable = if matches!(ended, Ended::Unreachable(_)) { unreachable + 1 } else { 0 };
            refused = if matches!(ended, Ended::Refused) { refused + 1 } else { 0 };
            match ended {
                Ended::NotOffered => return,
                Ended::Refused if refused >= ATTEMPTS => return,
                Ended::Parted(parting) => return self.report.tell(News::Parted(parting)).await,
                Ended::Unreachable(reason) if unreachable >= ATTEMPTS => {
                    return self.report.tell(News::Parted(Parting::Unreachable { reason })).await;
                }
                Ended::Unreachable(_) | Ended::Refused | Ended::Failed | Ended::WasGood => {}
            }
            let pause = backoff.next(fastrand::f64());
            sleep(retry.map_or(pause, |retry| if was_good { retry } else { pause.max(retry) })).await;
        }
    }

    async fn one_stream(
        &self,
        last: &mut Option<HeaderValue>,
        retry: &mut Option<Duration>,
        was_open: &mut bool,
    ) -> Ended {
        let place = self.report.place();
        // What is needed until it stands is not to take room for as long as it does.
        let (response, learnt) = match Box::pin(place.listen(last.as_ref())).await {
            Ok(answered) => answered,
            Err(Unanswered::NotSent(reason)) => return Ended::Unreachable(reason),
            Err(Unanswered::Unprocessed(_) | Unanswered::Cut(_)) => return Ended::Failed,
            Err(Unanswered::LoginNeeded(why)) => return Ended::Parted(Parting::LoginNeeded { why }),
            Err(Unanswered::NotAllowed(_)) => return Ended::Refused,
        };
        self.report.learnt(learnt).await;
        match response.status() {
            // Where no stream ever was, it may be the method that is not found.
            StatusCode::NOT_FOUND if place.has_session() && *was_open => return Ended::Parted(Parting::SessionEnded),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                *retry = body::retry_after(response.headers()).map(|after| after.min(MAX_DELAY)).or(*retry);
                return Ended::Failed;
            }
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => return Ended::NotOffered,
            status if !status.is_success() => {
                // It may be no more than where to go on from that it does not know.
                *last = None;
                return Ended::Refused;
            }
            _ if Content::of(response.headers()) != Content::Events => return Ended::NotOffered,
            _ => {}
        }
        *was_open = true;
        self.report.tell(News::Attended).await;
        let (began, mut has_spoken) = (Instant::now(), false);
        let mut flow = Flow::new(response, self.max, self.report.turn());
        while let Some(said) = flow.next().await {
            has_spoken = true;
            if let Said::Message(incoming) = said {
                self.report.tell(News::Message(incoming, Ownership::Unknown)).await;
            }
        }
        // Servers that would rather be asked from time to time than keep a stream open say where it goes on, and end it (MCP
        // 2025-11-25, `basic/transports`, "Listening for Messages from the Server").
        let goes_on = flow.last_id();
        let was_good = has_spoken || goes_on.is_some() || began.elapsed() >= GOOD;
        *last = goes_on.or(last.take());
        *retry = flow.retry().or(*retry);
        if was_good { Ended::WasGood } else { Ended::Failed }
    }

    /// Reads the one stream of a server of 2024-11-05, which says first where messages are to be sent to. One that has none is no
    /// such server either, so what it said to what was posted (`refusal`) is what is wrong.
    pub(super) async fn attend_old(self, refusal: Parting) {
        let parting = self.old_stream(refusal).await;
        self.report.tell(News::Parted(parting)).await;
    }

    async fn old_stream(&self, refusal: Parting) -> Parting {
        let place = self.report.place();
        let (response, base) = match Box::pin(place.listen_somewhere()).await {
            Ok((response, learnt, base)) => {
                self.report.learnt(learnt).await;
                (response, base)
            }
            Err(Unanswered::NotSent(reason)) => return Parting::Unreachable { reason },
            Err(Unanswered::Unprocessed(reason) | Unanswered::Cut(reason)) => {
                return Parting::Unreachable { reason: reason.into() };
            }
            Err(Unanswered::LoginNeeded(why) | Unanswered::NotAllowed(why)) => return Parting::LoginNeeded { why },
        };
        if !body::is_stream(&response) {
            return refusal;
        }
        let mut flow = Flow::new(response, self.max, self.report.turn());
        while let Some(said) = flow.next().await {
            match said {
                Said::Message(incoming) => self.report.tell(News::Message(incoming, Ownership::Unknown)).await,
                Said::TooLarge => {}
                Said::Endpoint(text) => match endpoint(&base, &text) {
                    Ok(url) => self.report.tell(News::Endpoint(url)).await,
                    Err(what) => return Parting::Unfit { what },
                },
            }
        }
        Parting::Closed
    }
}

/// Where messages go. It must be where the stream is: what is secret in the headers is for nobody else.
fn endpoint(base: &Url, text: &[u8]) -> Result<Url, String> {
    let text = String::from_utf8_lossy(text);
    origin::within(base, text.trim()).map_err(|place| format!("names as its endpoint {place}"))
}
