//! Calls that wait: parked while no instance can take them, or queued beyond the in-flight limit of the instance until others end.
//!
//! A call waits a bounded time for an instance that is ready and has listed. It is refused at once if waiting cannot help. A call
//! that was not written when its instance ended waits for the next one. A released call is checked again: if its listener hides the
//! name by then, the agent gets the error for an unknown name.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::ServerTask;
use super::dispatch::Readiness;
use super::waiting_calls::WaitingCall;
use crate::server::control::{HealthOverride, StopLevel};
use crate::server::error::ServerError;
use crate::server::instance::Instance;
use crate::server::lifecycle::State;
use crate::server::messages::call::{Call, Failure, RequestKind};
use crate::server::messages::command::Command;
use crate::server::messages::subscribers::SubscriptionChange;

/// Delay before a call to a server that is still starting is worth repeating.
const STARTING_RETRY: Duration = Duration::from_secs(1);
/// How long a call waits for a server that is starting or restarting.
pub(crate) const START_WAIT: Duration = Duration::from_secs(10);
/// How long a call waits for a tool that the server does not list. Some servers register tools after their start and announce
/// the change.
const LATE_REGISTRATION: Duration = Duration::from_secs(2);

/// Why a server in this state takes no calls now.
pub(crate) fn failure_in(state: &State) -> Failure {
    let soon = |reason| Failure::Unavailable { reason, retry_after: Some(STARTING_RETRY) };
    match state {
        State::Backoff { until, callable_at, reason, .. } => {
            let next = if state.is_permanent() { until } else { callable_at };
            let retry_after = Some(next.saturating_duration_since(Instant::now()));
            Failure::Unavailable { reason: reason.clone(), retry_after }
        }
        State::Failed { reason } | State::Unresponsive { reason, .. } => {
            Failure::Unavailable { reason: reason.clone(), retry_after: None }
        }
        State::NeedsLogin { reason } => Failure::LoginNeeded { why: reason.to_string() },
        State::Ready { .. } => soon(ServerError::NotListed),
        State::Starting | State::Stopping | State::Stopped => soon(ServerError::Starting),
    }
}

