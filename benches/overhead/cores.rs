//! Who runs where. Left to itself, the kernel keeps this or that pair of processes on one core for as long as they live, and a
//! result is halved or doubled by that draw. So the middle has a core of its own, and the two ends share the other.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The load client's and the echo servers'.
pub(crate) const ENDS: usize = 0;
/// The relay's and mcpd's.
pub(crate) const MIDDLE: usize = 1;

/// Binds a process (or this one) and those that it starts from now on to one core.
pub(crate) fn pin(process: Option<Pid>, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // A machine without that core measures all the same, only with more noise.
    let _ = sched_setaffinity(process, &cores);
}
