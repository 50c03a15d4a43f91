//! The way to the next daemon.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::backoff::Backoff;

/// The first wait.
const SHORTEST: Duration = Duration::from_millis(10);
/// For so long a daemon that is restarted is looked for often.
const EAGER: Duration = Duration::from_secs(60);
/// The longest wait meanwhile, and after that.
const LONGEST: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// Where daemons serve.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The socket of the agent's profile.
    pub(crate) socket: PathBuf,
    /// The one that each daemon has, if that is another.
    pub(crate) default: Option<PathBuf>,
}

/// What came of looking.
#[derive(Debug)]
pub(super) enum Found {
    Daemon(UnixStream),
    /// One that does not serve this profile.
    Other,
    Nobody,
}

/// How long is waited between two looks: ever longer, and never as long as all other agents do.
#[derive(Debug)]
pub(super) struct Waits {
    since: Instant,
    backoff: Backoff,
}

impl Waits {
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, backoff: Backoff::new(SHORTEST, LONGEST[0]) }
    }

    /// The next one. `random` is for [`Backoff::next`].
    pub(super) fn next(&mut self, now: Instant, random: f64) -> Duration {
        let [longest, later] = LONGEST;
        let is_eager = now.saturating_duration_since(self.since) < EAGER;
        self.backoff.set_limits(SHORTEST, if is_eager { longest } else { later });
        self.backoff.next(random)
    }
}

/// Looks for a daemon after a while.
pub(super) async fn look(places: Places, wait: Duration) -> Found {
    sleep(wait).await;
    match (UnixStream::connect(&places.socket).await, places.default) {
        (Ok(stream), _) => Found::Daemon(stream),
        (Err(error), Some(default)) if error.kind() == io::ErrorKind::NotFound => {
            if UnixStream::connect(default).await.is_ok() { Found::Other } else { Found::Nobody }
        }
        (Err(_), _) => Found::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_half_a_second_and_after_a_minute_to_one() {
        let start = Instant::now();
        let mut waits = Waits::since(start);
        let longest: Vec<u128> = (0..8).map(|_| waits.next(start, 0.0).as_millis()).collect();
        assert_eq!(longest, [10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(waits.next(start, 1.0), Duration::from_millis(250));
        assert_eq!(waits.next(start + EAGER, 0.0), Duration::from_secs(1));
    }
}
