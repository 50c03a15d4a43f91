//! What the processes of servers use: measured while somebody reads it, on a thread of its own.
//!
//! A measurement reads `/proc` for each process below each guard, which takes about 0.1 ms for each server. So an idle daemon measures
//! nothing, and many readers share one measurement.

use std::collections::{BTreeMap, HashMap};
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one look or change, without waiting")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::figures_report::UsageReport;
use super::view::View;
use crate::server::{ServerHandle, SubtreeUsage, subtree_usage};

/// Minimum age of values that are measured again.
const MIN_AGE: Duration = Duration::from_secs(2);
/// Maximum age of values that are shown.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Maximum wait for values.
const WAIT: Duration = Duration::from_millis(100);

/// The guards of each server.
type Guards = Vec<(Arc<str>, Vec<u32>)>;

/// What servers used at one moment.
#[derive(Debug, Default)]
pub(super) struct Usage {
    at: Option<Instant>,
    servers: HashMap<Arc<str>, ServerUsage>,
}

/// What one server used at that moment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ServerUsage {
    guards: BTreeMap<u32, UsageReport>,
    /// Processor time of instances that have ended since.
    ended_cpu_ms: u64,
}

/// The unmeasured server.
static UNKNOWN: ServerUsage = ServerUsage { guards: BTreeMap::new(), ended_cpu_ms: 0 };

impl ServerUsage {
    /// What all its instances use.
    pub(super) fn total(&self) -> Option<UsageReport> {
        let add = |sum: UsageReport, one: &UsageReport| UsageReport {
            memory_bytes: sum.memory_bytes + one.memory_bytes,
            cpu_ms: sum.cpu_ms + one.cpu_ms,
            processes: sum.processes + one.processes,
        };
        let ended = UsageReport { cpu_ms: self.ended_cpu_ms, ..UsageReport::default() };
        (!self.guards.is_empty()).then(|| self.guards.values().fold(ended, add))
    }

    /// What the instance with this guard uses.
    pub(super) fn of_guard(&self, guard: u32) -> Option<UsageReport> {
        self.guards.get(&guard).copied()
    }

    /// The next values. The time of instances that are gone is kept, so the total never falls.
    fn followed_by(&self, guards: BTreeMap<u32, UsageReport>) -> Self {
        let goes_on =
            |guard: &u32, before: &UsageReport| guards.get(guard).is_some_and(|now| now.cpu_ms >= before.cpu_ms);
        let ended = self.guards.iter().filter(|(guard, before)| !goes_on(guard, before));
        let ended_cpu_ms = self.ended_cpu_ms + ended.map(|(_, before)| before.cpu_ms).sum::<u64>();
        Self { guards, ended_cpu_ms }
    }
}

impl Usage {
    /// Time since it was measured.
    pub(super) fn age(&self) -> Option<Duration> {
        self.at.map(|at| at.elapsed())
    }

    /// What the server of this name used.
    pub(super) fn of(&self, server: &str) -> &ServerUsage {
        let is_recent = self.age().is_some_and(|age| age < MAX_AGE + WAIT);
        self.servers.get(server).filter(|_| is_recent).unwrap_or(&UNKNOWN)
    }

    /// Reads `/proc`.
    fn measure(&self, guards: Guards) -> Self {
        let measured = |guards: Vec<u32>| {
            let usage = guards.into_iter().filter_map(|guard| Some((guard, report(subtree_usage(guard)?))));
            usage.collect::<BTreeMap<_, _>>()
        };
        let server = |(name, guards): (Arc<str>, Vec<u32>)| {
            let before = self.servers.get(&name).unwrap_or(&UNKNOWN);
            let now = before.followed_by(measured(guards));
            (name, now)
        };
        let servers = guards.into_iter().map(server).collect();
        Self { at: Some(Instant::now()), servers }
    }
}

fn report(SubtreeUsage { memory, cpu, processes }: SubtreeUsage) -> UsageReport {
    UsageReport { memory_bytes: memory, cpu_ms: u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX), processes }
}

