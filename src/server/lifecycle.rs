//! The states of a server and what leads from one to the next. Pure: time and random numbers are passed in.
//!
//! ```text
//!              ┌────────── due ──────────┐
//!              ▼                         │
//! start ─► Starting ─── ended ───────► Backoff{attempt, until, reason}
//!              │ started                 ▲ ▲
//!              ▼                         │ │
//!            Ready ───── ended ──────────┘ │
//!   unhealthy │ ▲ healthy                  │
//!             ▼ │                          │
//!         Unresponsive ─── ended ──────────┘
//!
//! from Ready or Unresponsive:            finished ─► Stopped: the next call starts it
//!                                        ended, as the reaper was lost ─► Starting
//! from Starting, Ready or Unresponsive:  ended, no retry possible ─► Failed{reason}
//!                                        ended, login needed ─────► NeedsLogin{reason}: waits for a person
//!                                        stop ─► Stopping ─ ended ─► Stopped
//! from Backoff, Failed or NeedsLogin:    stop, without an instance ─► Stopped
//! from Stopped:                          start ─► Starting, or Failed if it cannot be started as configured
//! ```
//!
//! A server in `Backoff` is retried without limit. A server in `Failed` is not retried, because its configuration cannot be used, or because
//! its owner has turned restarts off. The delay grows with each attempt that ends early. It begins anew once an instance
//! was ready for a while. A waiting call starts the next attempt at once, but not within [`CALL_PAUSE`] of the last one. A server that sends
//! `Retry-After` is not started earlier. A server that needs a login is not started until a person logs in. After a permanent error, such
//! as a command that cannot be executed, the start is retried with longer delays, and calls do not wait for it. After refused headers the
//! delays are as long, but a call does start an attempt, because a secret in a file may have changed.
//!
//! The state alone determines what the server's task does.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::error::{ServerError, Supervisor};
use crate::backoff::{Backoff, RestartDelays};

/// Longest delay after a permanent error. A command that was missing and is now installed is started at most this much later.
const MAX_PERMANENT_DELAY: Duration = Duration::from_secs(5 * 60);
/// First delay after an attempt that may have prompted a person, for example for the passphrase of a secret.
const PROMPT_DELAY: Duration = Duration::from_secs(30);
/// Time after a failed attempt in which calls do not start another one.
const CALL_PAUSE: Duration = Duration::from_secs(2);
/// A server that was ready this long counts as recovered. Most faults of a configuration show within seconds, and a server that
/// crashes later, at some call, should be back at once.
pub const BACKOFF_RESET: Duration = Duration::from_secs(10);
/// No failure of the server that ends with it: it causes no delay, or, while the server starts, always the same.
const REAPER_LOST: ServerError = ServerError::Lost(Supervisor::Reaper);
/// Cap on the `Retry-After` of a server.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// The lifecycle state of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Before or during the spawn or the handshake.
    Starting,
    /// Takes calls.
    Ready {
        /// Since the handshake.
        ready_since: Instant,
    },
    /// Fails its health checks, but still receives calls; or is marked down by the operator, and receives none.
    Unresponsive {
        /// Since the handshake.
        ready_since: Instant,
        /// Why it counts as unresponsive.
        reason: ServerError,
    },
    /// Down, to be started again.
    Backoff {
        /// The number of consecutive failed attempts.
        attempt: u32,
        /// The time of the next attempt.
        until: Instant,
        /// From this time on, a call starts the next attempt.
        callable_at: Instant,
        /// Why the last attempt ended.
        reason: ServerError,
    },
    /// Its process is being stopped.
    Stopping,
    /// Stopped on request, or has exited by itself with nothing to do. No process is left.
    Stopped,
    /// Cannot be started as it is configured.
    Failed {
        /// Why, and so what has to be changed.
        reason: ServerError,
    },
    /// Rejects mcpd until a person has logged in.
    NeedsLogin {
        /// The server's message, or what is missing.
        reason: ServerError,
    },
}

