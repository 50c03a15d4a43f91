//! The task that owns the history. It answers requests and sends later entries to subscribers.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::file::{self, FileWriter};
use super::ring::NEVER;
use super::subscriber::{CallEvent, Subscriber};
use super::{Entry, HistoryRequest, Log, MAX_QUEUED_REQUESTS, Reader};
use crate::clock::WallClockAnchor;
use crate::deadline_timer::DeadlineTimer;

/// Subscribers at once. A further request gets entries without a subscription.
const MAX_SUBSCRIBERS: usize = 32;
/// Entries in memory: enough to look back over a working session. `call_log` keeps more.
const MAX_ENTRIES: usize = 1000;
/// Pause after a batch for a subscriber or the file. A quarter of a full ring ends it early.
const BATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The answer to a [`HistoryRequest`].
#[derive(Debug)]
pub struct HistoryResponse {
    /// Oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Entries missing in the file, because it could not be written or too many calls ended at once.
    pub unwritten: u64,
    /// Later entries, if requested and if the limit of subscribers is not reached.
    pub subscription: Option<mpsc::Receiver<CallEvent>>,
}

/// The running history task. It ends when this is dropped; [`RunningHistory::finish`] waits for that.
#[derive(Debug)]
pub struct RunningHistory {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunningHistory {
    /// Ends the task after it has written what is left in the ring, within a bounded time.
    pub async fn finish(self) {
        drop(self.stop);
        // A panic of the task was reported when it happened.
        let _ = self.task.await;
    }
}

struct History {
    log: Log,
    requests: mpsc::Receiver<HistoryRequest>,
    /// At most [`MAX_ENTRIES`], oldest first.
    entries: VecDeque<Arc<Entry>>,
    subscribers: Vec<Subscriber>,
    file: Option<FileWriter>,
    timer: DeadlineTimer,
    resting: bool,
}

/// Starts the history task, which also writes each entry to `file`.
///
/// # Errors
/// If the system cannot create a timer.
pub fn start(file: Option<PathBuf>) -> io::Result<(Log, Reader, RunningHistory)> {
    let log = Log::new();
    let (request_sender, requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let history = History {
        log: log.clone(),
        requests,
        entries: VecDeque::new(),
        subscribers: Vec::new(),
        file: file.and_then(file::start),
        timer: DeadlineTimer::new()?,
        resting: false,
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(history.run(stopped));
    Ok((log, Reader(request_sender), RunningHistory { stop, task }))
}

impl History {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let is_watched = self.file.is_some() || !self.subscribers.is_empty();
            self.log.wake_at(match self.resting {
                _ if !is_watched => NEVER,
                true => self.log.capacity() / 4,
                false => 1,
            });
            tokio::select! {
                () = self.log.woken() => self.take_batch(),
                () = self.timer.elapsed() => self.take_batch(),
                Some(request) = self.requests.recv() => self.answer(request),
                _ = &mut stopped => break,
            }
        }
        self.take_all();
        if let Some(file) = self.file.take() {
            file.finish().await;
        }
    }

    /// Takes all entries. Pauses afterwards if there were any, or if a subscriber has not received its count of missed entries.
    fn take_batch(&mut self) {
        self.resting = self.take_all();
        for subscriber in &mut self.subscribers {
            self.resting |= !subscriber.send_missed();
        }
        self.timer.set(self.resting.then(|| Instant::now() + BATCH_INTERVAL));
    }

    /// Takes all entries from the ring. Returns whether there were any.
    fn take_all(&mut self) -> bool {
        let lost = self.log.take_overwritten();
        if lost > 0 {
            self.subscribers.iter_mut().for_each(|subscriber| subscriber.add_missed(lost));
            self.file.iter().for_each(|file| file.add_missed(lost));
        }
        let anchor = WallClockAnchor::now();
        let mut taken = 0;
        // At most one full ring, however fast it is refilled.
        while taken < self.log.capacity()
            && let Some(record) = self.log.pop()
        {
            taken += 1;
            self.take(Arc::new(Entry { time: anchor.time_of(record.began), record }));
        }
        taken > 0
    }

    fn take(&mut self, entry: Arc<Entry>) {
        if let Some(file) = &self.file {
            file.push(&entry);
        }
        self.subscribers.retain_mut(|subscriber| subscriber.send(&entry));
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    fn answer(&mut self, request: HistoryRequest) {
        // The response includes every call that ended before the request.
        self.take_all();
        let HistoryRequest { last, filter, follow, response } = request;
        let admitted = self.entries.iter().rev().filter(|entry| filter.admits(&entry.record));
        let mut entries: Vec<_> = admitted.take(last).cloned().collect();
        entries.reverse();
        self.subscribers.retain(|subscriber| !subscriber.is_closed());
        let subscription = (follow && self.subscribers.len() < MAX_SUBSCRIBERS).then(|| {
            let (subscriber, subscription) = Subscriber::new(filter);
            self.subscribers.push(subscriber);
            subscription
        });
        let unwritten = self.file.as_ref().map_or(0, FileWriter::unwritten);
        // The reader may have disconnected.
        let _ = response.send(HistoryResponse { entries, unwritten, subscription });
    }
}

#[cfg(test)]
mod tests {
    use super::super::subscriber::EVENT_QUEUE_LEN;
    use super::super::{CallOutcome, Caller, CompletedCall, Filter, Moment};
    use super::*;

    fn record(server: &str) -> CompletedCall {
        let caller = Caller { session: 1, profile: "default".into(), pid: None, uid: 0, client: None };
        CompletedCall {
            began: Moment::now(),
            ended: Moment::now(),
            caller: Arc::new(caller),
            server: Some(server.into()),
            tool: "t".into(),
            outcome: CallOutcome::Ok,
            request_bytes: 0,
            reply_bytes: 0,
            arguments: None,
        }
    }

    fn started() -> (Log, Reader, RunningHistory) {
        start(None).expect("a timer")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn history_has_exactly_the_newest_entries() {
        let (log, reader, running) = started();
        (0..5000).for_each(|_| log.push(record("a")));
        let response = reader.read(usize::MAX, Filter::default(), false).await.expect("it runs");
        assert_eq!((response.entries.len(), response.unwritten), (MAX_ENTRIES, 0));
        running.finish().await;
        assert!(reader.read(1, Filter::default(), false).await.is_none());
    }

    /// The number of entries that a subscriber received, and the number that it was notified to have missed.
    fn received(subscription: &mut mpsc::Receiver<CallEvent>) -> (u64, u64) {
        std::iter::from_fn(|| subscription.try_recv().ok()).fold((0, 0), |(entries, missed), event| match event {
            CallEvent::Entry(_) => (entries + 1, missed),
            CallEvent::Missed(more) => (entries, missed + more),
        })
    }

    #[tokio::test(flavor = "current_thread")]
    async fn slow_subscriber_receives_the_number_of_missed_entries() {
        let (log, reader, _keeping) = started();
        let mut subscription = reader
            .read(0, Filter { server: Some("a".into()), tool: None }, true)
            .await
            .and_then(|response| response.subscription)
            .expect("a place");
        // The subscriber does not read, and its queue is full after this many.
        for _ in 0..2 {
            (0..EVENT_QUEUE_LEN / 2 + 3).for_each(|_| log.push(record("a")));
            log.push(record("b"));
            reader.read(0, Filter::default(), false).await.expect("it runs");
        }
        assert_eq!(received(&mut subscription), (EVENT_QUEUE_LEN as u64, 0));
        // More at once than the ring holds.
        let more = log.capacity() as u64 + 9;
        (0..more).for_each(|_| log.push(record("a")));
        let (mut entries, mut missed) = (0, 0);
        while entries + missed < more + 6 {
            // No later entry arrives that could carry the number.
            match subscription.recv().await.expect("it runs") {
                CallEvent::Entry(_) => entries += 1,
                CallEvent::Missed(lost) => missed += lost,
            }
        }
        assert_eq!((entries + missed, received(&mut subscription)), (more + 6, (0, 0)));
        assert!(missed >= 6 + 9, "{missed}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn subscribers_are_limited_until_one_leaves() {
        let (_log, reader, _keeping) = started();
        let mut subscriptions = Vec::new();
        for _ in 0..MAX_SUBSCRIBERS {
            subscriptions.push(
                reader
                    .read(0, Filter::default(), true)
                    .await
                    .and_then(|response| response.subscription)
                    .expect("a place"),
            );
        }
        let subscribe = || async { reader.read(0, Filter::default(), true).await.expect("it runs").subscription };
        assert!(subscribe().await.is_none());
        subscriptions.pop();
        assert!(subscribe().await.is_some());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn subscriber_receives_every_burst() {
        let (log, reader, _keeping) = started();
        let mut subscription =
            reader.read(0, Filter::default(), true).await.and_then(|response| response.subscription).expect("a place");
        // The first entry arrives at once, the rest after the pause, and the next burst at once again.
        for burst in [1, 700, 1] {
            (0..burst).for_each(|_| log.push(record("a")));
            for _ in 0..burst {
                assert!(matches!(subscription.recv().await, Some(CallEvent::Entry(_))));
            }
        }
    }
}
