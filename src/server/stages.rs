//! The processes that this program becomes when it executes itself: the reaper, a guard, and the sandbox stage of a server.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sandbox::stage;
use super::{guard, reaper};

/// Set by [`run_if_guard`]: this program can act as a guard.
static CAN_GUARD: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_guard`] was called, so that this program can guard its own servers.
pub(super) fn can_guard() -> bool {
    CAN_GUARD.load(Ordering::Relaxed)
}

/// Runs this process as a guard, or as the reaper of guards, if it was started as one, and returns its exit code. Call it first in
/// `main`, before any thread starts.
#[must_use]
pub fn run_if_guard() -> Option<ExitCode> {
    CAN_GUARD.store(true, Ordering::Relaxed);
    let name = std::env::args_os().next()?;
    if name == stage::ARGV0 {
        return Some(stage::run());
    }
    let stages = [(guard::ARGV0, guard::run as fn() -> io::Result<()>), (reaper::ARGV0, reaper::run)];
    let (_, run) = stages.into_iter().find(|stage| name == stage.0)?;
    Some(run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}
