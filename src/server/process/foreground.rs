//! A command on the standard streams of this process, below a guard: `mcpd sandbox`.
//!
//! The command has a Unix session of its own, as servers have. So it cannot write into the input of the terminal, and a shell has no job
//! control. Signals to this process are passed on.

use std::fs::File;
use std::io::{self, stderr, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook_tokio::Signals;

use super::reaper_handle::ReaperHandle;
use super::{ProcessEnd, SpawnError, guarded};
use crate::server::launch_spec::LaunchSpec;
use crate::server::start_error::{Exit, StartError};

const PASSED_ON: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH];

/// Runs a command, and waits until nothing of it is left.
pub(in crate::server) async fn run(
    program: &Path,
    reaper: &ReaperHandle,
    spec: &LaunchSpec,
) -> Result<Exit, SpawnError> {
    let system = |error: io::Error| SpawnError::Error(StartError::system(error));
    let own = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned();
    let streams = || Ok::<_, io::Error>([own(&stdin())?, own(&stdout())?, own(&stderr())?]);
    let nothing = || File::open("/dev/null").map(OwnedFd::from);
    // SIGTSTP would suspend this process, while the command still reads from the terminal.
    let mut signals = Signals::new(PASSED_ON.into_iter().chain([SIGTSTP])).map_err(system)?;
    let terminal = tcgetattr(stdin()).ok();
    let outputs = [nothing().map_err(system)?, nothing().map_err(system)?];
    let mut guarded = guarded::spawn(reaper, program, streams().map_err(system)?, outputs, None).await?;
    let ended = match guarded.start_server(spec).await {
        Err(error) => Err(error),
        Ok(pid) => loop {
            tokio::select! {
                Some(signal) = signals.next() => pass_on(signal, pid),
                end = guarded.wait_ended() => break Ok(end),
            }
        },
    };
    guarded.kill().await;
    if let Some(terminal) = terminal {
        // A shell that was killed has left it as it needed it.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &terminal);
    }
    match ended? {
        ProcessEnd::Exited(exit) => Ok(exit),
        ProcessEnd::Lost(supervisor) => Err(SpawnError::Lost(supervisor)),
    }
}

/// Sends a signal to the process group of the command.
fn pass_on(signal: i32, pid: u32) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let signal = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::TSTP);
    if let Some((group, signal)) = group.zip(signal) {
        let _ = kill_process_group(group, signal);
    }
}
