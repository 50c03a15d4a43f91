//! What a server's task does while no instance is ready: it waits for something, and takes in commands meanwhile.
//!
//! A call waits a bounded time for the server to come up; one that cannot be helped by waiting is refused at once.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::call::{Call, CallKey, Failure, Matter};
use super::checkup::MARKED_DOWN;
use super::control::Vouched;
use super::instance::Instance;
use super::lifecycle::State;
use super::task::ServerTask;
use super::{Command, Interest, MAX_IN_FLIGHT, Stop, share};
use crate::catalog::Lists;
use crate::era::Era;

/// What is said of a server that needs a login to whoever wants something of it.
pub(crate) fn login_needed(server: &str) -> String {
    format!("needs a login: run `mcpd login {server}`")
}

/// How long a call waits for a server that is starting or restarting.
const HOLD: Duration = Duration::from_secs(10);

impl ServerTask {
    /// Waits for `future`, taking in commands meanwhile. `None` if the instance ceased to be wanted first.
    pub(super) async fn while_wanted<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let (mut orders, revision) = (self.orders.clone(), self.revision);
        self.holding(async {
            tokio::select! {
                output = future => Some(output),
                () = orders.unwanted(revision) => None,
            }
        })
        .await
    }

    /// Waits for `future`, taking in commands meanwhile.
    pub(super) async fn holding<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            let due = [self.held.front().map(|(deadline, _)| *deadline), self.forget_at].into_iter().flatten().min();
            tokio::select! {
                output = &mut future => return output,
                Some(command) = self.commands.recv() => self.hold(command),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.expire_held(),
            }
        }
    }

    /// Takes in a command while no instance can: a call waits, or is refused if none will come.
    pub(super) fn hold(&mut self, command: Command) {
        match command {
            Command::Cancel { key, .. } => self.drop_held(key),
            Command::Attach { agent, .. } => self.agents.attach(*agent),
            Command::Detach { session } => drop(self.agents.detach(session)),
            Command::Hear { agent, interest } => match *interest {
                Interest::Resource(subscription) => drop(self.agents.hear(*agent, subscription)),
                // A task goes with its instance.
                Interest::Task(_) => {}
            },
            // None cannot be asked, has no tasks, and the next one has told nobody of any roots.
            Command::Check(_) | Command::DropTask { .. } | Command::RootsChanged { .. } => {}
            Command::Call(call) if self.is_about_gone_task(&call.matter) => call.refuse_unknown_task(),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                match self.lifecycle.state() {
                    State::Stopping | State::Stopped if !self.orders.wants_any() => {
                        self.refuse(*call, self.unavailable());
                    }
                    State::Failed { .. } | State::NeedsLogin { .. } => self.refuse(*call, self.unavailable()),
                    _ if self.orders.vouched() == Vouched::Down => self.refuse(*call, self.unavailable()),
                    State::Backoff { until, .. } if *until > Instant::now() + HOLD => {
                        self.refuse(*call, self.unavailable());
                    }
                    _ if !self.may_hold(&call) => {
                        self.refuse(*call, Failure::Overloaded { what: "too many calls wait for its start" });
                    }
                    _ => self.held.push_back((Instant::now() + HOLD, *call)),
                }
            }
        }
    }

    /// Whether it is about a task that went with its instance, which one may not that both ends know by themselves.
    fn is_about_gone_task(&self, matter: &Matter) -> bool {
        match matter {
            Matter::Task(_) => true,
            Matter::Stated(_) => self.publisher.verdict.of(&self.config) == Some(Era::Legacy),
            _ => false,
        }
    }

    /// Whether there is a place for it, as there would be at an instance that reads nothing.
    fn may_hold(&self, call: &Call) -> bool {
        let (session, bytes) = (call.reply.key.session, call.line.len());
        let held = || self.held.iter().map(|(_, call)| (call.reply.key.session, call.line.len()));
        let has_place = self.held.len() < MAX_IN_FLIGHT
            || share::is_due(MAX_IN_FLIGHT, session, 1, held().map(|(session, _)| (session, 1)));
        let held_bytes: usize = held().map(|(_, bytes)| bytes).sum();
        let has_room = self.held.is_empty()
            || held_bytes + bytes <= self.host.max_message
            || share::is_due(self.host.max_message, session, bytes, held());
        has_place && has_room
    }

    /// Hands the calls that were held back to an instance that is ready, unless it is said to be down.
    pub(super) fn release_held(&mut self, instance: &mut Instance) {
        if self.orders.vouched() == Vouched::Down {
            return self.refuse_held();
        }
        for (_, call) in std::mem::take(&mut self.held) {
            self.give(Box::new(call), instance);
        }
    }

    fn drop_held(&mut self, key: CallKey) {
        if let Some(index) = self.held.iter().position(|(_, call)| call.reply.key == key)
            && let Some((_, call)) = self.held.remove(index)
        {
            call.reply.forgive();
        }
    }

    fn expire_held(&mut self) {
        let now = Instant::now();
        while self.held.front().is_some_and(|(deadline, _)| *deadline <= now) {
            if let Some((_, call)) = self.held.pop_front() {
                self.refuse(call, self.unavailable());
            }
        }
        if self.forget_at.is_some_and(|at| at <= now) {
            self.forget_at = None;
            self.publisher.update(|published| published.lists = Lists::default());
        }
    }

    pub(super) fn refuse_held(&mut self) {
        while let Some((_, call)) = self.held.pop_front() {
            self.refuse(call, self.unavailable());
        }
    }

    pub(super) fn refuse(&self, call: Call, failure: Failure) {
        self.publisher.stats.errors.add_one();
        call.refuse(failure);
    }

    pub(super) fn unavailable(&self) -> Failure {
        match self.lifecycle.state() {
            State::Stopping | State::Stopped if self.orders.stop.now() > Stop::Run => Failure::ShuttingDown,
            State::Stopping | State::Stopped if !self.orders.wants_any() => {
                Failure::Unavailable { reason: "it is disabled".to_owned(), retry_after: None }
            }
            _ if self.orders.vouched() == Vouched::Down => {
                Failure::Unavailable { reason: MARKED_DOWN.to_owned(), retry_after: None }
            }
            State::Backoff { until, reason, .. } => Failure::Unavailable {
                reason: reason.clone(),
                retry_after: Some(until.saturating_duration_since(Instant::now())),
            },
            State::Failed { reason } | State::Unresponsive { reason, .. } => {
                Failure::Unavailable { reason: reason.clone(), retry_after: None }
            }
            State::NeedsLogin { reason } => Failure::LoginNeeded { why: reason.clone() },
            _ => Failure::Unavailable { reason: "it is still starting".to_owned(), retry_after: None },
        }
    }
}
