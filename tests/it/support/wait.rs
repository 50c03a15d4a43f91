//! Waiting for what a test promises.

use std::thread;
use std::time::{Duration, Instant};

/// Time limit of every wait, generous for busy machines. Only failing tests wait this long.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// Polling interval: short compared with a process start, long compared with one check.
const TICK: Duration = Duration::from_millis(5);

/// Waits until `look` returns a value. Panics with `what` at the limit.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll(WAIT_LIMIT, look).unwrap_or_else(|| panic!("not within {WAIT_LIMIT:?}: {what}"))
}

/// Polls until `look` returns a value or the time is over; at least once.
pub(crate) fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() >= limit {
            return found;
        }
        thread::park_timeout(TICK);
    }
}
