//! The counters of a server. Pure: its tasks write, and readers never wait for them.
//!
//! While one task replaces another, both write. So each write is a difference, never an absolute value.

use std::array::from_fn;
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one look or change, without waiting")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::refused_path::{RefusedPath, refused_paths};
use crate::config::Sandbox;
use crate::durations::Durations;

/// Counters of one server over all its instances.
#[derive(Debug, Default)]
pub struct Stats {
    /// Calls received.
    pub calls: Counter,
    /// Calls that are unanswered now.
    pub in_flight: Counter,
    /// Calls that wait for a ready instance.
    pub(super) parked: Arc<Counter>,
    /// Calls that wait at the limit of an instance.
    pub(super) queued: Arc<Counter>,
    /// Instances that have something to do: calls, tasks or requests for agents.
    pub busy: Counter,
    /// Calls that ended in a JSON-RPC error.
    pub errors: Counter,
    /// Instances started after the first.
    pub starts_after_first: Counter,
    /// Starts after a failure within the last hour. Shared by all instances of a server.
    pub failure_restarts: Arc<LastHour>,
    /// Calls that failed at files. Shared by all instances of a server.
    pub refused_calls: Arc<RefusedCallCounter>,
    /// Lines on stdout that were not messages.
    pub skipped_lines: Counter,
    /// Results that were mended.
    pub results_mended: Counter,
    /// Responses without a pending request.
    pub stray_responses: Counter,
    /// Status notifications of unknown tasks.
    pub stray_notifications: Counter,
    /// Instances that answered `initialize`, but not the `server/discover` sent 2 s earlier.
    pub unanswered_discovers: Counter,
    /// How long requests and sessions take. Shared by all servers.
    pub(super) durations: Durations,
    /// The times of answered calls of an embedding program.
    pub(super) answer_times: AnswerCounter,
    /// Whether a call waits for its start. A server that is called starts before others.
    pub(super) is_called: Arc<AtomicBool>,
}

/// The times that answered calls took, from the call of the program to the answer.
#[derive(Debug, Default)]
pub(super) struct AnswerCounter {
    count: Counter,
    total_us: Counter,
    max_us: AtomicU64,
}

impl AnswerCounter {
    /// Counts one answered call.
    pub(super) fn add(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count.add_one();
        self.total_us.add(took);
        self.max_us.fetch_max(took, Ordering::Relaxed);
    }

    /// The present values.
    pub(super) fn read(&self) -> AnswerTimes {
        let max_us = self.max_us.load(Ordering::Relaxed);
        AnswerTimes { count: self.count.get(), total_us: self.total_us.get(), max_us }
    }
}

/// The times that answered calls took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnswerTimes {
    /// Answered calls, with a result or an error of the server.
    pub count: u64,
    /// The sum of their times, in microseconds: from the call to its answer, with the wait for a server that was starting.
    pub total_us: u64,
    /// The longest of these times, in microseconds.
    pub max_us: u64,
}

impl AnswerTimes {
    /// The mean time; `None` before the first answer.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.total_us.checked_div(self.count).map(Duration::from_micros)
    }
}

/// The values of [`Stats`] at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    pub in_flight: u64,
    pub parked: u64,
    pub queued: u64,
    pub busy: u64,
    pub errors: u64,
    pub starts_after_first: u64,
    pub skipped_lines: u64,
    pub results_mended: u64,
    pub stray_responses: u64,
    pub stray_notifications: u64,
    pub unanswered_discovers: u64,
}

impl Totals {
    /// The difference to the earlier totals `before`. Numbers of the moment, such as `in_flight`, stay as they are.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            in_flight: self.in_flight,
            parked: self.parked,
            queued: self.queued,
            busy: self.busy,
            errors: self.errors - before.errors,
            starts_after_first: self.starts_after_first - before.starts_after_first,
            skipped_lines: self.skipped_lines - before.skipped_lines,
            results_mended: self.results_mended - before.results_mended,
            stray_responses: self.stray_responses - before.stray_responses,
            stray_notifications: self.stray_notifications - before.stray_notifications,
            unanswered_discovers: self.unanswered_discovers - before.unanswered_discovers,
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            in_flight: self.in_flight + other.in_flight,
            parked: self.parked + other.parked,
            queued: self.queued + other.queued,
            busy: self.busy + other.busy,
            errors: self.errors + other.errors,
            starts_after_first: self.starts_after_first + other.starts_after_first,
            skipped_lines: self.skipped_lines + other.skipped_lines,
            results_mended: self.results_mended + other.results_mended,
            stray_responses: self.stray_responses + other.stray_responses,
            stray_notifications: self.stray_notifications + other.stray_notifications,
            unanswered_discovers: self.unanswered_discovers + other.unanswered_discovers,
        }
    }
}

