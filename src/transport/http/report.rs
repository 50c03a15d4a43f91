//! What those who talk to the server tell the one who keeps the connection, and what they know from it.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HeaderValue;
use tokio::sync::{mpsc, watch};

use super::place::{Learnt, Place};
use super::{Lost, Parting};
use crate::net::body::{TURNS, Turn};
use crate::transport::Incoming;

/// Messages that wait for the server's task. It takes them at every turn; when there are so many, streams wait to be read.
const PLACES: usize = 64;

/// What has happened.
#[derive(Debug)]
pub(super) enum News {
    /// On a stream that is only the request's own, or not.
    Message(Incoming, Ownership),
    Session(HeaderValue),
    Learnt(Learnt),
    /// The stream for what the server says by itself is open, or there is none.
    Attended,
    /// Where messages are to be sent to.
    Endpoint(url::Url),
    /// A message was sent, and answered if it was a request.
    Done,
    /// A request has no answer.
    Lost(Lost),
    /// A request was given up long enough ago.
    Forgotten,
    /// Nothing can be sent any more.
    Parted(Parting),
}

/// Whether all that is on a stream is about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    OfRequest,
    /// Where a stream is gone on with, servers are seen to repeat what was on others, too.
    Unknown,
}

/// Who tells it: the number of an exchange, or that of the listener.
pub(super) type Source = u64;

/// What is told, and by whom. A queue has room for 32 from its first moment, which is 5 KiB unless that is elsewhere.
type Told = Box<(Source, News)>;

/// The way to whoever keeps the connection.
#[derive(Debug)]
pub(super) struct Reporter {
    source: Source,
    to: mpsc::Sender<Told>,
    place: watch::Receiver<Arc<Place>>,
    turn: Arc<Turn>,
}

/// Both ends of all ways there.
pub(super) struct Desk {
    to: mpsc::Sender<Told>,
    news: mpsc::Receiver<Told>,
    place: watch::Sender<Arc<Place>>,
    turn: Arc<Turn>,
}

impl Desk {
    pub(super) fn new(place: Place) -> Self {
        let (to, news) = mpsc::channel(PLACES);
        Self { to, news, place: watch::Sender::new(Arc::new(place)), turn: Arc::new(Turn::new(TURNS)) }
    }

    pub(super) fn reporter(&self, source: Source) -> Reporter {
        let (to, place, turn) = (self.to.clone(), self.place.subscribe(), Arc::clone(&self.turn));
        Reporter { source, to, place, turn }
    }

    /// The next thing that is told. May be cancelled without loss.
    pub(super) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Source, News)>> {
        self.news.poll_recv(cx).map(|told| told.map(|told| *told))
    }

    pub(super) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place.borrow())
    }

    /// What is sent from now on is sent there, and so.
    pub(super) fn change(&self, change: impl FnOnce(&mut Place)) {
        self.place.send_modify(|place| change(Arc::make_mut(place)));
    }
}

impl Reporter {
    /// Tells it, once there is room.
    pub(super) async fn tell(&self, news: News) {
        let _ = self.to.send(Box::new((self.source, news))).await;
    }

    /// The same for what was learnt, if anything was.
    pub(super) async fn learnt(&self, learnt: Learnt) {
        if learnt.token.is_some() || learnt.url.is_some() {
            self.tell(News::Learnt(learnt)).await;
        }
    }

    /// As it is now.
    pub(super) fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place.borrow())
    }

    /// In which large answers of this server are read.
    pub(super) fn turn(&self) -> &Arc<Turn> {
        &self.turn
    }
}
