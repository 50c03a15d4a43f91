//! The memory that connections use for unwritten output, and for input that was read and not handled yet. All connections share a
//! budget.
//!
//! Each connection may use [`ALLOWANCE`] bytes. What it uses beyond that counts towards the budget. While the budget is exceeded, the
//! daemon closes connections, which it chooses by the numbers that are published here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::quota::AgentQuota;

/// What each connection may use without being counted, in bytes.
pub(super) const ALLOWANCE: usize = 64 << 10;
/// The budget, in buffer units.
const BUDGET_MESSAGES: usize = 16;
/// The least budget, in bytes.
const MIN_BUDGET: usize = 64 << 20;

/// What all connections may use together beyond their allowances.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    exceeded: Notify,
    started: Instant,
}

/// What one connection uses of the budget.
#[derive(Debug)]
pub struct MemoryUse {
    budget: Arc<Budget>,
    quota: Arc<AgentQuota>,
    used: AtomicUsize,
    /// The same beyond the allowance.
    bytes: AtomicUsize,
    /// When `used` last rose above 0, in milliseconds after `Budget::started`.
    since: AtomicU64,
}

impl Budget {
    /// A budget of multiples of this buffer unit.
    #[must_use]
    pub fn new(buffer_unit: usize) -> Arc<Self> {
        let limit = buffer_unit.saturating_mul(BUDGET_MESSAGES).max(MIN_BUDGET);
        Arc::new(Self { limit, used: AtomicUsize::new(0), exceeded: Notify::new(), started: Instant::now() })
    }

    /// In bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Waits until a connection uses more than before while the total is over the limit.
    pub async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl MemoryUse {
    /// For a new connection.
    #[must_use]
    pub(crate) fn new(budget: &Arc<Budget>, quota: Arc<AgentQuota>) -> Arc<Self> {
        let (used, bytes, since) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { budget: Arc::clone(budget), quota, used, bytes, since })
    }

    /// Publishes that the connection uses so many bytes now.
    pub(super) fn set(&self, used: usize) {
        let former = self.used.load(Ordering::Relaxed);
        if used == former {
            return;
        }
        self.used.store(used, Ordering::Relaxed);
        if former == 0 {
            self.since.store(self.budget.now(), Ordering::Relaxed);
        }
        if self.quota.set_backlog(former, used) && used > former {
            self.budget.exceeded.notify_one();
        }
        let bytes = used.saturating_sub(ALLOWANCE);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let used = self.budget.used.load(Ordering::Relaxed) - before + bytes;
        // Sessions run on one thread.
        self.budget.used.store(used, Ordering::Relaxed);
        if bytes > before && used > self.budget.limit {
            self.budget.exceeded.notify_one();
        }
    }

    /// Counts bytes of a large incomplete line. Returns how long mcpd has to pause before it reads more of it.
    pub(super) fn read(&self, bytes: usize) -> Duration {
        self.quota.read(bytes, Instant::now())
    }

    /// All bytes.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes beyond the allowance.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How long the connection has held any bytes.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.budget.now().saturating_sub(self.since.load(Ordering::Relaxed)))
    }
}

impl Drop for MemoryUse {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::quota::tests::unlimited;
    use super::*;

    #[test]
    fn only_what_exceeds_the_allowance_counts_until_it_is_gone() {
        let budget = Budget::new(1 << 20);
        let uses = [(); 3].map(|()| MemoryUse::new(&budget, unlimited()));
        uses[0].set(ALLOWANCE);
        assert_eq!(uses[0].bytes(), 0);
        uses[1].set(budget.limit() + ALLOWANCE);
        assert!(budget.exceeded().now_or_never().is_none(), "it is full and not exceeded");
        uses[2].set(ALLOWANCE + 1);
        assert!(budget.exceeded().now_or_never().is_some());
        uses[2].set(7);
        drop(uses);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
