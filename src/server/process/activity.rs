//! Signs of life of a server that has not answered yet: bytes on stderr, and what its processes read, write and compute.
//!
//! The latter come from the kernel's counters of each process (`/proc/PID/io` and `/proc/PID/stat`), so mcpd looks at no file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::server::subtree::{self, ProcessUsage};

/// What a sign of life is at least, between two looks. An idle process does less, such as to write its log or to wake its own threads.
/// Only a runner shows life by what it reads and computes: a server that hangs can do both.
const MIN_BYTES: u64 = 64 << 10;
const MIN_TICKS: u64 = 10;
/// Time limit for reading the counters: the kernel makes a reader wait while a process executes another program.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that one process has written to stderr.
pub(in crate::server) type StderrBytes = Arc<AtomicU64>;

/// What the processes of one server had done at the last look.
#[derive(Debug)]
pub(in crate::server) struct Activity {
    /// The guard, or without one the server. It counts with all its descendants.
    root: u32,
    stderr: StderrBytes,
    stderr_seen: u64,
    is_runner: bool,
    usage: HashMap<i32, ProcessUsage>,
}

impl Activity {
    /// Of a server that has just been started. `is_runner`: it may still be downloaded.
    pub(in crate::server) fn new(root: u32, stderr: StderrBytes, is_runner: bool) -> Self {
        Self { root, stderr, stderr_seen: 0, is_runner, usage: HashMap::new() }
    }

    /// Whether the server has shown a sign of life since the last look.
    pub(in crate::server) async fn check(&mut self) -> bool {
        let root = self.root;
        let reading = timeout(READ_TIMEOUT, spawn_blocking(move || subtree::usage_below(root))).await;
        let used = match reading {
            Ok(Ok(usage)) => self.note(usage),
            _ => ProcessUsage::default(),
        };
        let has_computed = used.read >= MIN_BYTES || used.ticks >= MIN_TICKS;
        let stderr = self.stderr.load(Ordering::Relaxed);
        let has_reported = std::mem::replace(&mut self.stderr_seen, stderr) < stderr;
        has_reported || used.written >= MIN_BYTES || (self.is_runner && has_computed)
    }

    /// How much was done since the last look, new processes included.
    fn note(&mut self, usage: HashMap<i32, ProcessUsage>) -> ProcessUsage {
        let before = std::mem::replace(&mut self.usage, usage);
        let grown = |(pid, now): (&i32, &ProcessUsage)| now.since(before.get(pid).copied().unwrap_or_default());
        self.usage.iter().map(grown).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_new_and_old_processes_count_and_those_of_ended_ones_do_not() {
        let mut activity = Activity::new(1, StderrBytes::default(), false);
        let usage = |(pid, written): &(i32, u64)| (*pid, ProcessUsage { written: *written, ..ProcessUsage::default() });
        let mut grown = |written: &[(i32, u64)]| activity.note(written.iter().map(usage).collect()).written;
        assert_eq!(grown(&[(7, 100), (8, 10)]), 110);
        assert_eq!(grown(&[(7, 150), (9, 5)]), 55);
        assert_eq!(grown(&[(7, 150), (9, 2)]), 0, "the number was given to another process");
        assert_eq!(grown(&[]), 0);
    }
}
