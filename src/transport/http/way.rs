//! The way to one server, and how far it is open.

mod news;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{sleep, timeout};

use super::exchange::{Exchange, Manner};
use super::exchanges::{Exchanges, Open};
use super::phase::Phase;
use super::place::Place;
use super::report::{Desk, News, Source};
use super::{Mirrors, Parting, token};
use crate::config::Remote;
use crate::net::client::{Client, NetError};
use crate::oauth::Login;
use crate::transport::{Arrival, Outbox};

/// How long the end of the handshake waits for the stream of what the server says by itself.
const ATTEND: Duration = Duration::from_secs(1);
/// How long a request that was given up may still be answered before its connection is closed.
const FORGET: Duration = Duration::from_secs(10);
/// For the server to hear that its session has ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// The listener's.
const LISTENER: Source = 0;

/// The way to one server.
pub(crate) struct Http {
    desk: Desk,
    phase: Phase,
    /// Most bytes of a message.
    max: usize,
    open: Exchanges,
    /// What the tools of a server of the modern era want in headers.
    mirrors: Arc<Mirrors>,
    /// How often in a row it has not let mcpd in.
    not_admitted: u32,
    running: FuturesUnordered<Abortable<BoxFuture<'static, ()>>>,
    /// Exchanges that have begun.
    begun: Source,
    /// What has the next token made in time.
    keeper: Option<AbortHandle>,
    /// Told when what came before it was taken.
    parting: Option<Parting>,
    /// It is known to serve the modern era, so `initialize` may fail.
    has_modern: bool,
}

impl Http {
    /// The way to the server that `remote` names. Nothing is sent yet.
    ///
    /// # Errors
    /// For a person, if its URL or its headers cannot be sent.
    pub(crate) async fn new(
        remote: &Remote,
        client: Client,
        login: Option<Login>,
        max: usize,
    ) -> Result<Self, NetError> {
        let mut place = Place::new(remote, client, login)?;
        let due = token::first(&mut place).await;
        let mut http = Self {
            desk: Desk::new(place),
            phase: Phase::New,
            max,
            open: Exchanges::default(),
            mirrors: Arc::default(),
            not_admitted: 0,
            running: FuturesUnordered::new(),
            begun: LISTENER,
            keeper: None,
            parting: None,
            has_modern: false,
        };
        http.keep_token(due);
        Ok(http)
    }

    /// Has the next token made when this one is due, if it ever is.
    fn keep_token(&mut self, due: Option<Instant>) {
        let login = self.desk.place().login().cloned();
        let keep = |(login, due)| self.run(token::keep(self.desk.reporter(LISTENER), login, due));
        let keeper = login.zip(due).map(keep);
        if let Some(before) = std::mem::replace(&mut self.keeper, keeper) {
            before.abort();
        }
    }

    /// The line of this number in the outbox is a request with this id.
    pub(crate) fn announce(&mut self, line: u64, request: u64) {
        self.open.announce(line, request);
    }

    /// The server has answered in the modern era. Whether it has sessions as well is not known.
    pub(crate) fn has_modern(&mut self) {
        self.has_modern = true;
    }

    /// Whether the server has answered in the modern era.
    pub(crate) fn is_known_modern(&self) -> bool {
        self.has_modern
    }

    /// The server is of the modern era. What was sent to open a session opens none.
    pub(crate) fn discovered(&mut self) {
        self.phase = Phase::Modern;
    }

    /// Whether the server has parts of messages in headers.
    pub(crate) fn has_heads(&self) -> bool {
        matches!(self.phase, Phase::Modern)
    }

    /// What its tools want there from now on.
    pub(crate) fn mirror(&mut self, mirrors: Mirrors) {
        self.mirrors = Arc::new(mirrors);
    }

    /// The version that was negotiated, and the number of the line that says so to the server.
    pub(crate) fn introduce(&mut self, protocol: &'static str, initialized: u64) {
        if let Phase::Opened { .. } = self.phase {
            self.desk.change(|place| place.set_protocol(protocol));
            self.phase = Phase::Opened { initialized: Some(initialized) };
            let (listener, late) = (self.listener(), self.desk.reporter(LISTENER));
            self.run(listener.attend());
            self.run(async move {
                sleep(ATTEND).await;
                late.tell(News::Attended).await;
            });
        }
    }

