//! Limits repeated warnings, so that a peer cannot flood the log.
//!
//! The first warning of each cause is logged. Further ones are counted, and their number is logged within a minute.

#![expect(clippy::disallowed_types, reason = "several tasks count warnings; nothing waits while it is locked")]

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

/// Time for which further warnings of a cause are counted.
const INTERVAL: Duration = Duration::from_secs(60);
/// Causes of one kind that are told apart within the interval. Warnings of further causes are counted together.
const MAX_CAUSES: usize = 8;

/// The warnings of the last minute.
#[derive(Debug, Default)]
pub struct Limiter {
    recent: Mutex<HashMap<Cause, Recent>>,
    /// Notified when a warning was counted and not logged.
    has_unlogged: Notify,
}

/// What a warning says, and of whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cause {
    kind: &'static str,
    /// `None` for all causes beyond [`MAX_CAUSES`].
    detail: Option<String>,
}

/// A cause that was logged.
#[derive(Debug)]
struct Recent {
    logged: Instant,
    /// Warnings since then.
    more: u64,
}

impl Limiter {
    /// Counts a warning of this kind and detail. Returns whether it has to be logged.
    #[must_use]
    pub fn admits(&self, kind: &'static str, detail: impl Display) -> bool {
        let admits = self.count(kind, detail.to_string(), Instant::now());
        if !admits {
            self.has_unlogged.notify_one();
        }
        admits
    }

    /// Runs forever: logs for each cause how many warnings were suppressed, one minute after the first was logged.
    pub async fn report(self: Arc<Self>) {
        loop {
            match self.next_due() {
                None => self.has_unlogged.notified().await,
                Some(due) => sleep_until(due.into()).await,
            }
            self.log(|recent| recent.logged.elapsed() >= INTERVAL);
        }
    }

    /// Logs all numbers now.
    pub fn finish(&self) {
        self.log(|_| true);
    }

    fn log(&self, is_due: impl Fn(&Recent) -> bool) {
        for (Cause { kind, detail }, more) in self.take(is_due) {
            let detail = detail.as_deref().unwrap_or("others");
            tracing::warn!("{kind} ({detail}): … {more} more in the last minute");
        }
    }

    fn count(&self, kind: &'static str, detail: String, now: Instant) -> bool {
        let mut all = self.lock();
        all.retain(|_, recent| recent.more > 0 || now.duration_since(recent.logged) < INTERVAL);
        let mut cause = Cause { kind, detail: Some(detail) };
        if !all.contains_key(&cause) && all.keys().filter(|known| known.kind == kind).count() >= MAX_CAUSES {
            cause.detail = None;
        }
        let is_new = !all.contains_key(&cause);
        all.entry(cause).and_modify(|recent| recent.more += 1).or_insert(Recent { logged: now, more: 0 });
        is_new
    }

    /// When the next number is due.
    fn next_due(&self) -> Option<Instant> {
        self.lock().values().filter(|recent| recent.more > 0).map(|recent| recent.logged + INTERVAL).min()
    }

    /// Removes the causes that are due. Returns those with warnings that were not logged.
    fn take(&self, is_due: impl Fn(&Recent) -> bool) -> Vec<(Cause, u64)> {
        let mut all = self.lock();
        let due = all.extract_if(|_, recent| is_due(recent)).map(|(cause, recent)| (cause, recent.more));
        due.filter(|(_, more)| *more > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Cause, Recent>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(limiter: &Limiter) -> Vec<(Option<String>, u64)> {
        let mut all: Vec<_> = limiter.take(|_| true).into_iter().map(|(cause, more)| (cause.detail, more)).collect();
        all.sort();
        all
    }

    #[test]
    fn first_warning_of_each_cause_is_logged_and_the_others_are_counted() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        let logged = ["a", "a", "b", "a"].map(|detail| limiter.count("kind", detail.to_owned(), now));
        assert_eq!(logged, [true, false, true, false]);
        assert_eq!(limiter.next_due(), Some(now + INTERVAL));
        assert_eq!(counts(&limiter), [(Some("a".to_owned()), 2)]);
        assert_eq!(limiter.next_due(), None);
    }

    #[test]
    fn cause_is_logged_again_after_the_interval() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        assert!(limiter.count("kind", String::new(), now));
        assert!(!limiter.count("kind", String::new(), now + INTERVAL - Duration::from_millis(1)));
        assert!(!limiter.count("kind", String::new(), now + INTERVAL), "what was counted is reported first");
        assert_eq!(counts(&limiter), [(Some(String::new()), 2)]);
        assert!(limiter.count("kind", String::new(), now + INTERVAL));
        assert!(limiter.count("kind", String::new(), now + 2 * INTERVAL), "nothing was counted");
    }

    #[test]
    fn number_of_causes_of_a_kind_is_limited() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        let logged = (0..1000).filter(|cause| limiter.count("kind", cause.to_string(), now)).count();
        assert_eq!(logged, MAX_CAUSES + 1, "one entry stands for all further causes");
        assert!(limiter.count("other", String::new(), now));
        assert_eq!(counts(&limiter), [(None, 1000 - MAX_CAUSES as u64 - 1)]);
    }
}
