//! How long requests and sessions take: a histogram for each set of labels. Pure.
//!
//! Recording allocates only for a new set of labels. The number of sets of each server is limited. Further sets of it share the set [`OTHER`].
//!
//! Source of names and bounds: opentelemetry.io/docs/specs/semconv/gen-ai/mcp

#![expect(
    clippy::disallowed_types,
    reason = "sessions and servers record, and readers copy; nothing waits while it is locked"
)]

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;

use crate::calls::CallOutcome;

/// Sets of labels of each metric and server. Further ones of the server share the set [`OTHER`].
const MAX_SERIES: usize = 1_000;
/// Upper bounds of the buckets, in seconds. The last bucket has none.
pub const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// The same in milliseconds.
const BOUNDS_MS: [u64; 14] = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];
/// Stands for each value that is not counted by itself.
pub const OTHER: &str = "_OTHER";
/// The name of every tool that no server lists.
static UNLISTED: LazyLock<Arc<str>> = LazyLock::new(|| OTHER.into());

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// A request of mcpd to a server.
    ClientOperation,
    /// A request of an agent to mcpd.
    ServerOperation,
    /// The time that an instance of a server is ready.
    ClientSession,
    /// The session of an agent.
    ServerSession,
}

impl Measured {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ClientOperation, Self::ServerOperation, Self::ClientSession, Self::ServerSession];

    /// The name in the conventions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientOperation => "mcp.client.operation.duration",
            Self::ServerOperation => "mcp.server.operation.duration",
            Self::ClientSession => "mcp.client.session.duration",
            Self::ServerSession => "mcp.server.session.duration",
        }
    }
}

/// A request, as it is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The method, or [`OTHER`] for one of an extension.
    pub method: &'static str,
    /// The server's own name of the tool or prompt.
    pub target: Option<Arc<str>>,
}

impl Operation {
    /// A request with this method; without a name for one of an extension.
    #[must_use]
    pub fn new(method: &'static str, target: Option<Arc<str>>) -> Self {
        Self { method: if method.is_empty() { OTHER } else { method }, target }
    }

    /// The call of a tool that the agent does not have.
    #[must_use]
    pub fn of_unlisted_tool(method: &'static str) -> Self {
        Self::new(method, Some(Arc::clone(&UNLISTED)))
    }
}

/// Why a request or session has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorType {
    /// The code of a server's error.
    Code(i32),
    /// A word of mcpd.
    Word(&'static str),
}

/// The codes that JSON-RPC reserves. Others are free, so a server could invent a new one for each error.
const RESERVED_CODES: std::ops::RangeInclusive<i64> = -32_768..=-32_000;

impl ErrorType {
    /// The error of a request with this outcome; `None` for a success.
    #[must_use]
    pub fn of(outcome: CallOutcome) -> Option<Self> {
        match outcome {
            CallOutcome::Ok => None,
            CallOutcome::Error { code } => {
                let code = code.filter(|code| RESERVED_CODES.contains(code)).and_then(|code| i32::try_from(code).ok());
                Some(code.map_or(Self::Word(OTHER), Self::Code))
            }
            outcome => Some(Self::Word(outcome.word())),
        }
    }
}

/// What distinguishes the series of a metric. A label that does not apply is absent. Borrowed texts do for a series that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels<T = Arc<str>> {
    /// The server.
    pub server: Option<T>,
    /// The profile of the agent.
    pub profile: Option<T>,
    /// The method.
    pub method: Option<&'static str>,
    /// The server's own name of the tool or prompt.
    pub target: Option<T>,
    /// The protocol version.
    pub protocol: Option<&'static str>,
    /// Why it failed.
    pub error: Option<ErrorType>,
}

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Self { server: None, profile: None, method: None, target: None, protocol: None, error: None }
    }
}

impl<'a> Labels<&'a Arc<str>> {
    /// Those of a request with this outcome.
    #[must_use]
    pub fn of(operation: &'a Operation, outcome: CallOutcome) -> Self {
        let Operation { method, target } = operation;
        Self { method: Some(method), target: target.as_ref(), error: ErrorType::of(outcome), ..Self::default() }
    }

    fn to_owned(self) -> Labels {
        let Self { server, profile, method, target, protocol, error } = self;
        let (server, profile, target) = (server.cloned(), profile.cloned(), target.cloned());
        Labels { server, profile, method, target, protocol, error }
    }

    /// Hashes what distinguishes most series. The rest would cost more than the few comparisons that it saves.
    fn hash(self, hasher: &RandomState) -> u64 {
        hasher.hash_one((self.server, self.target, self.error))
    }

    /// Those of everything of a server beyond the limit.
    fn other(server: Option<&'a Arc<str>>) -> Self {
        Self { server, method: Some(OTHER), error: Some(ErrorType::Word(OTHER)), ..Self::default() }
    }
}

impl Labels {
    fn borrowed(&self) -> Labels<&Arc<str>> {
        let Self { server, profile, method, target, protocol, error } = self;
        let (server, profile, target) = (server.as_ref(), profile.as_ref(), target.as_ref());
        Labels { server, profile, method: *method, target, protocol: *protocol, error: *error }
    }
}

/// The durations of one series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations up to each of [`BOUNDS`], and beyond the last.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum of the durations.
    pub total: Duration,
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        let bucket = BOUNDS_MS.iter().position(|bound| took <= Duration::from_millis(*bound));
        self.buckets[bucket.unwrap_or(BOUNDS.len())] += 1;
        self.total += took;
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The series of all metrics. Cheap to clone; each clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Durations(Arc<[Mutex<Series>; 4]>);

