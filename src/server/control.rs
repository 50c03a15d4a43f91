//! The owner's control over a server's task.
//!
//! Two watch channels: the stop level, which only rises, and the desired state. The task compares the desired state with
//! the running instance, so it needs only the latest value of several.

use std::sync::Arc;

use tokio::sync::watch;

use super::era_cache::EraPreference;
use crate::config::ServerConfig;

/// The desired state of a server, until it is stopped for good.
#[derive(Debug, Clone)]
pub(super) struct DesiredState {
    pub(super) config: Arc<ServerConfig>,
    pub(super) enabled: bool,
    /// The mark of its health.
    pub(super) health_override: HealthOverride,
    /// The era of the next instance.
    pub(super) era: EraPreference,
    /// Whether an instance that has failed is started again by itself.
    pub(super) retries: bool,
    /// Rises whenever the running instance has to be replaced.
    pub(super) revision: u64,
}

/// The mark of a server's health, which the program that owns it sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HealthOverride {
    /// None: health checks decide.
    #[default]
    Auto,
    /// The server counts as healthy, whatever the checks find.
    ForceHealthy,
    /// The server gets no calls.
    ForceUnhealthy,
}

/// The owner's end.
#[derive(Debug)]
pub struct Control {
    stop: watch::Sender<StopLevel>,
    desired: watch::Sender<DesiredState>,
}

/// The task's end.
#[derive(Debug, Clone)]
pub(super) struct ControlReceiver {
    pub(super) stop: StopReceiver,
    desired: watch::Receiver<DesiredState>,
    /// The revision of the present or last instance.
    applied: u64,
}

pub(super) fn channel(config: Arc<ServerConfig>, enabled: bool, era: EraPreference) -> (Control, ControlReceiver) {
    let (stop_sender, stop) = StopReceiver::channel();
    let (desired_sender, desired) = watch::channel(DesiredState {
        config,
        enabled,
        health_override: HealthOverride::Auto,
        era,
        retries: true,
        revision: 0,
    });
    (Control { stop: stop_sender, desired: desired_sender }, ControlReceiver { stop, desired, applied: 0 })
}

impl Control {
    /// Stops the server for good, in the way of `stop`.
    pub fn stop(&self, stop: StopLevel) {
        raise(&self.stop, stop);
    }

    /// The present stop level.
    #[must_use]
    pub fn stopping(&self) -> StopLevel {
        *self.stop.borrow()
    }

    /// Enables the server, or disables it, which stops its instance.
    pub fn enable(&self, enabled: bool) {
        self.desired.send_if_modified(|desired| std::mem::replace(&mut desired.enabled, enabled) != enabled);
    }

    /// Sets the operator's mark of its health.
    pub fn override_health(&self, health_override: HealthOverride) {
        self.desired.send_if_modified(|desired| {
            std::mem::replace(&mut desired.health_override, health_override) != health_override
        });
    }

    /// Sets the era of the next instance. The running one continues.
    pub(super) fn prefer(&self, era: EraPreference) {
        self.desired.send_if_modified(|desired| std::mem::replace(&mut desired.era, era) != era);
    }

    /// Whether an instance that has failed is started again by itself. A call starts it in any case.
    pub(super) fn retry(&self, retries: bool) {
        self.desired.send_if_modified(|desired| std::mem::replace(&mut desired.retries, retries) != retries);
    }

    /// The mark of its health.
    #[must_use]
    pub fn health_override(&self) -> HealthOverride {
        self.desired.borrow().health_override
    }

    /// Replaces the instance after its calls. Returns the revision of the new one.
    pub fn restart(&self) -> u64 {
        self.desired.send_modify(|desired| desired.revision += 1);
        self.desired.borrow().revision
    }

    /// Replaces the instance by one with this configuration, which has the same name.
    pub fn reconfigure(&self, config: Arc<ServerConfig>) -> u64 {
        self.desired.send_modify(|desired| desired.config = config);
        self.restart()
    }
}

impl ControlReceiver {
    /// Waits for a change, and returns the desired state.
    pub(super) async fn changed(&mut self) -> DesiredState {
        if self.desired.changed().await.is_err() {
            // The manager has dropped its `Control`, which counts as `StopLevel::Kill`.
            std::future::pending::<()>().await;
        }
        self.desired()
    }

    /// The mark of its health.
    pub(super) fn health_override(&self) -> HealthOverride {
        self.desired.borrow().health_override
    }

