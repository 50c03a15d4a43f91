//! Limits how many servers start at once: a machine that starts everything at once starts everything slowly.
//!
//! A server that is called starts before all others. Runners that fill the same cache start one after another.
#![expect(
    clippy::disallowed_types,
    reason = "tasks of all servers wait in one queue, which is never held across an await"
)]

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

/// Starts at once. `npx` and `uvx` keep two or more cores busy for each.
const MAX_STARTING: usize = 4;
/// How long one start may keep its permit, so that a server that hangs at its start delays no other for longer.
const MAX_PERMIT_TIME: Duration = Duration::from_secs(2);
/// How long one start may keep the cache of its runner to itself.
const MAX_DOWNLOAD_TIME: Duration = Duration::from_secs(60);

/// The permits of all servers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StartPermits(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    starting: usize,
    /// The caches that a start fills.
    caches: Vec<&'static str>,
    /// In the order of arrival.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    is_called: Arc<AtomicBool>,
    cache: Option<&'static str>,
    granted: oneshot::Sender<StartPermit>,
}

/// The permit to start now, until it is dropped.
#[derive(Debug)]
pub(super) struct StartPermit {
    start: Option<Held>,
    cache: Option<Held>,
}

/// What one start has of the limits.
#[derive(Debug)]
struct Held {
    permits: StartPermits,
    /// The cache that it fills; `None`: one of the starts at once.
    cache: Option<&'static str>,
}

impl StartPermits {
    /// Waits for a permit. `is_called` may become true meanwhile. `cache`: the cache that this start may fill.
    pub(super) async fn acquire(&self, is_called: Arc<AtomicBool>, cache: Option<&'static str>) -> StartPermit {
        let (granted, permit) = oneshot::channel();
        self.queue().waiting.push_back(Waiting { is_called, cache, granted });
        self.grant();
        // The sender is dropped only with the receiver.
        permit.await.unwrap_or(StartPermit { start: None, cache: None })
    }

    /// Grants the free permits.
    fn grant(&self) {
        loop {
            let Some(Waiting { cache, granted, .. }) = self.queue().take_next() else { return };
            let held = |cache| Held { permits: self.clone(), cache };
            // A permit that nobody waits for any more is returned.
            let _ = granted.send(StartPermit { start: Some(held(None)), cache: cache.map(|cache| held(Some(cache))) });
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The next start that is permitted now, which then counts.
    fn take_next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|waiting| !waiting.granted.is_closed());
        if self.starting == MAX_STARTING {
            return None;
        }
        let is_free = |waiting: &Waiting| waiting.cache.is_none_or(|cache| !self.caches.contains(&cache));
        let free = || self.waiting.iter().enumerate().filter(|(_, waiting)| is_free(waiting));
        let called = free().find(|(_, waiting)| waiting.is_called.load(Ordering::Relaxed));
        let (index, _) = called.or_else(|| free().next())?;
        let next = self.waiting.remove(index)?;
        self.starting += 1;
        self.caches.extend(next.cache);
        Some(next)
    }
}

impl StartPermit {
    /// Waits for `start`, and returns the permit after [`MAX_PERMIT_TIME`] at the latest, and the cache
    /// [`MAX_DOWNLOAD_TIME`] later.
    pub(super) async fn during<T>(self, start: impl Future<Output = T>) -> T {
        let Self { start: permit, cache } = self;
        let returned = async {
            sleep(MAX_PERMIT_TIME).await;
            drop(permit);
            sleep(MAX_DOWNLOAD_TIME).await;
            drop(cache);
            pending().await
        };
        let (start, returned) = (pin!(start), pin!(returned));
        tokio::select! {
            started = start => started,
            never = returned => never,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut queue = self.permits.queue();
        match self.cache {
            Some(cache) => queue.caches.retain(|known| *known != cache),
            None => queue.starting -= 1,
        }
        drop(queue);
        self.permits.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    type Acquired = std::pin::Pin<Box<dyn Future<Output = StartPermit>>>;

    fn acquire(permits: &StartPermits, is_called: bool, cache: Option<&'static str>) -> Acquired {
        let permits = permits.clone();
        Box::pin(async move { permits.acquire(Arc::new(is_called.into()), cache).await })
    }

    /// Polls each, and returns which have a permit.
    fn granted(
        waiting: &mut [(&'static str, Acquired)],
        held: &mut Vec<(&'static str, StartPermit)>,
    ) -> Vec<&'static str> {
        let before = held.len();
        for (name, acquired) in waiting {
            if !held.iter().any(|(known, _)| known == name)
                && let Some(permit) = acquired.now_or_never()
            {
                held.push((name, permit));
            }
        }
        held[before..].iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn called_server_starts_before_servers_that_came_earlier() {
        let permits = StartPermits::default();
        let row = |name, is_called| (name, acquire(&permits, is_called, None));
        let mut all =
            [row("1", false), row("2", false), row("3", false), row("4", false), row("5", false), row("6", true)];
        let mut held = Vec::new();
        assert_eq!(granted(&mut all, &mut held), ["1", "2", "3", "4"]);
        held.swap_remove(0);
        let mut later = [all.into_iter().skip(4).collect::<Vec<_>>()].into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(granted(&mut later, &mut held), ["6"]);
        held.swap_remove(0);
        assert_eq!(granted(&mut later, &mut held), ["5"]);
    }

    #[test]
    fn starts_that_fill_one_cache_follow_each_other_and_delay_no_other() {
        let permits = StartPermits::default();
        let row = |name, is_called, cache| (name, acquire(&permits, is_called, Some(cache)));
        let mut all =
            [row("npm1", false, "npm"), row("npm2", false, "npm"), row("npm3", true, "npm"), row("uv", false, "uv")];
        let mut held = Vec::new();
        assert_eq!(granted(&mut all, &mut held), ["npm1", "uv"]);
        held.remove(0);
        assert_eq!(granted(&mut all[1..], &mut held), ["npm3"]);
        // A start that was given up leaves nothing behind.
        drop(held);
        let mut next = [("npm4", acquire(&permits, false, Some("npm")))];
        drop(all);
        assert_eq!(granted(&mut next, &mut Vec::new()), ["npm4"]);
        assert!(permits.queue().waiting.is_empty() && permits.queue().starting == 0);
    }
}
