//! Before the daemon restarts, sessions pass on no further requests, and finish what they owe.
//!
//! The daemon gives the order with [`Drains::begin`], and learns from [`Drained`] when every session has written all its responses. A
//! session then stays connected, so that an agent sees the end of the connection only when the next program is about to run.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// Gives the order.
#[derive(Debug)]
pub(crate) struct Drains {
    order: watch::Sender<Option<Duration>>,
    /// Every session has a clone until it owes nothing more.
    work: mpsc::Sender<Infallible>,
    finished: mpsc::Receiver<Infallible>,
}

/// Completes once all sessions have finished.
#[derive(Debug)]
pub(crate) struct Drained(mpsc::Receiver<Infallible>);

/// The order, for a session.
#[derive(Debug, Clone)]
pub(crate) struct DrainOrder {
    order: watch::Receiver<Option<Duration>>,
    work: mpsc::WeakSender<Infallible>,
}

/// Held by a session that may owe responses.
pub(super) type UnfinishedWork = mpsc::Sender<Infallible>;

impl Drains {
    pub(crate) fn new() -> Self {
        let (work, finished) = mpsc::channel(1);
        Self { order: watch::Sender::new(None), work, finished }
    }

    /// For the next session.
    pub(crate) fn order(&self) -> DrainOrder {
        DrainOrder { order: self.order.subscribe(), work: self.work.downgrade() }
    }

    /// Gives the order. Calls have this time; later sessions receive the order, too.
    pub(crate) fn begin(&mut self, wait: Duration) -> Drained {
        let (work, finished) = mpsc::channel(1);
        self.work = work;
        self.order.send_replace(Some(wait));
        Drained(std::mem::replace(&mut self.finished, finished))
    }
}

impl Drained {
    /// Cancel safe.
    pub(crate) async fn wait(&mut self) {
        // Nothing is ever sent: it ends with the last sender.
        let _ = self.0.recv().await;
    }
}

impl DrainOrder {
    /// Work that the daemon waits for; `None` once it waits for no new work.
    pub(super) fn begin_work(&self) -> Option<UnfinishedWork> {
        self.work.upgrade()
    }

    /// Waits for the order. Returns the time that calls have.
    pub(super) async fn given(mut self) -> Duration {
        let wait = self.order.wait_for(Option::is_some).await.map(|wait| wait.unwrap_or_default());
        match wait {
            Ok(wait) => wait,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn drain_is_over_when_every_session_has_finished_its_work() {
        let mut drains = Drains::new();
        let [first, second, unused] = [(); 3].map(|()| drains.order());
        let (work, other) = (first.begin_work(), second.begin_work());
        assert!(work.is_some() && first.clone().given().now_or_never().is_none());
        let mut drained = drains.begin(Duration::from_secs(7));
        assert_eq!([first, second].map(|order| order.given().now_or_never()), [Some(Duration::from_secs(7)); 2]);
        assert!(drained.wait().now_or_never().is_none());
        drop(work);
        assert!(drained.wait().now_or_never().is_none());
        drop(other);
        assert!(drained.wait().now_or_never().is_some());
        assert!(unused.begin_work().is_none());
        assert_eq!(drains.order().given().now_or_never(), Some(Duration::from_secs(7)));
    }
}
