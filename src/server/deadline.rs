//! The deadline of a call. Pure: time is passed in.

use std::time::{Duration, Instant};

use crate::config::CallLimit;

/// A deadline that progress postpones, up to the limit of the whole call.
#[derive(Debug)]
pub(super) struct Deadline {
    at: Instant,
    latest: Instant,
    limit: CallLimit,
}

impl Deadline {
    /// The deadline of a call that begins `now`.
    pub(super) fn new(limit: CallLimit, now: Instant) -> Self {
        let latest = now + limit.total;
        Self { at: latest.min(now + limit.progress_timeout), latest, limit }
    }

    /// Postpones the deadline, as the call makes progress at `now`.
    pub(super) fn extend(&mut self, now: Instant) {
        self.at = self.at.max(self.latest.min(now + self.limit.progress_timeout));
    }

    /// Ends the call at `now`, as nobody waits for it.
    pub(super) fn end(&mut self, now: Instant) {
        self.at = self.at.min(now);
    }

    /// The present deadline.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// The start of the call.
    pub(super) fn begun(&self) -> Instant {
        self.latest - self.limit.total
    }

    /// The limits of the call.
    pub(super) fn limits(&self) -> CallLimit {
        self.limit
    }

    /// Which limit the deadline comes from: the total or the silence.
    pub(super) fn current_limit(&self) -> Duration {
        if self.at == self.latest { self.limit.total } else { self.limit.progress_timeout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_without_progress_ends_at_the_shorter_limit() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (progress_timeout, total) in [(1, 9), (9, 1), (5, 5)] {
            let deadline =
                Deadline::new(CallLimit { progress_timeout: progress_timeout * second, total: total * second }, now);
            assert_eq!(
                (deadline.at(), deadline.current_limit()),
                (now + progress_timeout.min(total) * second, progress_timeout.min(total) * second)
            );
        }
    }

    proptest! {
        #[test]
        fn progress_postpones_a_deadline_up_to_the_total_limit(
            (silence, total) in (1..100u64, 1..1000u64),
            steps in prop::collection::vec(0..120u64, 0..50),
        ) {
            let (silence, total) = (Duration::from_secs(silence), Duration::from_secs(total));
            let begin = Instant::now();
            let mut deadline = Deadline::new(CallLimit { progress_timeout: silence, total }, begin);
            let mut now = begin;
            for step in steps {
                now += Duration::from_secs(step);
                if now >= deadline.at() {
                    break;
                }
                let before = deadline.at();
                deadline.extend(now);
                prop_assert_eq!(deadline.at(), (now + silence).min(begin + total));
                prop_assert!(deadline.at() >= before, "progress never shortens the deadline");
                let ended_by = if begin + total <= now + silence { total } else { silence };
                prop_assert_eq!(deadline.current_limit(), ended_by);
            }
        }
    }
}
