//! Connects to the next daemon.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::sockets::{self, ExpectedListener};

/// The first delay.
const FIRST_DELAY: Duration = Duration::from_millis(10);
/// For this long after a loss, attempts are frequent.
const EAGER_TIME: Duration = Duration::from_secs(60);
/// The longest delay during that time, and after it.
const MAX_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// The sockets of a daemon.
#[derive(Debug, Clone)]
pub(crate) struct DaemonSockets {
    /// The socket of the agent's profile.
    pub(crate) socket: PathBuf,
    /// The default profile's socket, if that is another.
    pub(crate) default: Option<PathBuf>,
    /// Who has to listen.
    pub(crate) daemon: ExpectedListener,
}

/// The first connection to a daemon.
#[derive(Debug)]
pub(crate) struct FirstConnection {
    pub(crate) stream: UnixStream,
    pub(crate) sockets: DaemonSockets,
    /// The directory of the configuration that has chosen the profile.
    pub(crate) profile_directory: Option<String>,
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum ConnectResult {
    Connected(UnixStream),
    /// A daemon runs without this profile.
    NoProfile,
    NoDaemon,
    /// A process listens that is not the daemon, for this reason.
    Untrusted(String),
}

/// Delays between attempts, with jitter so that agents do not connect all at once.
#[derive(Debug)]
pub(super) struct ReconnectDelays {
    since: Instant,
    backoff: Backoff,
}

impl ReconnectDelays {
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, backoff: Backoff::new(FIRST_DELAY, MAX_DELAYS[0]) }
    }

    /// The next delay. `random` is for [`Backoff::next`].
    pub(super) fn next(&mut self, now: Instant, random: f64) -> Duration {
        let [longest, later] = MAX_DELAYS;
        let is_eager = now.saturating_duration_since(self.since) < EAGER_TIME;
        self.backoff.set_limits(FIRST_DELAY, if is_eager { longest } else { later });
        self.backoff.next(random)
    }
}

/// Tries to connect after a delay.
pub(super) async fn connect_after(addresses: DaemonSockets, wait: Duration) -> ConnectResult {
    sleep(wait).await;
    let error = match sockets::connect(&addresses.socket, addresses.daemon).await {
        Ok(stream) => return ConnectResult::Connected(stream),
        Err(error) => error,
    };
    if let Some(untrusted) = sockets::untrusted(&error) {
        return ConnectResult::Untrusted(untrusted.to_string());
    }
    match addresses.default {
        Some(default) if error.kind() == io::ErrorKind::NotFound && UnixStream::connect(&default).await.is_ok() => {
            ConnectResult::NoProfile
        }
        _ => ConnectResult::NoDaemon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_half_a_second_and_after_a_minute_to_one() {
        let start = Instant::now();
        let mut delays = ReconnectDelays::since(start);
        let longest: Vec<u128> = (0..8).map(|_| delays.next(start, 0.0).as_millis()).collect();
        assert_eq!(longest, [10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(delays.next(start, 1.0), Duration::from_millis(250));
        assert_eq!(delays.next(start + EAGER_TIME, 0.0), Duration::from_secs(1));
    }
}
