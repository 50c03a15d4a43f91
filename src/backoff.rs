//! Delays between attempts. Pure: random numbers are passed in.

use std::time::Duration;

/// The part of a delay that is random, so that many that failed together do not try again together.
const JITTER: f64 = 0.5;

/// The delays between the starts of a server that fails. Each delay is `factor` times the one before, up to `max`; a random part of up to
/// half of it is left out. The delays begin anew once the server has been ready for 10 s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestartDelays {
    /// The first delay. Default: 200 ms. With zero, a server that fails is started again at once, without end.
    pub first: Duration,
    /// How the delay grows. Default: 2. A factor below 1 counts as 1.
    pub factor: f64,
    /// The longest delay. Default: 30 s.
    pub max: Duration,
}

impl Default for RestartDelays {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), factor: DOUBLE, max: Duration::from_secs(30) }
    }
}

/// The factor of delays whose owner cannot choose one.
const DOUBLE: f64 = 2.0;

/// The delay before the next attempt grows each time, up to a maximum.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    delays: RestartDelays,
    attempts: u32,
}

impl Backoff {
    /// Begins with `first`, and doubles.
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self::with(RestartDelays { first, factor: DOUBLE, max })
    }

    /// With these delays.
    pub(crate) const fn with(delays: RestartDelays) -> Self {
        Self { delays, attempts: 0 }
    }

    /// The delay before the next attempt. `random` is from 0 to 1: 0 gives the whole delay, 1 half of it.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let RestartDelays { first, factor, max } = self.delays;
        let growth = factor.max(1.0).powi(i32::try_from(self.attempts).unwrap_or(i32::MAX));
        // Not a number only if the first delay is zero and the growth is infinite.
        let grown = if first.is_zero() {
            first
        } else {
            Duration::try_from_secs_f64(first.as_secs_f64() * growth).unwrap_or(max)
        };
        self.attempts = self.attempts.saturating_add(1);
        grown.min(max).mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0))
    }

    /// Attempts since the beginning, or since the last one that succeeded.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// An attempt has succeeded.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Other limits from now on.
    pub(crate) fn set_limits(&mut self, first: Duration, max: Duration) {
        (self.delays.first, self.delays.max) = (first, max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: Duration = Duration::from_millis(200);
    const MAX: Duration = Duration::from_secs(1);

    #[test]
    fn delay_doubles_up_to_the_maximum_and_begins_anew_after_a_reset() {
        let mut backoff = Backoff::new(FIRST, MAX);
        let mut delays = || [(); 5].map(|()| backoff.next(0.0).as_millis());
        assert_eq!(delays(), [200, 400, 800, 1_000, 1_000]);
        assert_eq!(delays(), [1_000; 5]);
        backoff.reset();
        assert_eq!((backoff.next(0.0), backoff.attempts()), (FIRST, 1));
    }

    #[test]
    fn delay_grows_by_its_factor_but_never_shrinks() {
        let delays = |factor, first| {
            let mut backoff = Backoff::with(RestartDelays { first, factor, max: MAX });
            [(); 4].map(|()| backoff.next(0.0).as_millis())
        };
        assert_eq!(delays(3.0, FIRST), [200, 600, 1_000, 1_000]);
        assert_eq!(delays(1.0, FIRST), [200; 4]);
        for factor in [0.0, -1.0, f64::NAN] {
            assert_eq!(delays(factor, FIRST), [200; 4], "{factor}");
        }
        assert_eq!(delays(f64::INFINITY, FIRST), [200, 1_000, 1_000, 1_000]);
        assert_eq!(delays(f64::INFINITY, Duration::ZERO), [0; 4]);
    }

    proptest! {
        #[test]
        fn every_delay_is_varied_and_at_most_the_maximum(attempts in 1..100u32, random in 0.0..1.0f64) {
            let (mut exact, mut varied) = (Backoff::new(FIRST, MAX), Backoff::new(FIRST, MAX));
            for _ in 0..attempts {
                let (exact, varied) = (exact.next(0.0), varied.next(random));
                prop_assert!(varied <= exact && varied >= exact / 2 && exact <= MAX, "{varied:?} of {exact:?}");
            }
        }
    }
}
