//! The stop level, which only rises: from the daemon to every server and session.

use tokio::sync::watch;

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
