//! The newest calls, in memory, and which of them an operator requests. Subscribers and the file receive each call as soon as it ends.

#![expect(clippy::disallowed_types, reason = "sessions write and operators read; nothing waits while it is locked")]

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::file::{self, FileWriter};
use super::report::RunningCallReport;
use super::running::{QuestionReceiver, Questions};
use super::{CompletedCall, Entry};

/// Subscribers at once. A further request gets entries without a subscription.
const MAX_SUBSCRIBERS: usize = 32;
/// Entries in memory: enough to look back over a working session. `call_log` keeps more.
const MAX_ENTRIES: usize = 1000;
/// Entries that a subscriber may be behind. Beyond that it misses the oldest ones, and receives their number.
const QUEUE_LEN: usize = 1024;

/// Where calls are recorded, and where operators read them; cheap to clone.
#[derive(Debug, Clone)]
pub struct History(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    state: Mutex<HistoryState>,
    subscribers: broadcast::Sender<Arc<Entry>>,
    questions: Questions,
}

#[derive(Debug)]
struct HistoryState {
    /// At most [`MAX_ENTRIES`], oldest first.
    entries: VecDeque<Arc<Entry>>,
    file: Option<FileWriter>,
}

/// What an operator has requested.
#[derive(Debug)]
pub struct HistoryResponse {
    /// Oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Entries missing in the file, because it could not be written or too many calls ended at once.
    pub unwritten: u64,
    /// Later entries, if requested and if the limit of subscribers is not reached.
    pub subscription: Option<Subscription>,
}

/// Receives the calls that end.
#[derive(Debug)]
pub struct Subscription {
    filter: Filter,
    entries: broadcast::Receiver<Arc<Entry>>,
}

/// What a subscriber receives.
#[derive(Debug)]
pub enum CallEvent {
    /// The next entry.
    Entry(Arc<Entry>),
    /// The number of entries missed before the next one.
    Missed(u64),
}

