//! The generic cell rate algorithm: limits how much happens over time, and permits bursts. Pure.

use std::time::{Duration, Instant};

/// A limit of events. The cost of an event is the time for which others pause after it if the limit is reached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gcra {
    /// When the costs of all events would be over if events had been spread evenly.
    clear_at: Option<Instant>,
}

impl Gcra {
    /// How long an event of this cost has to wait. Events of `burst` together may come at once.
    pub(crate) fn wait(&self, cost: Duration, burst: Duration, now: Instant) -> Duration {
        self.clear_at.map_or(Duration::ZERO, |clear_at| (clear_at + cost).saturating_duration_since(now + burst))
    }

    /// Counts an event of this cost.
    pub(crate) fn count(&mut self, cost: Duration, now: Instant) {
        self.clear_at = Some(self.clear_at.map_or(now, |clear_at| clear_at.max(now)) + cost);
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
    fn pause_permits_no_larger_burst() {
        let (mut limit, start) = (Gcra::default(), Instant::now());
        limit.count(MS, start);
        limit.count(10 * MS, start + 1000 * MS);
        assert_eq!(limit.wait(MS, 10 * MS, start + 1000 * MS), MS);
    }
}
