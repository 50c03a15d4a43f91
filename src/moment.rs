//! The clock of what is told later: calls that have ended, lines that servers have written; and that of what is kept in files.
//! Nothing waits by either.

use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};

/// A moment on a clock that nobody sets and that goes on while the machine sleeps (`CLOCK_BOOTTIME`, clock_gettime(2)): how
/// long ago it was stays true, so the time of day is worked out when somebody wants it, not each time something happens.
///
/// In nanoseconds, which last for 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(crate) u64);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        // Every Linux that runs this has the clock.
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or((0, 0), |now| (now.tv_sec(), now.tv_nsec()));
        // Neither is ever negative.
        Self(now.0.cast_unsigned() * 1_000_000_000 + now.1.cast_unsigned())
    }

    /// From `earlier` to this; zero if that was later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The time of day in seconds since 1970: of what is kept in files, for another process and after another start.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time of day at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    day: SystemTime,
    moment: Moment,
}

impl Anchor {
    pub(crate) fn now() -> Self {
        Self { day: SystemTime::now(), moment: Moment::now() }
    }

    /// The time of day at an earlier moment, by the clock as it is set now.
    pub(crate) fn time_of(self, earlier: Moment) -> SystemTime {
        self.day.checked_sub(self.moment.since(earlier)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_as_long_ago_as_the_moment() {
        let anchor = Anchor { day: SystemTime::UNIX_EPOCH + Duration::from_nanos(90), moment: Moment(50) };
        for (moment, expected) in [(50, 90), (20, 60), (60, 90)] {
            assert_eq!(anchor.time_of(Moment(moment)), SystemTime::UNIX_EPOCH + Duration::from_nanos(expected));
        }
        let now = Anchor::now();
        let apart = SystemTime::now().duration_since(now.time_of(now.moment)).unwrap_or_default();
        assert!(apart < Duration::from_secs(60), "{apart:?}");
    }
}
