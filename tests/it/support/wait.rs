//! Waiting for what a test promises.

use std::thread;
use std::time::{Duration, Instant};

/// Limit for everything that a test waits for, on a machine with much other work. Only failing tests wait this long.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// The look-again interval: short against a process start, long against the look itself.
const TICK: Duration = Duration::from_millis(5);

/// Waits until `look` finds something; panics with `what` if it does not in time.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    poll(WAIT_LIMIT, look).unwrap_or_else(|| panic!("not within {WAIT_LIMIT:?}: {what}"))
}

/// Looks until there is something to find or the time is over; at least once.
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
