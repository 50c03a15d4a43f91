//! How often something has happened within the last hour, to the minute and in bounded memory.

use std::array::from_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Minutes of an hour.
const MINUTES: usize = 60;

/// A count for each minute of the last hour.
#[derive(Debug)]
pub struct Lately {
    /// When it happened first.
    began: OnceLock<Instant>,
    /// In the upper half the minute since then, counted from 1, and in the lower one how often it happened in that.
    minutes: [AtomicU64; MINUTES],
}

impl Default for Lately {
    fn default() -> Self {
        Self { began: OnceLock::new(), minutes: from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Lately {
    /// Counts one that has happened `now`.
    pub(crate) fn add(&self, now: Instant) {
        let minute = minute_of(now, *self.began.get_or_init(|| now));
        let place = &self.minutes[usize::try_from(minute).unwrap_or_default() % MINUTES];
        // What is there of an hour ago makes room; there is one writer at a time.
        let before = Some(place.load(Ordering::Relaxed)).filter(|before| before >> 32 == minute);
        place.store(before.unwrap_or(minute << 32) + 1, Ordering::Relaxed);
    }

    /// How many there were within the hour before `now`.
    #[must_use]
    pub fn count(&self, now: Instant) -> u64 {
        let Some(began) = self.began.get() else { return 0 };
        let last = minute_of(now, *began);
        let first = last.saturating_sub(MINUTES as u64 - 1);
        let counts = self.minutes.iter().map(|place| place.load(Ordering::Relaxed));
        counts.filter(|count| (first..=last).contains(&(count >> 32))).map(|count| count & u64::from(u32::MAX)).sum()
    }
}

/// Counted from 1, so that no place that was never written to is of one.
fn minute_of(now: Instant, began: Instant) -> u64 {
    now.saturating_duration_since(began).as_secs() / 60 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_an_hour_ago_counts_no_more() {
        let begin = Instant::now();
        let at = |minutes: u64| begin + Duration::from_secs(minutes * 60);
        let lately = Lately::default();
        assert_eq!(lately.count(begin), 0);
        for minute in [0, 0, 1, 30, 59] {
            lately.add(at(minute));
        }
        for (minute, expected) in [(0, 2), (1, 3), (59, 5), (60, 3), (61, 2), (118, 1), (119, 0), (10_000, 0)] {
            assert_eq!(lately.count(at(minute)), expected, "after {minute} minutes");
        }
        lately.add(at(60));
        lately.add(at(120));
        assert_eq!(lately.count(at(120)), 1, "the places of an hour ago are used again");
    }

    #[test]
    fn one_that_goes_on_and_on_is_counted_in_the_same_memory() {
        let begin = Instant::now();
        let lately = Lately::default();
        (0..100_000).for_each(|second| lately.add(begin + Duration::from_secs(second)));
        let count = lately.count(begin + Duration::from_secs(99_999));
        assert!((3_540..=3_600).contains(&count), "{count}");
    }
}
