//! How often a stream that has ended too early is requested again, and how long after. Pure.

use std::time::Duration;

use http::header::HeaderValue;

use crate::backoff::Backoff;

/// Before it is asked for again, if the server does not say how long.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Attempts in a row from the same place; the pause doubles between them,
const ATTEMPTS: u32 = 5;
/// up to this, or to what the server wants.
const MAX_DELAY: Duration = Duration::from_secs(4);

/// What is known of a stream that broke off, perhaps more than once.
#[derive(Debug)]
pub(super) struct Again {
    /// The last place to go on from.
    from: Option<HeaderValue>,
    /// Attempts from there.
    backoff: Backoff,
    /// What the server has said last of how long it wants to be left alone.
    retry: Option<Duration>,
}

impl Again {
    /// How long to wait before it is asked for what comes after the event `last`. `None` if this was in vain too often: a server that
    /// has forgotten the stream may answer each time with one that just ends. `random` is for [`Backoff::next`].
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

impl Default for Again {
    fn default() -> Self {
        Self { from: None, backoff: Backoff::new(FIRST_DELAY, MAX_DELAY), retry: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(again: &mut Again, last: &'static str, retry: Option<u64>) -> Vec<Option<u128>> {
        let (last, retry) = (HeaderValue::from_static(last), retry.map(Duration::from_millis));
        let mut pause = |retry| again.pause(&last, retry, 0.0).map(|pause| pause.as_millis());
        [retry, None, None, None, None, None].map(&mut pause).into()
    }

    #[test]
    fn it_gives_up_where_nothing_new_comes_and_begins_anew_where_something_does() {
        let mut again = Again::default();
        let usual = [Some(500), Some(1_000), Some(2_000), Some(4_000), Some(4_000), None];
        assert_eq!(pauses(&mut again, "1", None), usual);
        assert_eq!(again.pause(&HeaderValue::from_static("1"), None, 0.0), None);
        assert_eq!(pauses(&mut again, "2", None), usual);
    }

    #[test]
    fn what_the_server_wants_is_remembered() {
        let mut again = Again::default();
        let wanted = [Some(20), Some(40), Some(80), Some(160), Some(320), None];
        assert_eq!(pauses(&mut again, "1", Some(20)), wanted);
        assert_eq!(pauses(&mut again, "2", None), wanted);
        assert_eq!(pauses(&mut again, "3", Some(60_000)), [[Some(60_000); 5].as_slice(), &[None]].concat());
        assert_eq!(again.pause(&HeaderValue::from_static("4"), Some(Duration::ZERO), 0.0), Some(Duration::ZERO));
    }
}
