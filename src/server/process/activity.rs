//! Signs of life of a server that has not answered yet: bytes on stderr, and bytes written anywhere.
//!
//! The latter come from the kernel's counters of each process (`/proc/PID/io`), so mcpd looks at no file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::server::subtree;

/// Bytes written between two looks that are a sign of life. An idle process writes less, such as to its log or to wake its own
/// threads.
const MIN_WRITTEN: u64 = 64 << 10;
/// Time limit for reading the counters: the kernel makes a reader wait while a process executes another program.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that one process has written to stderr.
pub(in crate::server) type StderrBytes = Arc<AtomicU64>;

/// What the processes of one server had written at the last look.
#[derive(Debug)]
pub(in crate::server) struct Activity {
    /// The guard, or without one the server. It counts with all its descendants.
    root: u32,
    stderr: StderrBytes,
    stderr_seen: u64,
    written: HashMap<i32, u64>,
}

impl Activity {
    /// Of a server that has just been started.
    pub(in crate::server) fn new(root: u32, stderr: StderrBytes) -> Self {
        Self { root, stderr, stderr_seen: 0, written: HashMap::new() }
    }

    /// Whether the server has shown a sign of life since the last look.
    pub(in crate::server) async fn check(&mut self) -> bool {
        let root = self.root;
        let reading = timeout(READ_TIMEOUT, spawn_blocking(move || subtree::bytes_written_below(root))).await;
        let written = match reading {
            Ok(Ok(written)) => self.note_written(written),
            _ => 0,
        };
        let stderr = self.stderr.load(Ordering::Relaxed);
        let has_reported = std::mem::replace(&mut self.stderr_seen, stderr) < stderr;
        has_reported || written >= MIN_WRITTEN
    }

    /// How much was written since the last look, new processes included.
    fn note_written(&mut self, written: HashMap<i32, u64>) -> u64 {
        let before = std::mem::replace(&mut self.written, written);
        let grown = |(pid, bytes): (&i32, &u64)| bytes.saturating_sub(before.get(pid).copied().unwrap_or_default());
        self.written.iter().map(grown).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_new_and_old_processes_count_and_those_of_ended_ones_do_not() {
        let mut activity = Activity::new(1, StderrBytes::default());
        let mut grown = |written: &[(i32, u64)]| activity.note_written(written.iter().copied().collect());
        assert_eq!(grown(&[(7, 100), (8, 10)]), 110);
        assert_eq!(grown(&[(7, 150), (9, 5)]), 55);
        assert_eq!(grown(&[(7, 150), (9, 2)]), 0, "the number was given to another process");
        assert_eq!(grown(&[]), 0);
    }
}
