//! Limits how many servers start at once: a machine that starts everything at once starts everything slowly.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Starts at once. `npx` and `uvx` keep two or more cores busy for each.
const MAX_STARTING: usize = 4;
/// How long one start may keep its permit, so that a server that hangs at its start delays no other for longer.
const MAX_PERMIT_TIME: Duration = Duration::from_secs(2);

/// The permits of all servers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StartPermits(Arc<Semaphore>);

/// The permit to start now, until it is dropped.
#[derive(Debug)]
pub(super) struct StartPermit(
    #[expect(dead_code, reason = "its drop returns the permit")] Option<OwnedSemaphorePermit>,
);

impl Default for StartPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_STARTING)))
    }
}

impl StartPermits {
    /// Waits for a permit; first come, first served.
    pub(super) async fn acquire(&self) -> StartPermit {
        // The semaphore is never closed.
        StartPermit(Arc::clone(&self.0).acquire_owned().await.ok())
    }
}

impl StartPermit {
    /// Waits for `start`, and returns the permit after [`MAX_PERMIT_TIME`] at the latest.
    pub(super) async fn during<T>(self, start: impl Future<Output = T>) -> T {
        let mut start = pin!(start);
        tokio::select! {
            started = &mut start => return started,
            () = sleep(MAX_PERMIT_TIME) => drop(self),
        }
        start.await
    }
}
