//! Whose turn it is to start: a machine that starts everything at once starts everything slowly.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// How long one that starts keeps others from it: a server that hangs at its start delays nobody longer.
const TURN: Duration = Duration::from_secs(2);

/// So many may start at once.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

/// The right to start now.
#[derive(Debug)]
pub(super) struct Turn(#[expect(dead_code, reason = "it is given back when dropped")] Option<OwnedSemaphorePermit>);

impl Turns {
    /// For `count` at once.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Waits for a turn; first come, first served.
    pub(super) async fn take(&self) -> Turn {
        // A semaphore that nobody closes.
        Turn(Arc::clone(&self.0).acquire_owned().await.ok())
    }
}

impl Turn {
    /// Waits for `start`, but holds the turn no longer than it is one's due.
    pub(super) async fn during<T>(self, start: impl Future<Output = T>) -> T {
        let mut start = pin!(start);
        tokio::select! {
            started = &mut start => return started,
            () = sleep(TURN) => drop(self),
        }
        start.await
    }
}
