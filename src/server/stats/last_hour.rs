//! Counts events of the last hour, to the minute and in bounded memory.

use std::array::from_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
