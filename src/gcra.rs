//! The generic cell rate algorithm: limits how much happens over time, and permits bursts. Pure.

use std::time::{Duration, Instant};

/// A limit of events. An event of cost `c` moves the theoretical arrival time by `c`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gcra {
    /// Theoretical arrival time of the next event.
    theoretical_arrival: Option<Instant>,
}

impl Gcra {
    /// How long an event of this cost has to wait. `burst` is the tolerance, as the sum of costs that are admitted without a wait.
    pub(crate) fn wait(&self, cost: Duration, burst: Duration, now: Instant) -> Duration {
        let arrival = self.theoretical_arrival;
        arrival.map_or(Duration::ZERO, |arrival| (arrival + cost).saturating_duration_since(now + burst))
    }

    /// Counts an event of this cost.
    pub(crate) fn count(&mut self, cost: Duration, now: Instant) {
        self.theoretical_arrival = Some(self.theoretical_arrival.map_or(now, |arrival| arrival.max(now)) + cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn burst_comes_at_once_and_further_events_one_after_another() {
        let (mut limit, start) = (Gcra::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(limit.wait(MS, 10 * MS, start), Duration::ZERO);
            limit.count(MS, start);
        }
        assert_eq!(limit.wait(MS, 10 * MS, start), MS);
        assert_eq!(limit.wait(4 * MS, 10 * MS, start + MS), 3 * MS);
        assert_eq!(limit.wait(MS, 10 * MS, start + MS), Duration::ZERO);
    }

    #[test]
    fn idle_time_does_not_enlarge_the_burst() {
        let (mut limit, start) = (Gcra::default(), Instant::now());
        limit.count(MS, start);
        limit.count(10 * MS, start + 1000 * MS);
        assert_eq!(limit.wait(MS, 10 * MS, start + 1000 * MS), MS);
    }
}
