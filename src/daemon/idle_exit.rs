//! The end of a daemon that a client has started, after a time without agents (`[daemon] idle_exit`).
//!
//! The sockets are closed first. If a connection waits at one of them, the daemon serves it and goes on, so no agent is lost. An agent
//! that comes later finds no daemon, and starts the next one once this one has ended.

use std::io;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use tokio::sync::watch;

use crate::deadline_timer::DeadlineTimer;

/// How long a daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonLifetime {
    /// Until it is stopped.
    UntilStopped,
    /// A client has started it: until it is stopped, or not used for `idle_exit`.
    WhileUsed,
}

#[derive(Debug)]
pub(super) struct IdleExit {
    /// The configured time; `None` if the daemon runs until it is stopped.
    limit: Option<watch::Receiver<Option<Duration>>>,
    timer: DeadlineTimer,
    /// Since when no agent is connected.
    since: Option<Instant>,
}

impl IdleExit {
    /// # Errors
    /// If the system has no timer.
    pub(super) fn new(lifetime: DaemonLifetime, limit: watch::Receiver<Option<Duration>>) -> io::Result<Self> {
        let limit = (lifetime == DaemonLifetime::WhileUsed).then_some(limit);
        let mut exit = Self { limit, timer: DeadlineTimer::new()?, since: None };
        exit.restart();
        Ok(exit)
    }

    /// After which time the daemon ends.
    pub(super) fn limit(&self) -> Option<Duration> {
        *self.limit.as_ref()?.borrow()
    }

    /// Notes whether an agent is connected.
    pub(super) fn observe(&mut self, is_connected: bool) {
        match (is_connected, self.since) {
            (true, _) => self.since = None,
            (false, None) => self.restart(),
            (false, Some(_)) => {}
        }
    }

    /// Begins the time anew.
    pub(super) fn restart(&mut self) {
        self.since = Some(Instant::now());
        self.set_timer();
    }

    fn set_timer(&mut self) {
        self.timer.set(self.end());
    }

    fn end(&self) -> Option<Instant> {
        Some(self.since? + self.limit()?)
    }

    /// Waits until the time may be over. Cancel safe.
    pub(super) async fn check_due(&mut self) {
        let limit = &mut self.limit;
        let changed = async {
            // Without its sender, the value stays.
            if OptionFuture::from(limit.as_mut().map(watch::Receiver::changed))
                .await
                .is_none_or(|changed| changed.is_err())
            {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.timer.elapsed() => {}
            () = changed => {}
        }
    }

    /// Whether no agent was connected for the whole time. If not, waits for the rest.
    pub(super) fn is_over(&mut self) -> bool {
        let is_over = self.end().is_some_and(|end| end <= Instant::now());
        if !is_over {
            self.set_timer();
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn time_counts_from_the_end_of_the_last_agent_and_follows_the_configuration() {
        let (limit, receiver) = watch::channel(Some(3600 * SECOND));
        let mut exit = IdleExit::new(DaemonLifetime::WhileUsed, receiver.clone()).expect("a timer");
        assert!(!exit.is_over() && exit.limit() == Some(3600 * SECOND));
        exit.since = Instant::now().checked_sub(2 * SECOND);
        limit.send_replace(Some(SECOND));
        exit.check_due().await;
        assert!(exit.is_over());
        exit.observe(false);
        assert!(exit.is_over(), "the time goes on");
        exit.observe(true);
        assert!(!exit.is_over(), "an agent is connected");
        exit.observe(false);
        assert!(!exit.is_over(), "the time has begun anew");
        exit.check_due().await;
        assert!(exit.is_over());
        limit.send_replace(None);
        assert!(!exit.is_over() && exit.limit().is_none());
        let mut other = IdleExit::new(DaemonLifetime::UntilStopped, receiver).expect("a timer");
        limit.send_replace(Some(Duration::from_nanos(1)));
        assert!(!other.is_over() && other.limit().is_none());
    }
}
