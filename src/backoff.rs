//! Delays between attempts. Pure: random numbers are passed in.

use std::time::Duration;

/// The part of a delay that is random, so that many that failed together do not try again together.
const JITTER: f64 = 0.5;

/// The delay before the next attempt doubles each time, up to a maximum.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    attempts: u32,
}

impl Backoff {
    /// Begins with `first`.
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, attempts: 0 }
    }

    /// The delay before the next attempt. `random` is from 0 to 1: 0 gives the whole delay, 1 half of it.
    pub(crate) fn next(&mut self, random: f64) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX));
        self.attempts = self.attempts.saturating_add(1);
        doubled.min(self.max).mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0))
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
        (self.first, self.max) = (first, max);
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
