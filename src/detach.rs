//! Spawns programs into a new session with no inherited descriptors.
//!
//! A process can only leave its session itself (setsid(2)), and mcpd runs no code between `fork` and `exec`. So mcpd re-executes
//! itself under the name [`ARGV0`]. That process leaves the session, then becomes the program or starts it. It does not use tokio.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::server::close_inherited;

/// The process name by which `main` recognizes a re-execution.
const ARGV0: &str = "mcpd-detach";
/// The running executable, even if the file was replaced.
pub(crate) const CURRENT_EXE: &str = "/proc/self/exe";
/// First argument: become a program.
const BECOME: &str = "become";
/// First argument: start mcpd, and stay until standard input closes.
const WATCH: &str = "watch";

/// A process that becomes `program` with the process name `name` and these arguments. The caller sets everything else.
pub(crate) fn become_program(program: OsString, name: OsString, arguments: &[OsString]) -> tokio::process::Command {
    let mut command = reexecute(BECOME);
    command.arg(program).arg(name).args(arguments);
    command
}

/// A process that starts `mcpd` with these arguments. It ends with mcpd, and with its exit code, or when its standard input closes.
///
/// After that the daemon is no descendant of the agent, so it is not killed together with the agent's other descendants.
pub(crate) fn watched(arguments: &[OsString]) -> tokio::process::Command {
    let mut command = reexecute(WATCH);
    command.arg(CURRENT_EXE).arg("mcpd").args(arguments);
    command
}

fn reexecute(what: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(CURRENT_EXE);
    command.arg0(ARGV0).arg(what);
    command
}

/// Runs the re-executed process, if this is one. Must be called before any thread is started.
pub(crate) fn run_if_detached() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next()? != ARGV0 {
        return None;
    }
    let result = leave().and_then(|()| run(arguments));
    Some(result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "mcpd: cannot be started: {error}");
        ExitCode::FAILURE
    }))
}

fn leave() -> io::Result<()> {
    close_inherited()?;
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

/// Waits until the child has ended or standard input is closed.
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

/// The exit code as in a shell: the code, or 128 plus the signal.
fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().or_else(|| Some(128 + ended.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
