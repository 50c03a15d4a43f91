//! The end of a server whose daemon or guard was killed: end of file, SIGTERM and SIGKILL, with pauses between them. Pure.
//!
//! Whoever survives carries out the steps: the guard if the daemon was killed, the reaper if the guard was killed. The end of file comes
//! without them, because the daemon holds the other end of the server's stdin. The pauses are shorter than those of an ordered stop
//! ([`EOF_GRACE`](super::process::EOF_GRACE)): meanwhile a new daemon may start the same servers again.

use std::time::{Duration, Instant};

/// From the end of file to SIGTERM.
const EOF_PAUSE: Duration = Duration::from_millis(1500);
/// From SIGTERM to SIGKILL of the subtree.
const TERM_PAUSE: Duration = Duration::from_secs(2);
/// Time for a guard to end a server, until the reaper kills both.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// The progress of an end.
#[derive(Debug)]
pub(super) enum Ending {
    /// The server has been sent end of file, and is sent SIGTERM at this time.
    Eof(Instant),
    /// It was sent SIGTERM, and its subtree is killed at this time.
    Terminated(Instant),
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    Terminate,
    Kill,
}

impl Ending {
    /// Begins at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self::Eof(now + EOF_PAUSE)
    }

    /// The time of the next step.
    pub(super) fn due(&self) -> Instant {
        match self {
            Self::Eof(due) | Self::Terminated(due) => *due,
        }
    }

    /// The step at `now`.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        match self {
            _ if now < self.due() => Step::Wait,
            Self::Eof(_) => {
                *self = Self::Terminated(now + TERM_PAUSE);
                Step::Terminate
            }
            Self::Terminated(_) => Step::Kill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_follows_its_pause_and_is_never_skipped() {
        let began = Instant::now();
        let mut ending = Ending::new(began);
        let instant = Duration::from_millis(1);
        for (after, step) in [
            (Duration::ZERO, Step::Wait),
            (EOF_PAUSE - instant, Step::Wait),
            // Later than SIGKILL would be due, as a suspended process wakes up.
            (LIMIT, Step::Terminate),
            (LIMIT + TERM_PAUSE - instant, Step::Wait),
            (LIMIT + TERM_PAUSE, Step::Kill),
            (LIMIT + TERM_PAUSE, Step::Kill),
        ] {
            assert_eq!(ending.step(began + after), step, "{after:?}");
        }
    }
}
