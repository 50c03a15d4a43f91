//! What one holder of limits uses. Pure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{Holder, LIMITS, Limit, OverLimit, Resource, Sizes};
use crate::config::Quotas;

const SECOND: Duration = Duration::from_secs(1);
/// Bytes that each connection may hold without counting for the backlog of all connections.
pub(crate) const ALLOWANCE: usize = 64 << 10;

/// What is charged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    Connection,
    /// A call with a request of so many bytes.
    Call(usize),
    /// A message of the agent that several servers receive, or that gets no response. It counts for the limits of calls.
    Message(usize),
    /// A call for a part of such a message.
    Part(usize),
    /// A request that waits in mcpd.
    Request(usize),
    /// Unwritten output, and input that was read and not handled yet.
    Held(usize),
}

/// One limit as it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitUse {
    pub(crate) name: &'static str,
    pub(crate) limit: usize,
    /// What is in use now. A rate has none.
    pub(crate) used: Option<usize>,
    /// How often it was reached.
    pub(crate) refused: u64,
}

/// What one holder uses, and its limits.
#[derive(Debug)]
pub(super) struct Usage {
    holder: Holder,
    profile: Option<Arc<str>>,
    limits: Vec<(&'static Limit, usize)>,
    /// By [`Resource`], like the next two.
    used: [usize; Resource::COUNT],
    rates: [Gcra; Resource::COUNT],
    refused: [u64; Resource::COUNT],
}

impl Cost {
    fn amount(self, resource: Resource) -> usize {
        match (resource, self) {
            (Resource::Connections, Self::Connection)
            | (Resource::Calls | Resource::CallRate, Self::Call(_) | Self::Message(_))
            | (Resource::Requests, Self::Call(_) | Self::Part(_) | Self::Request(_)) => 1,
            (Resource::Bytes, Self::Call(bytes) | Self::Message(bytes) | Self::Request(bytes) | Self::Held(bytes))
            | (Resource::RequestBytes, Self::Call(bytes) | Self::Part(bytes) | Self::Request(bytes)) => bytes,
            (Resource::Backlog, Self::Held(bytes)) => backlog(bytes),
            _ => 0,
        }
    }

    pub(super) fn begins_call(self) -> bool {
        self.amount(Resource::CallRate) > 0
    }
}

impl Usage {
    /// Of a holder at a profile with these quotas.
    pub(super) fn new(holder: Holder, sizes: Sizes, profile: Option<&Arc<str>>, quotas: &Quotas) -> Self {
        let (used, rates, refused) = Default::default();
        let mut usage = Self { holder, profile: profile.cloned(), limits: Vec::new(), used, rates, refused };
        usage.set_limits(sizes, quotas);
        usage
    }

    /// Applies other quotas of the profile from now on. What is in use stays. For each quota that the profile does not set, every guest has
    /// its own default.
    pub(super) fn set_limits(&mut self, sizes: Sizes, of_profile: &Quotas) {
        let of_guest = Quotas::of_guest(sizes.buffer_unit).without(of_profile);
        let quotas = if self.holder == Holder::Guest { &of_guest } else { of_profile };
        let own = LIMITS.iter().filter(|limit| limit.holder == self.holder);
        self.limits = own.filter_map(|limit| Some((limit, (limit.value)(sizes, quotas)?))).collect();
    }

    pub(super) fn used(&self, resource: Resource) -> usize {
        self.used[resource as usize]
    }

    pub(super) fn is_unused(&self) -> bool {
        self.used.iter().all(|used| *used == 0)
    }

    /// Whether `cost` would be within every limit. Counts a refusal.
    pub(super) fn check(&mut self, cost: Cost, now: Instant) -> Result<(), OverLimit> {
        let over = self.limits.iter().find_map(|(limit, value)| {
            let (resource, amount) = (limit.resource, cost.amount(limit.resource));
            let wait = match resource.burst(*value) {
                Some(burst) => self.rates[resource as usize].wait(time_at(*value, amount), time_at(*value, burst), now),
                None => Duration::ZERO,
            };
            let is_over = amount > 0 && (!wait.is_zero() || self.used(resource) + amount > *value);
            is_over.then(|| self.over((limit, *value), wait))
        });
        let Some(over) = over else { return Ok(()) };
        self.count_refusal(over.limit.resource);
        Err(over)
    }

    pub(super) fn count_refusal(&mut self, resource: Resource) {
        self.refused[resource as usize] += 1;
    }

