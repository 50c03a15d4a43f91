//! Starting a program that has nothing of whoever starts it: not the session and its terminal, not the process group, no descriptors.
//!
//! Only the process itself can leave its session (setsid(2)), and no code of ours runs between `fork` and `exec`; so mcpd
//! re-executes itself under the name [`ARGV0`], and that process leaves and then becomes the program, or starts it. Without tokio on
//! that side.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::server::guard;

/// The name under which `main` knows such a process.
const ARGV0: &str = "mcpd-apart";
/// This very executable, whatever was put in its place on disk.
const OURSELVES: &str = "/proc/self/exe";
/// Says that the process becomes a program.
const BECOME: &str = "become";
/// Says that the process starts mcpd, and stays while it is watched.
const WATCH: &str = "watch";

/// A process that becomes `program`, known to it as `name`, with these arguments. Everything else is for the caller to set.
pub(crate) fn become_program(program: OsString, name: OsString, arguments: &[OsString]) -> tokio::process::Command {
    let mut command = ours(BECOME);
    command.arg(program).arg(name).args(arguments);
    command
}

/// A process that runs `mcpd` with these arguments as nobody's child: it ends as that does, or at once when its standard input does.
///
/// What looks for descendants of an agent, to end them with it, does not find that daemon once nobody watches it any more.
pub(crate) fn watched(arguments: &[OsString]) -> tokio::process::Command {
    let mut command = ours(WATCH);
    command.arg(OURSELVES).arg("mcpd").args(arguments);
    command
}

fn ours(what: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(OURSELVES);
    command.arg0(ARGV0).arg(what);
    command
}

/// Does what this process was started for, if it was started by this room. To be called before any thread is started.
pub(crate) fn run_if_apart() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next()? != ARGV0 {
        return None;
    }
    let ended = leave().and_then(|()| run(arguments));
    Some(ended.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "mcpd: cannot be started: {error}");
        ExitCode::FAILURE
    }))
}

fn leave() -> io::Result<()> {
    guard::close_inherited()?;
    SigSet::empty().thread_set_mask()?;
    rustix::process::setsid()?;
    Ok(())
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let (Some(what), Some(program), Some(name)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    if what == BECOME { Err(command.exec()) } else { watch(command.stdin(Stdio::null()).spawn()?) }
}

/// Waits until the child has ended, or nobody watches any more.
fn watch(mut child: Child) -> io::Result<ExitCode> {
    let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    loop {
        let stdin = rustix::stdio::stdin();
        let mut fds = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        return match fds.map(|fd| !fd.revents().is_empty()) {
            [true, _] => Ok(code(child.wait()?)),
            _ => Ok(ExitCode::SUCCESS),
        };
    }
}

/// As a shell has it: the code, or 128 and the signal.
fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().or_else(|| Some(128 + ended.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