/// The series of one metric.
#[derive(Debug, Default)]
struct Series {
    hasher: RandomState,
    all: HashTable<(Labels, Histogram)>,
    /// The number of sets of each server.
    of_servers: HashMap<Option<Arc<str>>, usize>,
}

impl Series {
    fn add(&mut self, labels: Labels<&Arc<str>>, took: Duration) {
        if let Some(histogram) = self.find(labels) {
            return histogram.add(took);
        }
        let is_full = self.of_servers.get(&labels.server.cloned()).is_some_and(|count| *count >= MAX_SERIES);
        let labels = if is_full { Labels::other(labels.server) } else { labels };
        if is_full && let Some(histogram) = self.find(labels) {
            return histogram.add(took);
        }
        *self.of_servers.entry(labels.server.cloned()).or_default() += 1;
        self.insert(labels).add(took);
    }

    fn find(&mut self, labels: Labels<&Arc<str>>) -> Option<&mut Histogram> {
        let hash = labels.hash(&self.hasher);
        self.all.find_mut(hash, |(known, _)| known.borrowed() == labels).map(|(_, histogram)| histogram)
    }

    fn insert(&mut self, labels: Labels<&Arc<str>>) -> &mut Histogram {
        let Self { hasher, all, .. } = self;
        let new = (labels.to_owned(), Histogram::default());
        let entry = all.insert_unique(labels.hash(hasher), new, |(known, _)| known.borrowed().hash(hasher));
        &mut entry.into_mut().1
    }
}

impl Durations {
    /// Counts a duration.
    pub(crate) fn add(&self, measured: Measured, labels: Labels<&Arc<str>>, took: Duration) {
        self.series(measured).add(labels, took);
    }

    /// Removes the series of a server that is not configured any more.
    pub(crate) fn forget(&self, server: &str) {
        for measured in Measured::ALL {
            let Series { all, of_servers, .. } = &mut *self.series(measured);
            all.retain(|(labels, _)| labels.server.as_deref() != Some(server));
            of_servers.retain(|name, _| name.as_deref() != Some(server));
        }
    }

    /// The series of a metric, sorted.
    #[must_use]
    pub(crate) fn read(&self, measured: Measured) -> Vec<(Labels, Histogram)> {
        let mut all: Vec<_> = self.series(measured).all.iter().cloned().collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    fn series(&self, measured: Measured) -> MutexGuard<'_, Series> {
        self.0[measured as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(server: &str, target: &str) -> Labels {
        let operation = Operation::new("tools/call", Some(target.into()));
        Labels { server: Some(&server.into()), ..Labels::of(&operation, CallOutcome::Ok) }.to_owned()
    }

    #[test]
    fn duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for (bound, ms) in BOUNDS.iter().zip(BOUNDS_MS) {
            assert_eq!(Duration::from_secs_f64(*bound), Duration::from_millis(ms));
        }
        let mut histogram = Histogram::default();
        for (micros, bucket) in [(0, 0), (10_000, 0), (10_001, 1), (300_000_000, 13), (300_000_001, 14)] {
            let before = histogram.buckets[bucket];
            histogram.add(Duration::from_micros(micros));
            assert_eq!(histogram.buckets[bucket], before + 1, "{micros} µs");
        }
        assert_eq!(histogram.count(), 5);
        assert_eq!(histogram.total, Duration::from_micros(600_020_002));
    }

    #[test]
    fn series_of_a_server_beyond_its_limit_share_one() {
        let durations = Durations::default();
        let add = |target: usize| {
            durations.add(
                Measured::ClientOperation,
                labels("a", &target.to_string()).borrowed(),
                Duration::from_secs(1),
            );
        };
        (0..MAX_SERIES + 50).for_each(add);
        add(7);
        durations.add(Measured::ClientOperation, labels("b", "t").borrowed(), Duration::ZERO);
        let all = durations.read(Measured::ClientOperation);
        assert_eq!(all.len(), MAX_SERIES + 2);
        let count = |of: Labels| all.iter().find(|(labels, _)| *labels == of).map(|(_, it)| it.count());
        assert_eq!(count(Labels::other(Some(&"a".into())).to_owned()), Some(50));
        assert_eq!(count(labels("b", "t")), Some(1), "another server has its own");
        assert_eq!(count(labels("a", "7")), Some(2), "a series that exists goes on");
        assert!(durations.read(Measured::ServerOperation).is_empty());
    }

    #[test]
    fn series_of_a_removed_server_go() {
        let durations = Durations::default();
        for server in ["a", "b"] {
            durations.add(Measured::ClientOperation, labels(server, "t").borrowed(), Duration::ZERO);
            durations.add(Measured::ServerOperation, labels(server, "t").borrowed(), Duration::ZERO);
        }
        durations.forget("a");
        for measured in [Measured::ClientOperation, Measured::ServerOperation] {
            let left = durations.read(measured).into_iter().map(|(labels, _)| labels);
            assert_eq!(left.collect::<Vec<_>>(), [labels("b", "t")]);
        }
    }

    #[test]
    fn error_has_the_reserved_code_of_the_server_or_a_word() {
        for (outcome, expected) in [
            (CallOutcome::Ok, None),
            (CallOutcome::ToolError, Some(ErrorType::Word("tool_error"))),
            (CallOutcome::Error { code: Some(-32602) }, Some(ErrorType::Code(-32602))),
            (CallOutcome::Error { code: Some(17) }, Some(ErrorType::Word(OTHER))),
            (CallOutcome::Error { code: None }, Some(ErrorType::Word(OTHER))),
            (CallOutcome::TimedOut, Some(ErrorType::Word("timed_out"))),
        ] {
            assert_eq!(ErrorType::of(outcome), expected, "{outcome:?}");
        }
    }
}
