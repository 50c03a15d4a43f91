//! What a server counts. Pure: its tasks write, and readers never wait for them. There are two for as long as one makes way for
//! the other, so whatever is written is a difference.

mod lately;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::lately::Lately;

/// Counters of one server over all its instances.
#[derive(Debug, Default)]
pub struct Stats {
    /// Calls taken.
    pub calls: Counter,
    /// Calls unanswered now.
    pub in_flight: Counter,
    /// Calls that ended in a JSON-RPC error.
    pub errors: Counter,
    /// Instances started after the first.
    pub restarts: Counter,
    /// Instances started because the one before had ended by itself, or had not started; over all instances of a server.
    pub recovered: Arc<Lately>,
    /// Lines on stdout that were no message.
    pub skipped_lines: Counter,
    /// Responses that nobody waited for.
    pub stray_responses: Counter,
    /// Status notifications of tasks that it has not made for anybody.
    pub stray_notifications: Counter,
    /// Instances that answered `initialize` and not `server/discover`, which they were sent 2 s before.
    pub silent_starts: Counter,
}

/// The same at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub calls: u64,
    pub in_flight: u64,
    pub errors: u64,
    pub restarts: u64,
    pub skipped_lines: u64,
    pub stray_responses: u64,
    pub stray_notifications: u64,
    pub silent_starts: u64,
}

impl Totals {
    /// What has been counted since these were `before`; of what is counted now only, what it was.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            in_flight: self.in_flight,
            errors: self.errors - before.errors,
            restarts: self.restarts - before.restarts,
            skipped_lines: self.skipped_lines - before.skipped_lines,
            stray_responses: self.stray_responses - before.stray_responses,
            stray_notifications: self.stray_notifications - before.stray_notifications,
            silent_starts: self.silent_starts - before.silent_starts,
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            in_flight: self.in_flight + other.in_flight,
            errors: self.errors + other.errors,
            restarts: self.restarts + other.restarts,
            skipped_lines: self.skipped_lines + other.skipped_lines,
            stray_responses: self.stray_responses + other.stray_responses,
            stray_notifications: self.stray_notifications + other.stray_notifications,
            silent_starts: self.silent_starts + other.silent_starts,
        }
    }
}

impl Stats {
    /// Those of one of several instances of the server of these.
    pub(super) fn of_instance(&self) -> Self {
        Self { recovered: Arc::clone(&self.recovered), ..Self::default() }
    }

    /// What they are now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            calls: self.calls.get(),
            in_flight: self.in_flight.get(),
            errors: self.errors.get(),
            restarts: self.restarts.get(),
            skipped_lines: self.skipped_lines.get(),
            stray_responses: self.stray_responses.get(),
            stray_notifications: self.stray_notifications.get(),
            silent_starts: self.silent_starts.get(),
        }
    }

    /// Takes over what another counted.
    pub(super) fn take_over(&self, other: Totals) {
        let pairs = [
            (&self.calls, other.calls),
            (&self.errors, other.errors),
            (&self.restarts, other.restarts),
            (&self.skipped_lines, other.skipped_lines),
            (&self.stray_responses, other.stray_responses),
            (&self.stray_notifications, other.stray_notifications),
            (&self.silent_starts, other.silent_starts),
        ];
        for (counter, count) in pairs {
            counter.add(count);
        }
    }
}

/// A number that any task reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Its value now.
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

    /// What was counted as `before` is `now`.
    pub(crate) fn change(&self, before: u64, now: u64) {
        self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}