/// The guards of all instances of the servers in `view`.
pub(super) fn guards(view: &View) -> Guards {
    view.servers.iter().map(|member| (Arc::clone(member.handle.name()), guards_of(&member.handle))).collect()
}

/// The guards of all instances of a server.
pub(super) fn guards_of(server: &ServerHandle) -> Vec<u32> {
    let instances = server.instances();
    let instances = instances.iter().flat_map(|all| all.iter());
    let mut guards: Vec<u32> = instances.chain([server]).filter_map(|one| one.published().guard_pid).collect();
    guards.sort_unstable();
    guards.dedup();
    guards
}

/// Measures on demand. Cheap to clone.
#[derive(Debug, Clone, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(super) struct UsageSampler(Arc<Mutex<Sampler>>);

#[derive(Debug, Default)]
struct Sampler {
    latest: Arc<Usage>,
    /// The end of the measurement in progress. Its thread may hang in the kernel; then there is no other.
    running: Option<watch::Receiver<()>>,
}

impl UsageSampler {
    /// The last values.
    pub(super) fn latest(&self) -> Arc<Usage> {
        self.change(|sampler| Arc::clone(&sampler.latest))
    }

    /// Measures again, unless the last values are recent. Waits if they are old, and not for long.
    pub(super) async fn refresh(&self, guards: impl FnOnce() -> Guards) {
        let age = self.latest().age().unwrap_or(Duration::MAX);
        if age < MIN_AGE {
            return;
        }
        let mut running = self.change(|sampler| {
            let running = sampler.running.clone().filter(|running| running.has_changed().is_ok());
            running.unwrap_or_else(|| sampler.running.insert(self.begin(guards())).clone())
        });
        if age >= MAX_AGE {
            // The sender is dropped at the end of the measurement.
            let _ = timeout(WAIT, running.changed()).await;
        }
    }

    /// Begins a measurement.
    fn begin(&self, guards: Guards) -> watch::Receiver<()> {
        let (end, running) = watch::channel(());
        let sampler = self.clone();
        drop(spawn_blocking(move || {
            let before = sampler.latest();
            let measured = Arc::new(before.measure(guards));
            sampler.change(|sampler| sampler.latest = measured);
            drop(end);
        }));
        running
    }

    fn change<T>(&self, change: impl FnOnce(&mut Sampler) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cpu_ms: u64) -> UsageReport {
        UsageReport { memory_bytes: 10, cpu_ms, processes: 2 }
    }

    #[test]
    fn processor_time_of_a_server_does_not_fall_when_an_instance_ends() {
        let first = UNKNOWN.followed_by(BTreeMap::from([(1, used(100)), (2, used(50))]));
        assert_eq!(first.total(), Some(UsageReport { memory_bytes: 20, cpu_ms: 150, processes: 4 }));
        let second = first.followed_by(BTreeMap::from([(2, used(60))]));
        assert_eq!(second.total(), Some(UsageReport { memory_bytes: 10, cpu_ms: 160, processes: 2 }));
        let with_reused_id = second.followed_by(BTreeMap::from([(2, used(5))]));
        assert_eq!(with_reused_id.total().map(|total| total.cpu_ms), Some(165));
        let none = with_reused_id.followed_by(BTreeMap::new());
        assert_eq!(none.total(), None);
        assert_eq!(none.ended_cpu_ms, 165);
    }

    #[tokio::test]
    async fn readers_within_two_seconds_share_one_measurement() {
        let sampler = UsageSampler::default();
        assert_eq!(sampler.latest().of("a").total(), None);
        let guards = || vec![(Arc::from("a"), vec![std::process::id()])];
        // A measurement that takes longer is awaited again.
        while sampler.latest().at.is_none() {
            sampler.refresh(guards).await;
        }
        let first = sampler.latest();
        assert!(first.of("a").total().is_some_and(|total| total.processes >= 1 && total.memory_bytes > 0));
        assert_eq!(first.of("b").total(), None);
        sampler.refresh(guards).await;
        assert!(Arc::ptr_eq(&first, &sampler.latest()) || first.at.is_some_and(|at| at.elapsed() >= MIN_AGE));
    }
}
