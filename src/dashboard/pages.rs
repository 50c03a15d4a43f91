//! The open pages: each has an event stream (`text/event-stream`), which begins with everything and goes on with differences.

#![expect(
    clippy::disallowed_types,
    reason = "a page that opens gets everything, then each difference, so both are locked together; one that falls behind gets everything again"
)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::board::{Board, Event};
use super::sentences::Advice;
use crate::admin::AdminError;
use crate::admin::report::Report;
use crate::calls::report::CallReport;

/// Events that a page has not read yet. One that falls further behind gets everything again.
const BEHIND: usize = 64;
/// A stream without an event gets a comment so often, which shows whether its page is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b":\n\n";

pub(super) struct Pages {
    board: Mutex<Board>,
    started: Instant,
    events: broadcast::Sender<Bytes>,
    open: watch::Sender<Open>,
}

/// How many pages are open, and since when there is none.
#[derive(Debug, Clone, Copy)]
struct Open {
    count: usize,
    idle_since: Instant,
}

impl Pages {
    pub(super) fn new() -> Self {
        let started = Instant::now();
        let open = watch::Sender::new(Open { count: 0, idle_since: started });
        Self { board: Mutex::default(), started, events: broadcast::Sender::new(BEHIND), open }
    }

    pub(super) fn are_open(&self) -> bool {
        self.open.borrow().count > 0
    }

    /// Waits until a page opens while there is none.
    pub(super) async fn first_opened(&self) {
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| open.count == 0).await;
        let _ = open.wait_for(|open| open.count > 0).await;
    }

    /// Waits until there was no page for this time.
    pub(super) async fn idle_for(&self, limit: Duration) {
        let mut open = self.open.subscribe();
        loop {
            let Open { count, idle_since } = *open.borrow_and_update();
            tokio::select! {
                () = sleep_until(idle_since + limit), if count == 0 => return,
                changed = open.changed() => if changed.is_err() { return },
            }
        }
    }

    pub(super) fn report(&self, report: &Report, advice: &Advice) {
        let now = self.now();
        self.update(|board| board.report(report, advice, now).into_iter().collect());
    }

    pub(super) fn outage(&self, error: &AdminError) {
        self.update(|board| board.outage(&error.to_string()).into_iter().collect());
    }

    /// A call has ended. Pages get it with the next [`Pages::tick`].
    pub(super) fn call(&self, call: CallReport) {
        self.board().call(call, self.now());
    }

    pub(super) fn missed(&self, count: u64) {
        self.board().missed(count);
    }

    /// Sends what happens often.
    pub(super) fn tick(&self) {
        self.update(Board::news);
    }

    fn update(&self, change: impl FnOnce(&mut Board) -> Vec<Event>) {
        // A page that opens meanwhile gets all of it, or none.
        let mut board = self.board();
        let events = change(&mut board);
        if self.events.receiver_count() > 0 {
            events.iter().for_each(|event| drop(self.events.send(encoded(event))));
        }
    }

    /// The events of a page that opens. The page counts as open until the stream is dropped.
    pub(super) fn stream(self: &Arc<Self>) -> impl Stream<Item = Bytes> + Send + 'static {
        self.open.send_modify(|open| open.count += 1);
        let (first, receiver) = self.subscribe();
        stream::unfold((OpenPage(Arc::clone(self)), Some(first), receiver), |(page, first, mut receiver)| async move {
            if let Some(first) = first {
                return Some((first, (page, None, receiver)));
            }
            let event = match timeout(KEEP_ALIVE, receiver.recv()).await {
                Err(_) => Bytes::from_static(COMMENT),
                Ok(Ok(event)) => event,
                Ok(Err(RecvError::Lagged(_))) => {
                    let everything;
                    (everything, receiver) = page.0.subscribe();
                    everything
                }
                Ok(Err(RecvError::Closed)) => return None,
            };
            Some((event, (page, None, receiver)))
        })
    }

    /// Everything, and the events that follow.
    fn subscribe(&self) -> (Bytes, broadcast::Receiver<Bytes>) {
        let board = self.board();
        (encoded(&board.everything(self.now())), self.events.subscribe())
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

struct OpenPage(Arc<Pages>);

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| {
            open.count -= 1;
            open.idle_since = Instant::now();
        });
    }
}

/// JSON has no line ends of its own.
fn encoded(Event { name, data }: &Event) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn process_is_idle_once_no_page_was_open_for_the_limit() {
        let (pages, limit) = (Arc::new(Pages::new()), Duration::from_millis(50));
        let mut stream = Box::pin(pages.stream());
        assert!(stream.next().await.expect("an event").starts_with(b"event: everything\ndata: {"));
        assert!(timeout(limit * 2, pages.idle_for(limit)).await.is_err(), "a page is open");
        let closed = Instant::now();
        drop(stream);
        pages.idle_for(limit).await;
        assert!(closed.elapsed() >= limit);
    }

    #[tokio::test]
    async fn page_that_does_not_read_gets_everything_again() {
        let pages = Arc::new(Pages::new());
        let mut stream = Box::pin(pages.stream());
        stream.next().await.expect("everything");
        let outage = |number: usize| pages.outage(&AdminError::Refused(number.to_string()));
        (0..=BEHIND).for_each(outage);
        let next = stream.next().await.expect("an event");
        assert!(next.starts_with(b"event: everything\n") && next.ends_with(b"\n\n"), "{next:?}");
        outage(BEHIND + 1);
        assert!(stream.next().await.expect("an event").starts_with(b"event: change\n"));
    }
}