    /// Waits for another mark than `health_override`.
    pub(super) async fn health_override_other_than(&mut self, health_override: HealthOverride) -> HealthOverride {
        let mark = self
            .desired
            .wait_for(|desired| desired.health_override != health_override)
            .await
            .map(|desired| desired.health_override);
        match mark {
            Ok(mark) => mark,
            Err(_) => std::future::pending().await,
        }
    }

    /// The present desired state.
    pub(super) fn desired(&self) -> DesiredState {
        self.desired.borrow().clone()
    }

    /// Instances are of this revision from now on.
    pub(super) fn apply(&mut self, revision: u64) {
        self.applied = revision;
    }

    /// Whether an instance of the applied revision shall run.
    pub(super) fn should_run_applied(&self) -> bool {
        self.should_run() && self.desired.borrow().revision == self.applied
    }

    /// Whether any instance shall run.
    pub(super) fn should_run(&self) -> bool {
        self.stop.now() == StopLevel::Run && self.desired.borrow().enabled
    }

    /// Waits until an instance of the applied revision shall stop.
    pub(super) async fn wait_obsolete(&mut self) {
        let applied = self.applied;
        let replaced = self.desired.wait_for(|desired| !desired.enabled || desired.revision != applied);
        tokio::select! {
            // A dropped owner counts as `StopLevel::Kill`.
            Ok(_) = replaced => {}
            () = self.stop.at_least(StopLevel::FinishAll) => {}
        }
    }

    /// Waits until an instance that has failed may be started again by itself.
    pub(super) async fn wait_retries(&mut self) {
        if self.desired.wait_for(|desired| desired.retries).await.is_err() {
            // A dropped owner counts as `StopLevel::Kill`.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until an instance shall run; `None` if the server is stopped for good.
    pub(super) async fn next(&mut self) -> Option<DesiredState> {
        let enabled = self.desired.wait_for(|desired| desired.enabled);
        tokio::select! {
            biased;
            () = self.stop.at_least(StopLevel::FinishAll) => None,
            desired = enabled => desired.ok().map(|desired| desired.clone()),
        }
    }
}

/// How a task must stop. The level only rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Do not stop.
    Run,
    /// Handle all waiting and running calls, then stop. A replacement receives new calls.
    FinishAll,
    /// Finish running calls, then stop. Waiting calls are not sent.
    FinishRunning,
    /// Stop at once.
    Kill,
}

/// Receives the stop level.
#[derive(Debug, Clone)]
pub struct StopReceiver(watch::Receiver<StopLevel>);

impl StopReceiver {
    /// A channel whose level is [`StopLevel::Run`] until its sender raises it.
    #[must_use]
    pub fn channel() -> (watch::Sender<StopLevel>, Self) {
        let (sender, receiver) = watch::channel(StopLevel::Run);
        (sender, Self(receiver))
    }

    /// The present level. A dropped sender means [`StopLevel::Kill`].
    #[must_use]
    pub fn now(&self) -> StopLevel {
        if self.0.has_changed().is_err() { StopLevel::Kill } else { *self.0.borrow() }
    }

    /// Waits until the level is at least `stop`. A dropped sender means [`StopLevel::Kill`].
    pub async fn at_least(&mut self, stop: StopLevel) {
        let _ = self.0.wait_for(|level| *level >= stop).await;
    }
}

/// Both ends of a stop channel, for the task that raises the level.
#[derive(Debug)]
pub struct StopChannel {
    /// Raises the level.
    pub sender: watch::Sender<StopLevel>,
    /// What others wait for.
    pub receiver: StopReceiver,
}

impl StopChannel {
    /// A channel whose level is [`StopLevel::Run`] until it is raised.
    #[must_use]
    pub fn new() -> Self {
        let (sender, receiver) = StopReceiver::channel();
        Self { sender, receiver }
    }

    /// Raises the level to `stop`, unless it is as high already.
    pub fn raise(&self, stop: StopLevel) {
        raise(&self.sender, stop);
    }
}

impl Default for StopChannel {
    fn default() -> Self {
        Self::new()
    }
}

/// Raises the level to `stop`, unless it is as high already.
pub(super) fn raise(sender: &watch::Sender<StopLevel>, stop: StopLevel) {
    sender.send_if_modified(|now| std::mem::replace(now, stop.max(*now)) < stop);
}
