//! The processes that this program becomes when it executes itself: the reaper, a guard, those that prepare the sandbox of a server, and the
//! runner of a program that prints a secret.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sandbox::namespaces::SERVER_ARGV0;
use super::sandbox::{init, probe, stage};
use super::subtree_owner::close_inherited;
use super::{guard, reaper, secret_runner};

/// Set by [`run_if_guard`]: this program can become a guard when it executes itself.
static CAN_REEXECUTE: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_guard`] was called, so that this program can guard its own servers.
pub(super) fn can_reexecute() -> bool {
    CAN_REEXECUTE.load(Ordering::Relaxed)
}

/// Runs this process as a guard, as the reaper of guards, or in another of mcpd's roles, if it was started as one. Returns its exit code
/// then. Call it first in `main`, before any thread starts.
#[must_use]
pub fn run_if_guard() -> Option<ExitCode> {
    CAN_REEXECUTE.store(true, Ordering::Relaxed);
    let name = std::env::args_os().next()?;
    let code = |result: io::Result<()>| result.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    // Programs that it starts inherit nothing of mcpd.
    let alone = |run: fn() -> io::Result<()>| code(close_inherited().and_then(|()| run()));
    Some(match name.to_str()? {
        guard::ARGV0 => alone(guard::run),
        reaper::ARGV0 => alone(reaper::run),
        secret_runner::STARTER_ARGV0 => code(secret_runner::start()),
        secret_runner::ARGV0 => alone(secret_runner::run),
        stage::ARGV0 => stage::run(),
        init::ARGV0 => init::run(),
        SERVER_ARGV0 => stage::run_in_namespaces(),
        probe::ARGV0 => alone(probe::run),
        _ => return None,
    })
}
