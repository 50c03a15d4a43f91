//! Limits the time of a start. Pure: time is passed in.
//!
//! Runners such as `npx` and `uvx` download a server before they run it, which may take minutes, and a runner that is killed meanwhile
//! leaves half of a server in its cache. So the limit counts from the last sign of life, up to a maximum, and is longer for a runner
//! until its server has sent its first message.

use std::time::{Duration, Instant};

use crate::server::error::{StartActivity, StartTimeout};

/// Maximum time of a start with signs of life, unless the configured limit is longer.
const MAX_START: Duration = Duration::from_secs(5 * 60);
/// Time without a sign of life that a runner has at least, until its server has sent its first message.
const RUNNER_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Maximum time of that part of a start.
const MAX_DOWNLOAD: Duration = Duration::from_secs(30 * 60);
/// Number of looks for signs of life within one limit.
const CHECKS: u32 = 4;

/// The limit of one start.
#[derive(Debug)]
pub(super) struct StartLimit {
    limit: Duration,
    max: Duration,
    started: Instant,
    alive: Instant,
    /// The limit from the first message of the server on, if a runner may still download it.
    after_download: Option<Duration>,
}

impl StartLimit {
    /// The limit of a start that begins `now`.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, max: limit.max(MAX_START), started: now, alive: now, after_download: None }
    }

    /// The limit of a runner that begins `now`. Once its server has sent a message, `limit` holds.
    pub(super) fn of_runner(limit: Duration, now: Instant) -> Self {
        let after_download = Some(limit);
        let limit = limit.max(RUNNER_LIMIT);
        Self { limit, max: limit.max(MAX_DOWNLOAD), started: now, alive: now, after_download }
    }

    /// Whether it ends with the first message of the server.
    pub(super) fn is_of_download(&self) -> bool {
        self.after_download.is_some()
    }

    /// The server has sent its first message `now`.
    pub(super) fn note_message(&mut self, now: Instant) {
        if let Some(limit) = self.after_download {
            *self = Self::new(limit, now);
        }
    }

    /// Records a sign of life.
    pub(super) fn note_life(&mut self, now: Instant) {
        self.alive = now;
    }

    /// When to look for signs of life next; `None` if the start has taken too long.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        let end = (self.alive + self.limit).min(self.started + self.max);
        (now < end).then(|| end.min(now + self.limit / CHECKS))
    }

    /// Describes a start that has taken too long and whose first request is `method`.
    pub(super) fn timeout(&self, method: &'static str, now: Instant) -> StartTimeout {
        let took = Duration::from_secs(now.duration_since(self.started).as_secs());
        let (took, activity) = match (self.alive == self.started, now.duration_since(self.alive) < self.limit) {
            (true, _) => (self.limit, StartActivity::Never),
            (false, true) => (took, StartActivity::UntilEnd),
            (false, false) => (took, StartActivity::Stopped),
        };
        StartTimeout { method, took, activity }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The duration of a start whose server shows signs of life for `alive_for`.
    fn lasts(limit: Duration, alive_for: Duration) -> (Duration, String) {
        let start = Instant::now();
        let (mut timer, mut now) = (StartLimit::new(limit, start), start);
        while let Some(look) = timer.next_check(now) {
            now = look;
            if now - start <= alive_for {
                timer.note_life(now);
            }
        }
        (now - start, timer.timeout("initialize", now).to_string())
    }

    #[test]
    fn silent_start_ends_at_its_limit() {
        assert_eq!(
            lasts(LIMIT, Duration::ZERO),
            (LIMIT, "did not answer `initialize` within 30s (`handshake_timeout`)".to_owned())
        );
    }

    #[test]
    fn start_that_falls_silent_ends_one_limit_later() {
        let (lasted, reason) = lasts(LIMIT, Duration::from_secs(90));
        assert_eq!(lasted, Duration::from_secs(120));
        assert_eq!(
            reason,
            "did not answer `initialize` within 2m, and its start makes no more progress (`handshake_timeout`)"
        );
    }

    #[test]
    fn start_that_never_falls_silent_ends_after_five_minutes() {
        let (lasted, reason) = lasts(LIMIT, Duration::MAX);
        assert_eq!((lasted, &*reason), (MAX_START, "was still starting after 5m, the maximum"));
        assert_eq!(lasts(2 * MAX_START, Duration::MAX).0, 2 * MAX_START);
    }

    #[test]
    fn runner_has_five_minutes_after_each_sign_of_life_and_half_an_hour_in_all() {
        let lasts = |alive_for: Duration| {
            let start = Instant::now();
            let (mut timer, mut now) = (StartLimit::of_runner(LIMIT, start), start);
            while let Some(look) = timer.next_check(now) {
                now = look;
                if now - start <= alive_for {
                    timer.note_life(now);
                }
            }
            now - start
        };
        assert_eq!(lasts(Duration::ZERO), RUNNER_LIMIT);
        assert_eq!(lasts(2 * RUNNER_LIMIT), 3 * RUNNER_LIMIT);
        assert_eq!(lasts(Duration::MAX), MAX_DOWNLOAD);
    }

    proptest! {
        #[test]
        fn start_lasts_at_least_its_limit_and_is_bounded(limit in 1_u64..1_000_000, alive_for in 0_u64..1_000_000) {
            let limit = Duration::from_millis(limit);
            let (lasted, _) = lasts(limit, Duration::from_millis(alive_for));
            prop_assert!(lasted >= limit && lasted <= limit.max(MAX_START));
        }
    }
}
