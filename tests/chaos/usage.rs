//! The daemon's processes, descriptors, threads and memory, and the latency of `mcpd status`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{Daemon, field, resident_kib, run};

/// Maximum number of helper threads for parsing and files. The daemon keeps those that it has started.
const HELPERS: usize = 4;

/// Processes, descriptors and threads, which must return to their former state except for helper threads.
#[derive(Debug)]
pub(crate) struct Usage {
    /// By their command.
    processes: BTreeMap<String, usize>,
    /// By their kind.
    descriptors: BTreeMap<String, usize>,
    threads: usize,
    zombies: usize,
}

impl Usage {
    pub(crate) fn by(daemon: &mut Daemon) -> Self {
        let pid = daemon.pid();
        let files = daemon.open_files();
        // Opened for the first line that a server writes to stderr.
        let files = files.iter().filter(|file| !file.ends_with("/servers.log"));
        let kinds = files.map(|file| file.split(":[").next().unwrap_or_default().to_owned());
        let below = crate::support::supervised(pid);
        Self {
            processes: count(daemon.family().into_iter().map(|process| process.command)),
            descriptors: count(kinds),
            threads: field(pid, "Threads").parse().expect("a number"),
            zombies: below
                .into_iter()
                .filter(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(is_zombie))
                .count(),
        }
    }

    /// Whether usage equals `before`, except for helper threads.
    pub(crate) fn is_as(&self, before: &Self) -> bool {
        let all = |usage: &Self| (usage.processes.clone(), usage.descriptors.clone(), usage.zombies);
        all(self) == all(before) && self.threads < before.threads + HELPERS
    }
}

fn is_zombie(stat: String) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        let (processes, descriptors) = (sum(&self.processes), sum(&self.descriptors));
        write!(f, "{processes} processes, {descriptors} descriptors, {} threads", self.threads)
    }
}

fn count(items: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    items.fold(BTreeMap::new(), |mut counts, item| {
        *counts.entry(item).or_default() += 1;
        counts
    })
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(daemon: &Daemon) -> f64 {
    resident_kib(daemon.pid()) as f64 / 1024.0
}

/// Runs `mcpd status` repeatedly.
pub(crate) struct StatusWatch {
    stop: Sender<()>,
    asking: JoinHandle<Latencies>,
}

/// Durations of `mcpd status`, including process start.
pub(crate) struct Latencies(Vec<Duration>);

impl StatusWatch {
    pub(crate) fn start(mut command: Command) -> Self {
        let (stop, stopped) = channel();
        let asking = thread::spawn(move || {
            let mut latencies = Vec::new();
            while stopped.recv_timeout(Duration::from_millis(150)) == Err(RecvTimeoutError::Timeout) {
                let start = Instant::now();
                let ran = run(&mut command);
                latencies.push(start.elapsed());
                assert!(matches!(ran.code, Some(0 | 1)) && ran.stdout.starts_with('{'), "no status: {ran}");
            }
            Latencies(latencies)
        });
        Self { stop, asking }
    }

    pub(crate) fn stop(self) -> Latencies {
        drop(self.stop);
        self.asking.join().expect("`mcpd status` answers whenever it is asked")
    }
}

impl Latencies {
    /// Generous, since the machine is busy. The promised limit is reported.
    pub(crate) fn expect_answers(&self) {
        let slowest = self.0.iter().max().copied().unwrap_or_default();
        assert!(slowest < Duration::from_secs(60), "`mcpd status` took {slowest:?}");
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slow = self.0.iter().filter(|latency| **latency > Duration::from_millis(250)).count();
        let slowest = self.0.iter().max().copied().unwrap_or_default();
        write!(f, "status asked {} times, {slow} of them took more than 250 ms, {slowest:?} at most", self.0.len())
    }
}