impl State {
    /// Whether an enabled server in this state may be ready by `time`. A restarted server is stopped for a moment.
    #[must_use]
    pub fn may_be_ready_by(&self, time: Instant) -> bool {
        match self {
            Self::Starting | Self::Ready { .. } | Self::Unresponsive { .. } | Self::Stopping | Self::Stopped => true,
            Self::Backoff { until, .. } => !self.is_permanent() && *until <= time,
            Self::Failed { .. } | Self::NeedsLogin { .. } => false,
        }
    }

    /// Whether a call at `now` starts the next attempt.
    #[must_use]
    pub fn starts_for_call(&self, now: Instant) -> bool {
        matches!(self, Self::Backoff { callable_at, .. } if *callable_at <= now) && !self.is_permanent()
    }

    /// Whether it waits for an attempt that is expected to fail like the last one. The first attempt that is refused for its version may be
    /// followed by one in the other era.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        let Self::Backoff { attempt, reason, .. } = self else { return false };
        reason.needs_config_change() || (reason.refuses_version() && *attempt > 1)
    }

    /// The reason if it is down or unresponsive.
    #[must_use]
    pub fn reason(&self) -> Option<&ServerError> {
        match self {
            Self::Unresponsive { reason, .. }
            | Self::Backoff { reason, .. }
            | Self::Failed { reason }
            | Self::NeedsLogin { reason } => Some(reason),
            Self::Starting | Self::Ready { .. } | Self::Stopping | Self::Stopped => None,
        }
    }

    /// Its name in reports and logs.
    #[must_use]
    pub fn name(&self) -> StateName {
        match self {
            Self::Starting => StateName::Starting,
            Self::Ready { .. } => StateName::Ready,
            Self::Unresponsive { .. } => StateName::Unresponsive,
            Self::Backoff { .. } => StateName::Backoff,
            Self::Stopping => StateName::Stopping,
            Self::Stopped => StateName::Stopped,
            Self::Failed { .. } => StateName::Failed,
            Self::NeedsLogin { .. } => StateName::NeedsLogin,
        }
    }
}

/// The name of a server's state in reports, logs and the output of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateName {
    /// Its process is being started, or has not answered the first request.
    Starting,
    /// It answers.
    Ready,
    /// It has no instance until a call starts one.
    Idle,
    /// It runs and does not answer.
    Unresponsive,
    /// It runs, and one of its lists could not be fetched the last time.
    ListFailed,
    /// It has failed and is started again after a pause.
    Backoff,
    /// Its process is being stopped.
    Stopping,
    /// It has no process.
    Stopped,
    /// It has failed and is not started again.
    Failed,
    /// It requires a login: `mcpd login`.
    NeedsLogin,
    /// The operator has disabled it. A server that is still being stopped is `stopping`.
    Disabled,
    /// The operator has enabled it. Only tools have this state.
    Enabled,
    /// It is no longer configured.
    Removed,
    /// A state that a daemon of another version reports.
    #[serde(other)]
    Unknown,
}

impl StateName {
    /// The name as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Unresponsive => "unresponsive",
            Self::ListFailed => "list_failed",
            Self::Backoff => "backoff",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::NeedsLogin => "needs_login",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the server cannot serve calls, or lacks items, until something changes.
    #[must_use]
    pub fn is_down(self) -> bool {
        matches!(self, Self::Failed | Self::Backoff | Self::Unresponsive | Self::ListFailed | Self::NeedsLogin)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// An event in the life of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The handshake succeeded.
    Started,
    /// The health checks failed.
    Unhealthy(ServerError),
    /// The instance has answered again.
    Healthy,
    /// The instance has ended, or could not be started.
    Ended(ServerError),
    /// The instance has exited by itself, without an error and with nothing to do.
    Finished(ServerError),
    /// The delay is over.
    Due,
    /// A stop was requested.
    Stop,
    /// A start was requested.
    Start {
        /// The reason if it cannot be started.
        startable: Result<(), ServerError>,
    },
}

/// The state of one server over all its instances.
#[derive(Debug)]
pub struct Lifecycle {
    state: State,
    backoff: Backoff,
    /// The delays before restarts; `None` if it is not restarted.
    restarts: Option<RestartDelays>,
    backoff_reset: Duration,
}

impl Lifecycle {
    /// A server that is about to start, or has failed with the reason in `startable`. Without `restarts`, a server that ends has
    /// failed. After an instance was up for `backoff_reset`, the delays start again with the shortest.
    #[must_use]
    pub fn new(startable: Result<(), ServerError>, restarts: Option<RestartDelays>, backoff_reset: Duration) -> Self {
        let backoff = Backoff::with(restarts.unwrap_or_default());
        Self { state: first_state(startable), backoff, restarts, backoff_reset }
    }

