//! Clocks for reports: a monotonic time stamp, and the time of day. No deadline uses them.

use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};

/// A time stamp of `CLOCK_BOOTTIME` (clock_gettime(2)), in nanoseconds: nobody sets this clock, and it includes suspend.
///
/// The time of day is derived only when a report is made, so recording an event costs one clock read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(crate) u64);

impl Moment {
    /// The current time.
    #[must_use]
    pub fn now() -> Self {
        // Every Linux that runs this has the clock.
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or((0, 0), |now| (now.tv_sec(), now.tv_nsec()));
        // Neither is ever negative.
        Self(now.0.cast_unsigned() * 1_000_000_000 + now.1.cast_unsigned())
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds since 1970, for files that other processes and later starts read.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time of day, for reports.
pub(crate) type TimeOfDay = SystemTime;

/// The time of day at this number of seconds since 1970.
pub(crate) fn time_of_unix_seconds(seconds: u64) -> TimeOfDay {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Converts a [`Moment`] to the time of day.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallClockAnchor {
    time: SystemTime,
    moment: Moment,
}

impl WallClockAnchor {
    pub(crate) fn now() -> Self {
        Self { time: SystemTime::now(), moment: Moment::now() }
    }

    /// The time of day at `earlier`, by the current setting of the clock.
    pub(crate) fn time_of(self, earlier: Moment) -> SystemTime {
        self.time.checked_sub(self.moment.since(earlier)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_is_as_long_ago_as_the_moment() {
        let anchor = WallClockAnchor { time: SystemTime::UNIX_EPOCH + Duration::from_nanos(90), moment: Moment(50) };
        for (moment, expected) in [(50, 90), (20, 60), (60, 90)] {
            assert_eq!(anchor.time_of(Moment(moment)), SystemTime::UNIX_EPOCH + Duration::from_nanos(expected));
        }
        let now = WallClockAnchor::now();
        let apart = SystemTime::now().duration_since(now.time_of(now.moment)).unwrap_or_default();
        assert!(apart < Duration::from_secs(60), "{apart:?}");
    }
}