    /// Nobody waits for the answer to this request any longer. It is lost in a while, if it does not come.
    pub(crate) fn give_up(&mut self, request: u64) {
        if let Some((source, open)) = self.open.of(request) {
            let report = self.desk.reporter(source);
            open.is_given_up.store(true, Ordering::Relaxed);
            // To close its stream is what tells a server of the modern era, which answers no more.
            let after = if self.phase.is_modern() { Duration::ZERO } else { FORGET };
            self.run(async move {
                sleep(after).await;
                report.tell(News::Forgotten).await;
            });
        }
    }

    /// Begins an exchange with each line of `outbox` that may be sent now. Pending if one may not.
    pub(crate) fn poll_write(&mut self, outbox: &mut Outbox) -> Poll<()> {
        while !outbox.is_empty() {
            if self.phase.holds_back() || self.open.are_too_many(self.max) {
                return Poll::Pending;
            }
            let Some((number, line)) = outbox.take_first() else { break };
            self.begin(number, line);
        }
        Poll::Ready(())
    }

    fn begin(&mut self, number: u64, mut line: Bytes) {
        line.truncate(line.len() - usize::from(line.ends_with(b"\n")));
        let request = self.open.announced(number);
        self.phase.sends(&line);
        // A server of the modern era is sent requests only.
        if request.is_none() && self.phase.is_modern() {
            return;
        }
        let kept = matches!(self.phase, Phase::New).then(|| line.clone());
        let begun = self.exchange(line, request);
        if let Some(line) = kept {
            self.phase = Phase::Opening { source: begun, line };
        } else if let Phase::Introducing { initialized, source } = &mut self.phase
            && *initialized == number
        {
            *source = Some(begun);
        }
    }

    fn exchange(&mut self, line: Bytes, request: Option<u64>) -> Source {
        self.begun += 1;
        let source = self.begun;
        // Elsewhere the answer is not to be waited for.
        let awaited = request.filter(|_| !matches!(self.phase, Phase::OpenOld));
        let manner = match &self.phase {
            Phase::New => Manner::First,
            phase if phase.is_modern() => Manner::Modern(Arc::clone(&self.mirrors)),
            _ => Manner::Later,
        };
        let is_given_up = Arc::<AtomicBool>::default();
        let exchange = Exchange {
            report: self.desk.reporter(source),
            request: awaited,
            max: self.max,
            manner,
            is_given_up: Arc::clone(&is_given_up),
        };
        let bytes = line.len();
        let abort = if request.is_some() { self.run(exchange.run(line)) } else { self.run(exchange.post(line)) };
        self.open.insert(source, Open { request, bytes, abort, is_given_up });
        source
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (abort, registration) = AbortHandle::new_pair();
        self.running.push(Abortable::new(task.boxed(), registration));
        abort
    }

    /// The next thing that comes, or why nothing will. May be cancelled without loss.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arrival, Parting>> {
        loop {
            while let Poll::Ready(Some(_)) = self.running.poll_next_unpin(cx) {}
            let Poll::Ready(Some((source, news))) = self.desk.poll_news(cx) else {
                return self.parting.take().map_or(Poll::Pending, |parting| Poll::Ready(Err(parting)));
            };
            if let Some(arrival) = self.take(source, news) {
                return Poll::Ready(arrival);
            }
        }
    }

    /// Whether the server turned out to be one of 2024-11-05.
    pub(crate) fn is_old(&self) -> bool {
        matches!(self.phase, Phase::Seeking { .. } | Phase::OpenOld)
    }

    /// Ends all that goes on, and tells the server that the session is over.
    pub(crate) async fn close(self) {
        let place = self.desk.place();
        drop(self);
        if place.has_session() {
            let _ = timeout(FAREWELL, place.delete()).await;
        }
    }
}
