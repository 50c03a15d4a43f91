//! Pins processes to cores. Otherwise the kernel may keep any two processes on one core for their lifetime, which halves
//! or doubles a result by chance. mcpd or the relay has one core; client and server share the other.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The load client's and the echo servers'.
pub(crate) const ENDS: usize = 0;
/// The relay's and mcpd's.
pub(crate) const MIDDLE: usize = 1;

/// Pins a process (or this one) and its future children to one core.
pub(crate) fn pin(process: Option<Pid>, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    // Without that core the measurement continues, with more noise.
    let _ = sched_setaffinity(process, &cores);
}
