//! The order to stop: a level that only rises, from the daemon to every server and session.

use tokio::sync::watch;

/// How far something is to be stopped. It only ever rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Not at all.
    Run,
    /// Let it take what waits for it and finish its calls, then end it: another stands in its place, so no more will come.
    Finish,
    /// Let it finish its calls, then end it.
    Drain,
    /// End it at once.
    Kill,
}

/// The order to stop, as whoever has to obey it sees it.
#[derive(Debug, Clone)]
pub struct StopOrder(watch::Receiver<Stop>);

impl StopOrder {
    /// An order that says [`Stop::Run`] until its sender raises it.
    #[must_use]
    pub fn channel() -> (watch::Sender<Stop>, Self) {
        let (sender, receiver) = watch::channel(Stop::Run);
        (sender, Self(receiver))
    }

    /// What it says now. A sender that is gone means [`Stop::Kill`].
    #[must_use]
    pub fn now(&self) -> Stop {
        if self.0.has_changed().is_err() { Stop::Kill } else { *self.0.borrow() }
    }

    /// Waits until it is at least `stop`. A sender that is gone means [`Stop::Kill`].
    pub async fn at_least(&mut self, stop: Stop) {
        let _ = self.0.wait_for(|order| *order >= stop).await;
    }
}

/// Both ends of an order to stop, for the task that gives it.
#[derive(Debug)]
pub struct StopControl {
    /// Changes the order.
    pub sender: watch::Sender<Stop>,
    /// What others wait for.
    pub order: StopOrder,
}

impl StopControl {
    /// An order that stays [`Stop::Run`] until it is raised.
    #[must_use]
    pub fn new() -> Self {
        let (sender, order) = StopOrder::channel();
        Self { sender, order }
    }

    /// Raises the order to `stop`, unless it is as high already.
    pub fn raise(&self, stop: Stop) {
        raise(&self.sender, stop);
    }
}

impl Default for StopControl {
    fn default() -> Self {
        Self::new()
    }
}

/// Raises an order to `stop`, unless it says that or more already.
pub(crate) fn raise(order: &watch::Sender<Stop>, stop: Stop) {
    order.send_if_modified(|now| std::mem::replace(now, stop.max(*now)) < stop);
}
