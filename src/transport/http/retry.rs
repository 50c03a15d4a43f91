//! How often an interrupted stream is requested again, and after what delay. Pure.

use std::time::Duration;

use http::header::HeaderValue;

use crate::backoff::Backoff;

/// First delay, if the server does not set one.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Attempts in a row from the same event id. The delay doubles between them.
const ATTEMPTS: u32 = 5;
/// Longest delay, unless the server sets a longer one.
const MAX_DELAY: Duration = Duration::from_secs(4);

/// The attempts to resume one stream.
#[derive(Debug)]
pub(super) struct StreamRetry {
    /// The event id of the last attempt.
    from: Option<HeaderValue>,
    /// Counts attempts from that id.
    backoff: Backoff,
    /// The delay that the server requested last.
    retry: Option<Duration>,
}

impl StreamRetry {
    /// The delay before the request for events after `last`. `None` once all attempts from there failed: a server that
    /// has lost the stream may send an empty one each time. `random` is for [`Backoff::next`].
    pub(super) fn pause(&mut self, last: &HeaderValue, retry: Option<Duration>, random: f64) -> Option<Duration> {
        if self.from.as_ref() != Some(last) {
            self.from = Some(last.clone());
            self.backoff.reset();
        }
        self.retry = retry.or(self.retry);
        if self.backoff.attempts() == ATTEMPTS {
            return None;
        }
        let first = self.retry.unwrap_or(FIRST_DELAY);
        self.backoff.set_limits(first, MAX_DELAY.max(first));
        Some(self.backoff.next(random).max(self.retry.unwrap_or_default()))
    }
}

impl Default for StreamRetry {
    fn default() -> Self {
        Self { from: None, backoff: Backoff::new(FIRST_DELAY, MAX_DELAY), retry: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(attempts: &mut StreamRetry, last: &'static str, retry: Option<u64>) -> Vec<Option<u128>> {
        let (last, retry) = (HeaderValue::from_static(last), retry.map(Duration::from_millis));
        let mut pause = |retry| attempts.pause(&last, retry, 0.0).map(|pause| pause.as_millis());
        [retry, None, None, None, None, None].map(&mut pause).into()
    }

    #[test]
    fn attempts_are_limited_per_event_id() {
        let mut attempts = StreamRetry::default();
        let usual = [Some(500), Some(1_000), Some(2_000), Some(4_000), Some(4_000), None];
        assert_eq!(pauses(&mut attempts, "1", None), usual);
        assert_eq!(attempts.pause(&HeaderValue::from_static("1"), None, 0.0), None);
        assert_eq!(pauses(&mut attempts, "2", None), usual);
    }

    #[test]
    fn delay_of_the_server_is_remembered() {
        let mut attempts = StreamRetry::default();
        let requested = [Some(20), Some(40), Some(80), Some(160), Some(320), None];
        assert_eq!(pauses(&mut attempts, "1", Some(20)), requested);
        assert_eq!(pauses(&mut attempts, "2", None), requested);
        assert_eq!(pauses(&mut attempts, "3", Some(60_000)), [[Some(60_000); 5].as_slice(), &[None]].concat());
        assert_eq!(attempts.pause(&HeaderValue::from_static("4"), Some(Duration::ZERO), 0.0), Some(Duration::ZERO));
    }
}