    /// The same for a server that starts later.
    #[must_use]
    pub fn not_yet_started(self) -> Self {
        Self { state: State::Stopped, ..self }
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Applies an event. Events without an arrow in the diagram change nothing. `random` is from 0 to 1, for [`Backoff::next`].
    pub fn on(&mut self, event: Event, now: Instant, random: f64) {
        self.state =
            match (&self.state, event) {
                (State::Starting, Event::Started) => State::Ready { ready_since: now },
                (State::Ready { ready_since } | State::Unresponsive { ready_since, .. }, Event::Unhealthy(reason)) => {
                    State::Unresponsive { ready_since: *ready_since, reason }
                }
                (State::Unresponsive { ready_since, .. }, Event::Healthy) => State::Ready { ready_since: *ready_since },
                (State::Ready { ready_since } | State::Unresponsive { ready_since, .. }, Event::Ended(reason)) => {
                    if now.duration_since(*ready_since) >= self.backoff_reset {
                        self.backoff.reset();
                    }
                    if self.restarts.is_some() && reason == REAPER_LOST {
                        State::Starting
                    } else {
                        self.state_after_end(reason, now, random)
                    }
                }
                (State::Starting, Event::Ended(reason)) => self.state_after_end(reason, now, random),
                (State::Ready { .. } | State::Unresponsive { .. }, Event::Finished(reason)) => {
                    if self.restarts.is_some() { State::Stopped } else { State::Failed { reason } }
                }
                (State::Backoff { .. }, Event::Due) => State::Starting,
                (State::Starting | State::Ready { .. } | State::Unresponsive { .. }, Event::Stop) => State::Stopping,
                (State::Backoff { .. } | State::Failed { .. } | State::NeedsLogin { .. }, Event::Stop)
                | (State::Stopping, Event::Ended(_) | Event::Finished(_)) => State::Stopped,
                (State::Stopped, Event::Start { startable }) => {
                    self.backoff.reset();
                    first_state(startable)
                }
                (unchanged, _) => unchanged.clone(),
            };
    }

    /// The state after an end. It depends on what can bring the server back.
    fn state_after_end(&mut self, reason: ServerError, now: Instant, random: f64) -> State {
        if reason.needs_login() {
            return State::NeedsLogin { reason };
        }
        let Some(delays) = self.restarts else { return State::Failed { reason } };
        let retry_after = reason.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
        let is_permanent = reason.needs_config_change() || reason.refuses_version() || reason.refuses_headers();
        let first = if reason.may_have_prompted() { PROMPT_DELAY.max(delays.first) } else { delays.first };
        let is_slow = is_permanent || reason.may_have_prompted();
        let max = if is_slow { MAX_PERMANENT_DELAY.max(delays.max) } else { delays.max };
        self.backoff.set_limits(first, max);
        let delay = if reason == REAPER_LOST { delays.first } else { self.backoff.next(random) };
        let until = now + delay.max(retry_after);
        let callable_at = until.min(now + retry_after.max(CALL_PAUSE));
        State::Backoff { attempt: self.backoff.attempts(), until, callable_at, reason }
    }
}

fn first_state(startable: Result<(), ServerError>) -> State {
    startable.map_or_else(|reason| State::Failed { reason }, |()| State::Starting)
}

#[cfg(test)]
mod tests;