impl Stats {
    /// Counters of a new server.
    pub(super) fn new(durations: Durations) -> Self {
        Self { durations, ..Self::default() }
    }

    /// New counters for one of several instances.
    pub(super) fn of_instance(&self) -> Self {
        Self {
            failure_restarts: Arc::clone(&self.failure_restarts),
            refused_calls: Arc::clone(&self.refused_calls),
            durations: self.durations.clone(),
            ..Self::default()
        }
    }

    /// The present values.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            calls: self.calls.get(),
            in_flight: self.in_flight.get(),
            parked: self.parked.get(),
            queued: self.queued.get(),
            busy: self.busy.get(),
            errors: self.errors.get(),
            starts_after_first: self.starts_after_first.get(),
            skipped_lines: self.skipped_lines.get(),
            results_mended: self.results_mended.get(),
            stray_responses: self.stray_responses.get(),
            stray_notifications: self.stray_notifications.get(),
            unanswered_discovers: self.unanswered_discovers.get(),
        }
    }

    /// Adds the counts of another instance.
    pub(super) fn take_over(&self, other: Totals) {
        let pairs = [
            (&self.calls, other.calls),
            (&self.errors, other.errors),
            (&self.starts_after_first, other.starts_after_first),
            (&self.skipped_lines, other.skipped_lines),
            (&self.results_mended, other.results_mended),
            (&self.stray_responses, other.stray_responses),
            (&self.stray_notifications, other.stray_notifications),
            (&self.unanswered_discovers, other.unanswered_discovers),
        ];
        for (counter, count) in pairs {
            counter.add(count);
        }
    }
}

