//! The processes that this program becomes when it executes itself: the reaper, a guard, the sandbox stage of a server, and the runner of
//! a program that prints a secret.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sandbox::stage;
use super::{guard, reaper, secret_runner};

/// Set by [`run_if_guard`]: this program can become a guard when it executes itself.
static CAN_REEXECUTE: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_guard`] was called, so that this program can guard its own servers.
pub(super) fn can_reexecute() -> bool {
    CAN_REEXECUTE.load(Ordering::Relaxed)
}

/// Runs this process as a guard, as the reaper of guards, or in another of mcpd's roles, if it was started as one. Returns its exit code then. Call it first in `main`, before any thread starts.
#[must_use]
pub fn run_if_guard() -> Option<ExitCode> {
    CAN_REEXECUTE.store(true, Ordering::Relaxed);
    let name = std::env::args_os().next()?;
    if name == stage::ARGV0 {
        return Some(stage::run());
    }
    let processes = [
        (guard::ARGV0, guard::run as fn() -> io::Result<()>),
        (reaper::ARGV0, reaper::run),
        (secret_runner::STARTER_ARGV0, secret_runner::start),
        (secret_runner::ARGV0, secret_runner::run),
    ];
    let (_, run) = processes.into_iter().find(|process| name == process.0)?;
    Some(run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}