impl History {
    /// An empty history, which also writes each entry to `file`.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        let state = Mutex::new(HistoryState { entries: VecDeque::new(), file: file.and_then(file::start) });
        let (subscribers, questions) = (broadcast::Sender::new(QUEUE_LEN), Questions::new());
        Self(Arc::new(Parts { state, subscribers, questions }))
    }

    /// The oldest calls that run, of all sessions, oldest first. Does not wait long.
    pub async fn running(&self) -> Vec<RunningCallReport> {
        self.0.questions.ask().await
    }

    /// For a session, which answers with its running calls.
    pub(crate) fn questions(&self) -> QuestionReceiver {
        self.0.questions.subscribe()
    }

    pub(crate) fn push(&self, record: CompletedCall) {
        let time = SystemTime::now().checked_sub(record.ended.since(record.began)).unwrap_or(SystemTime::UNIX_EPOCH);
        let entry = Arc::new(Entry { time, record });
        // Fails if there is no subscriber.
        let _ = self.0.subscribers.send(Arc::clone(&entry));
        let mut state = self.lock();
        state.file.iter().for_each(|file| file.push(&entry));
        if state.entries.len() >= MAX_ENTRIES {
            state.entries.pop_front();
        }
        state.entries.push_back(entry);
    }

    /// The last entries that `filter` admits, oldest first, at most `last`. With `follow` also a subscription to later entries.
    #[must_use]
    pub fn read(&self, last: usize, filter: Filter, follow: bool) -> HistoryResponse {
        let state = self.lock();
        let admitted = state.entries.iter().rev().filter(|entry| filter.admits(&entry.record));
        let mut entries: Vec<_> = admitted.take(last).cloned().collect();
        entries.reverse();
        let unwritten = state.file.as_ref().map_or(0, FileWriter::unwritten);
        let follows = follow && self.0.subscribers.receiver_count() < MAX_SUBSCRIBERS;
        let subscription = follows.then(|| Subscription { filter, entries: self.0.subscribers.subscribe() });
        HistoryResponse { entries, unwritten, subscription }
    }

    /// Waits until the file has every entry, for a limited time. Returns whether it has.
    pub async fn finish(&self) -> bool {
        let file = self.lock().file.take();
        match file {
            Some(file) => file.finish().await,
            None => true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HistoryState> {
        // A panic elsewhere cannot leave a half-written value here.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The next event; `None` once the history is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<CallEvent> {
        loop {
            match self.entries.recv().await {
                Ok(entry) if self.filter.admits(&entry.record) => return Some(CallEvent::Entry(entry)),
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Some(CallEvent::Missed(missed)),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Conditions on a call. An absent condition holds for every call.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The call was routed to this server.
    pub server: Option<String>,
    /// The call was of this tool.
    pub tool: Option<ToolFilter>,
}

/// A tool, by the name in the command line and by its routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFilter {
    /// The name as given. It also selects calls of an unknown tool with this name.
    pub name: String,
    /// Server and the server's own name for the tool.
    pub routes: Vec<(String, String)>,
}

impl Filter {
    /// Whether `record` meets all conditions.
    pub(super) fn admits(&self, record: &CompletedCall) -> bool {
        let server = record.server.as_deref();
        (self.server.is_none() || self.server.as_deref() == server)
            && self.tool.as_ref().is_none_or(|tool| tool.admits(server, &record.tool))
    }
}

impl ToolFilter {
    fn admits(&self, server: Option<&str>, tool: &str) -> bool {
        match server {
            Some(server) => {
                self.routes.iter().any(|(route_server, route_tool)| route_server == server && route_tool == tool)
            }
            None => self.name == tool,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::{CallOutcome, Caller, Moment};
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

    #[test]
    fn history_has_exactly_the_newest_entries() {
        let history = History::new(None);
        (0..5000).for_each(|_| history.push(record("a")));
        let found = history.read(usize::MAX, Filter::default(), false);
        assert_eq!((found.entries.len(), found.unwritten), (MAX_ENTRIES, 0));
        assert_eq!(history.read(7, Filter::default(), false).entries.len(), 7);
    }

    /// The entries that are there, and the number that the subscriber is notified to have missed.
    fn received(subscription: &mut Subscription) -> (usize, u64) {
        std::iter::from_fn(|| subscription.next().now_or_never().flatten()).fold((0, 0), |(entries, missed), event| {
            match event {
                CallEvent::Entry(_) => (entries + 1, missed),
                CallEvent::Missed(more) => (entries, missed + more),
            }
        })
    }

    #[test]
    fn slow_subscriber_receives_the_number_of_missed_entries() {
        let history = History::new(None);
        let filter = Filter { server: Some("a".into()), tool: None };
        let mut subscription = history.read(0, filter, true).subscription.expect("a place");
        history.push(record("a"));
        history.push(record("b"));
        assert_eq!(received(&mut subscription), (1, 0));
        (0..QUEUE_LEN + 9).for_each(|_| history.push(record("a")));
        assert_eq!(received(&mut subscription), (QUEUE_LEN, 9));
    }

    #[test]
    fn subscribers_are_limited_until_one_leaves() {
        let history = History::new(None);
        let subscribe = || history.read(0, Filter::default(), true).subscription;
        let mut subscriptions: Vec<_> = (0..MAX_SUBSCRIBERS).map(|_| subscribe().expect("a place")).collect();
        assert!(subscribe().is_none());
        subscriptions.pop();
        assert!(subscribe().is_some());
    }

    #[test]
    fn tool_is_selected_by_its_route_and_an_unknown_tool_by_its_name() {
        let routes = vec![("files".to_owned(), "read".to_owned())];
        let filter = ToolFilter { name: "files__read".to_owned(), routes };
        for (server, tool, expected) in [
            (Some("files"), "read", true),
            (Some("git"), "read", false),
            (Some("files"), "files__read", false),
            (None, "files__read", true),
            (None, "read", false),
        ] {
            assert_eq!(filter.admits(server, tool), expected, "{server:?} {tool}");
        }
    }
}
