//! Protects the memory of mcpd's own processes from other processes of the same user.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// `RLIM_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

/// Forbids other processes of this user to trace this process and to read its memory, environment and open files in `/proc`, and
/// prevents core dumps (`PR_SET_DUMPABLE` in prctl(2)). `execve` makes the process dumpable again. The guard restores the
/// limit of core files before it starts a server.
pub(crate) fn protect_memory() -> rustix::io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })
}

/// The soft limit of core files, in bytes.
pub(crate) fn core_size() -> u64 {
    getrlimit(Resource::Core).current.unwrap_or(UNLIMITED)
}