impl ServerTask {
    /// Waits for `future`, and handles commands meanwhile. Returns `None` if the instance must stop first.
    pub(super) async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut control = self.control.clone();
        self.handling_commands_until(async {
            tokio::select! {
                output = future => Some(output),
                () = control.wait_obsolete() => None,
            }
        })
        .await
    }

    /// Waits for `future`, and handles commands meanwhile.
    pub(super) async fn handling_commands_until<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            let due = [self.waiting.next_expiry(), self.publisher.next_expiry()].into_iter().flatten().min();
            tokio::select! {
                output = &mut future => return output,
                Some(command) = self.commands.recv() => self.park_command(command),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.expire_waiting(),
            }
        }
    }

    /// Handles a command without an instance. A call waits, or is refused if no instance will start.
    pub(super) fn park_command(&mut self, command: Command) {
        match command {
            Command::Cancel { key, .. } => drop(self.waiting.cancel(key)),
            Command::Attach { agent, .. } => self.agents.attach(*agent),
            Command::Detach { session } => drop(self.agents.detach(session)),
            Command::Subscribe { agent, change } => match *change {
                SubscriptionChange::Resource(subscription) => drop(self.agents.subscribe(*agent, subscription)),
                // Tasks end with their instance.
                SubscriptionChange::Task(_) => {}
            },
            Command::Wake => self.waiting.note_call(),
            // There is no instance to check or notify, and there are no tasks. The next instance lists again and has no roots.
            Command::Check(_)
            | Command::Relist
            | Command::DropTask { .. }
            | Command::RootsChanged { .. }
            | Command::Notify { .. } => {}
            Command::Call(call) if self.is_about_gone_task(&call.kind) => call.refuse_unknown_task(),
            Command::Call(call) => {
                self.eras.note_call(call.origin.era());
                self.publisher.stats.calls.add_one();
                match self.lifecycle.state() {
                    State::Stopping | State::Stopped if !self.control.should_run() => {
                        self.refuse(*call, self.unavailable());
                    }
                    State::Failed { .. } | State::NeedsLogin { .. } => self.refuse(*call, self.unavailable()),
                    _ if self.control.health_override() == HealthOverride::ForceUnhealthy => {
                        self.refuse(*call, self.unavailable())
                    }
                    state if state.is_permanent() => self.refuse(*call, self.unavailable()),
                    State::Backoff { callable_at, .. } if *callable_at > Instant::now() + START_WAIT => {
                        self.refuse(*call, self.unavailable());
                    }
                    _ => {
                        self.park(call);
                        self.waiting.note_call();
                    }
                }
            }
        }
    }

    /// Parks a call, or refuses it if the queue is full.
    pub(super) fn park(&mut self, mut call: Box<Call>) {
        if self.may_wait(&call) {
            let deadline = call.response_handle.park(Instant::now()) + START_WAIT;
            self.waiting.park(call, deadline);
            self.publisher.stats.is_called.store(true, Ordering::Relaxed);
        } else {
            self.refuse(*call, Failure::Overloaded { what: "too many calls wait for its start" });
        }
    }

    /// Whether the request is about a task that ended with its instance. Modern tasks may outlive theirs.
    fn is_about_gone_task(&self, kind: &RequestKind) -> bool {
        match kind {
            RequestKind::LegacyTask(_) => true,
            RequestKind::ModernTask(_) => self.next_is_legacy(),
            _ => false,
        }
    }

    /// Whether one more call may wait.
    pub(super) fn may_wait(&self, call: &Call) -> bool {
        self.waiting.may_wait(call, self.message_limit().buffer_unit())
    }

    /// Gives the parked calls that may be written now to a ready instance, unless the server is marked as down.
    pub(super) fn release_parked(&mut self, instance: &mut Instance) {
        if self.control.health_override() == HealthOverride::ForceUnhealthy {
            return self.refuse_waiting();
        }
        for mut parked in self.waiting.take_parked() {
            match self.readiness(&mut parked.item.call, instance) {
                Readiness::Send => self.send_or_queue(parked.item.call, instance),
                Readiness::Refuse => self.refuse_as_unknown(*parked.item.call),
                Readiness::Wait => self.waiting.park_again(parked),
                Readiness::WaitForRegistration => {
                    if !std::mem::replace(&mut parked.item.is_unlisted, true) {
                        parked.until = parked.until.min(Instant::now() + LATE_REGISTRATION);
                    }
                    self.waiting.park_again(parked);
                }
            }
        }
    }

    /// Waits for the next attempt to start the server, which a call starts from `callable_at` on. Calls do not wait for a server that stays
    /// down. `false` if the instance must not start.
    pub(super) async fn wait_for_attempt(&mut self, until: Instant, callable_at: Instant) -> bool {
        if self.lifecycle.state().is_permanent() || until > Instant::now() + START_WAIT {
            self.refuse_waiting();
        }
        let called = self.waiting.called();
        let is_called = async {
            sleep_until(callable_at.into()).await;
            called.await;
        };
        let mut control = self.control.clone();
        let retries = async {
            sleep_until(until.into()).await;
            control.wait_retries().await;
        };
        let is_due = async {
            tokio::select! {
                () = retries => {}
                () = is_called => {}
            }
        };
        self.unless_stopped(is_due).await.is_some()
    }

    /// Refuses expired calls, and removes the lists of a server that stays down.
    pub(super) fn expire_waiting(&mut self) {
        let now = Instant::now();
        let [parked, queued] = self.waiting.expire(now);
        for WaitingCall { call, is_unlisted } in parked {
            if is_unlisted {
                self.refuse_as_unknown(*call);
            } else {
                self.refuse(*call, self.unavailable());
            }
        }
        for WaitingCall { call, .. } in queued {
            let after = call.limit.progress_timeout;
            self.refuse(*call, Failure::TimedOut { after });
        }
        self.publisher.expire_lists(now);
    }

    pub(super) fn refuse_waiting(&mut self) {
        for call in self.waiting.drain() {
            self.refuse(*call, self.unavailable());
        }
    }

    pub(super) fn refuse_as_unknown(&self, call: Call) {
        self.publisher.stats.errors.add_one();
        call.refuse_as_unknown();
    }

    pub(super) fn refuse(&self, call: Call, failure: Failure) {
        self.publisher.stats.errors.add_one();
        call.refuse(failure);
    }

    pub(super) fn unavailable(&self) -> Failure {
        match self.lifecycle.state() {
            State::Stopping | State::Stopped if self.control.stop.now() > StopLevel::Run => Failure::ShuttingDown,
            State::Stopping | State::Stopped if !self.control.should_run() => {
                Failure::Unavailable { reason: ServerError::Disabled, retry_after: None }
            }
            _ if self.control.health_override() == HealthOverride::ForceUnhealthy => {
                Failure::Unavailable { reason: ServerError::MarkedDown, retry_after: None }
            }
            state => failure_in(state),
        }
    }
}

impl ServerTask {
    /// Re-checks every waiting call. Without `releases` none is written.
    pub(super) fn release_waiting(&mut self, instance: &mut Instance, releases: bool) {
        if !self.waiting.is_empty() {
            self.expire_waiting();
        }
        if releases {
            self.release_queued(instance);
            self.release_parked(instance);
            self.release_queued(instance);
        }
    }

    /// Writes queued calls while the limit permits. Each is checked again, as policy and lists may have changed.
    fn release_queued(&mut self, instance: &mut Instance) {
        while self.waiting.has_queued() {
            let vacancies = instance.vacancies();
            let Some(mut call) = self.waiting.next_queued(|payer| vacancies.has(payer)) else { return };
            match self.readiness(&mut call, instance) {
                Readiness::Send => self.send_to_instance(call, instance),
                Readiness::Refuse => self.refuse_as_unknown(*call),
                Readiness::Wait | Readiness::WaitForRegistration => self.park(call),
            }
        }
    }
}