/// A number that any task can read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The present value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds the difference between `before` and `now`.
    pub(crate) fn change(&self, before: u64, now: u64) {
        self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

/// A number of things of one owner, which also counts in the total of all owners.
#[derive(Debug, Default)]
pub(super) struct Tally {
    count: usize,
    total: Arc<Counter>,
}

impl Tally {
    pub(super) fn of(total: Arc<Counter>) -> Self {
        Self { count: 0, total }
    }

    pub(super) fn get(&self) -> usize {
        self.count
    }

    pub(super) fn set(&mut self, count: usize) {
        self.total.change(self.count as u64, count as u64);
        self.count = count;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Counts one instance in [`Stats::busy`] while it has something to do.
#[derive(Debug)]
pub(super) struct BusyMark {
    stats: Arc<Stats>,
    is_busy: bool,
}

impl BusyMark {
    pub(super) fn new(stats: Arc<Stats>) -> Self {
        Self { stats, is_busy: false }
    }

    pub(super) fn set(&mut self, is_busy: bool) {
        self.stats.busy.change(self.is_busy.into(), is_busy.into());
        self.is_busy = is_busy;
    }
}

impl Drop for BusyMark {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Slots of the count: one for each minute.
const MINUTES: usize = 60;

/// A count for each minute of the last hour.
#[derive(Debug)]
pub struct LastHour {
    /// The time of the first event.
    began: OnceLock<Instant>,
    /// One slot per minute. Upper half: the minute since `began`, counted from 1. Lower half: the count in that minute.
    minutes: [AtomicU64; MINUTES],
}

impl Default for LastHour {
    fn default() -> Self {
        Self { began: OnceLock::new(), minutes: from_fn(|_| AtomicU64::new(0)) }
    }
}

impl LastHour {
    /// Counts one event at `now`.
    pub(crate) fn add(&self, now: Instant) {
        let minute = minute_of(now, *self.began.get_or_init(|| now));
        let slot = &self.minutes[usize::try_from(minute).unwrap_or_default() % MINUTES];
        // A count of an earlier hour is overwritten. There is one writer at a time.
        let before = Some(slot.load(Ordering::Relaxed)).filter(|before| before >> 32 == minute);
        slot.store(before.unwrap_or(minute << 32) + 1, Ordering::Relaxed);
    }

    /// The number of events within the hour before `now`.
    #[must_use]
    pub fn count(&self, now: Instant) -> u64 {
        let Some(began) = self.began.get() else { return 0 };
        let last = minute_of(now, *began);
        let first = last.saturating_sub(MINUTES as u64 - 1);
        let counts = self.minutes.iter().map(|slot| slot.load(Ordering::Relaxed));
        counts.filter(|count| (first..=last).contains(&(count >> 32))).map(|count| count & u64::from(u32::MAX)).sum()
    }
}

/// Counted from 1, so that an unused slot matches no minute.
fn minute_of(now: Instant, began: Instant) -> u64 {
    now.saturating_duration_since(began).as_secs() / 60 + 1
}

/// Maximum number of paths that are kept. Others are dropped.
const MAX_PATHS: usize = 32;
/// Largest answer that is searched, in bytes. An error about a file is short.
const MAX_SEARCHED: usize = 64 << 10;

/// Calls that failed at files, at sandbox level `files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusedCalls {
    /// How many.
    pub calls: usize,
    /// The paths that their errors name, at most 32. Some may exist neither inside nor outside the sandbox.
    pub paths: Vec<RefusedPath>,
}

/// Calls that failed at files. Shared by all instances of a server.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub struct RefusedCallCounter(Mutex<(Option<Sandbox>, RefusedCalls)>);

impl RefusedCallCounter {
    /// Notes a result or an error of a server with this sandbox, if it is about files. Forgets what another sandbox has refused.
    pub(crate) fn note(&self, sandbox: &Sandbox, answer: &[u8]) {
        let mut paths = Vec::new();
        if answer.len() <= MAX_SEARCHED
            && let Ok(answer) = serde_json::from_slice(answer)
        {
            search(&answer, &mut paths);
        }
        if paths.is_empty() {
            return;
        }
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.0.as_ref() != Some(sandbox) {
            *noted = (Some(sandbox.clone()), RefusedCalls::default());
        }
        noted.1.calls += 1;
        for path in paths {
            if noted.1.paths.len() < MAX_PATHS && !noted.1.paths.contains(&path) {
                noted.1.paths.push(path);
            }
        }
    }

    /// The calls of a server that has this sandbox.
    pub(crate) fn of(&self, sandbox: &Sandbox) -> Option<RefusedCalls> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (noted.0.as_ref() == Some(sandbox)).then(|| noted.1.clone())
    }
}

/// Searches all texts of a value.
fn search(value: &Value, paths: &mut Vec<RefusedPath>) {
    match value {
        Value::String(text) => paths.extend(text.lines().flat_map(refused_paths)),
        Value::Array(all) => all.iter().for_each(|one| search(one, paths)),
        Value::Object(all) => all.values().for_each(|one| search(one, paths)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn events_older_than_an_hour_do_not_count() {
        let begin = Instant::now();
        let at = |minutes: u64| begin + Duration::from_secs(minutes * 60);
        let last_hour = LastHour::default();
        assert_eq!(last_hour.count(begin), 0);
        for minute in [0, 0, 1, 30, 59] {
            last_hour.add(at(minute));
        }
        for (minute, expected) in [(0, 2), (1, 3), (59, 5), (60, 3), (61, 2), (118, 1), (119, 0), (10_000, 0)] {
            assert_eq!(last_hour.count(at(minute)), expected, "after {minute} minutes");
        }
        last_hour.add(at(60));
        last_hour.add(at(120));
        assert_eq!(last_hour.count(at(120)), 1, "the places of an hour ago are used again");
    }

    #[test]
    fn endless_events_are_counted_in_the_same_memory() {
        let begin = Instant::now();
        let last_hour = LastHour::default();
        (0..100_000).for_each(|second| last_hour.add(begin + Duration::from_secs(second)));
        let count = last_hour.count(begin + Duration::from_secs(99_999));
        assert!((3_540..=3_600).contains(&count), "{count}");
    }
}