    pub(super) fn add(&mut self, cost: Cost, now: Instant) {
        Resource::COUNTED.iter().for_each(|resource| self.used[*resource as usize] += cost.amount(*resource));
        self.count_rate(Resource::CallRate, cost.amount(Resource::CallRate), now);
    }

    pub(super) fn give_back(&mut self, cost: Cost) {
        Resource::COUNTED.iter().for_each(|resource| self.used[*resource as usize] -= cost.amount(*resource));
    }

    /// Counts an amount of a rate, and returns how long the next has to wait. `burst` replaces that of the rate.
    pub(super) fn delay(&mut self, rate: Resource, amount: usize, burst: Option<usize>, now: Instant) -> Duration {
        self.count_rate(rate, amount, now);
        let Some((_, value)) = self.limit(rate) else { return Duration::ZERO };
        let burst = burst.or(rate.burst(value)).unwrap_or_default();
        self.rates[rate as usize].wait(Duration::ZERO, time_at(value, burst), now)
    }

    /// How much is in use beyond the limit, if it is exceeded.
    pub(super) fn excess(&self, resource: Resource) -> Option<(usize, OverLimit)> {
        let (limit, value) = self.limit(resource)?;
        let excess = self.used(resource).checked_sub(value).filter(|excess| *excess > 0)?;
        Some((excess, self.over((limit, value), Duration::ZERO)))
    }

    /// Each limit that has a name.
    pub(super) fn report(&self) -> impl Iterator<Item = LimitUse> {
        self.limits.iter().filter_map(|(limit, value)| {
            let resource = limit.resource;
            let used = resource.burst(*value).is_none().then(|| self.used(resource));
            Some(LimitUse { name: limit.name?, limit: *value, used, refused: self.refused[resource as usize] })
        })
    }

    fn count_rate(&mut self, resource: Resource, amount: usize, now: Instant) {
        if amount > 0
            && let Some((_, value)) = self.limit(resource)
        {
            self.rates[resource as usize].count(time_at(value, amount), now);
        }
    }

    fn limit(&self, resource: Resource) -> Option<(&'static Limit, usize)> {
        self.limits.iter().find(|(limit, _)| limit.resource == resource).copied()
    }

    fn over(&self, (limit, value): (&'static Limit, usize), wait: Duration) -> OverLimit {
        OverLimit { limit, value, profile: self.profile.clone(), wait }
    }
}

/// How much a connection that holds so many bytes adds to the backlog of all.
pub(super) fn backlog(held: usize) -> usize {
    held.saturating_sub(ALLOWANCE)
}

/// How long `amount` takes at `value` per second.
fn time_at(value: usize, amount: usize) -> Duration {
    SECOND.mul_f64(amount as f64 / value.max(1) as f64)
}

/// A limit of events by the generic cell rate algorithm, which permits bursts. An event of cost `c` moves the theoretical arrival time by `c`.
#[derive(Debug, Clone, Copy, Default)]
struct Gcra {
    /// Theoretical arrival time of the next event.
    theoretical_arrival: Option<Instant>,
}

impl Gcra {
    /// How long an event of this cost has to wait. `burst` is the tolerance, as the sum of costs that are admitted without a wait.
    fn wait(&self, cost: Duration, burst: Duration, now: Instant) -> Duration {
        let arrival = self.theoretical_arrival;
        arrival.map_or(Duration::ZERO, |arrival| (arrival + cost).saturating_duration_since(now + burst))
    }

    /// Counts an event of this cost.
    fn count(&mut self, cost: Duration, now: Instant) {
        self.theoretical_arrival = Some(self.theoretical_arrival.map_or(now, |arrival| arrival.max(now)) + cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn burst_comes_at_once_and_further_events_one_after_another() {
        let (mut limit, start) = (Gcra::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(limit.wait(MS, 10 * MS, start), Duration::ZERO);
            limit.count(MS, start);
        }
        assert_eq!(limit.wait(MS, 10 * MS, start), MS);
        assert_eq!(limit.wait(4 * MS, 10 * MS, start + MS), 3 * MS);
        assert_eq!(limit.wait(MS, 10 * MS, start + MS), Duration::ZERO);
    }

    #[test]
    fn idle_time_does_not_enlarge_the_burst() {
        let (mut limit, start) = (Gcra::default(), Instant::now());
        limit.count(MS, start);
        limit.count(10 * MS, start + 1000 * MS);
        assert_eq!(limit.wait(MS, 10 * MS, start + 1000 * MS), MS);
    }
}
