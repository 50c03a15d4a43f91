//! Processes around a server: wrappers above it, children below it.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use super::flags::Flags;

/// A process that ignores signals exits after this time, so that failed tests do not fill the machine.
const LIFETIME: Duration = Duration::from_secs(120);

/// Runs a helper role if a flag selects one, and starts the children of a server.
pub(crate) fn run_helper(flags: &Flags) -> Option<ExitCode> {
    if flags.stay_alive {
        block_signals();
        return Some(stay_alive());
    }
    if let Some(socket) = &flags.hand_over {
        return Some(hand_over(socket));
    }
    if flags.daemonize {
        return Some(daemonize());
    }
    if flags.wrap {
        return Some(wrap());
    }
    if flags.join_parents_group {
        let theirs = rustix::process::getpgid(rustix::process::getppid()).expect("a parent in this session");
        rustix::process::setpgid(None, Some(theirs)).expect("a group of this session");
    }
    if flags.double_fork {
        let middle =
            own_command("--daemonize").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(middle.is_ok_and(|status| status.success()), "the middle of the double fork failed");
    }
    if flags.hold_stdout {
        leave_behind(own_command("--stay-alive").stdin(Stdio::null()).stderr(Stdio::null()));
    }
    None
}

/// Blocks SIGTERM, SIGINT and SIGHUP. A mask, unlike a handler, is inherited by children.
pub(crate) fn block_signals() {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    signals.thread_block().expect("a valid signal set");
}

/// Stays and does nothing.
pub(crate) fn stay_alive() -> ExitCode {
    stay(LIFETIME);
    ExitCode::FAILURE
}

/// How often a file is looked for.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Does nothing until this file exists.
pub(crate) fn stay_until(file: &Path) {
    while !file.exists() {
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Does nothing for this time.
pub(crate) fn stay(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

/// Closes stdout and stays under the same process id. Only returns if that fails.
pub(crate) fn stay_without_stdout() -> std::io::Error {
    own_command("--stay-alive").stdout(Stdio::null()).exec()
}

/// Closes stdin in the same way.
pub(crate) fn stay_without_stdin() -> std::io::Error {
    own_command("--stay-alive").stdin(Stdio::null()).exec()
}

fn daemonize() -> ExitCode {
    rustix::process::setsid().expect("a fresh child leads no process group");
    leave_behind(&mut own_command("--stay-alive"));
    ExitCode::SUCCESS
}

/// Responses on the connection go to stdout after this process has exited.
fn hand_over(socket: &Path) -> ExitCode {
    let mut stream = UnixStream::connect(socket).expect("the socket accepts");
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"status","params":{"version":"0"}}"#;
    writeln!(stream, "{question}").expect("there is room for a line");
    // The peer ends the connection after its response, since no more requests can come.
    stream.shutdown(Shutdown::Write).expect("it is connected");
    leave_behind(Command::new("cat").stdin(OwnedFd::from(stream)));
    ExitCode::SUCCESS
}

fn wrap() -> ExitCode {
    let args = std::env::args().skip(1).filter(|arg| arg != "--wrap");
    let executable = std::env::current_exe().expect("the path of this program");
    // The second command keeps the shell from replacing itself with the server.
    let script = r#""$0" "$@"; exit $?"#;
    let status = Command::new("sh").args(["-c", script]).arg(executable).args(args).status().expect("sh starts");
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[expect(clippy::zombie_processes, reason = "nobody is to wait for it: that is what servers do to their clients")]
fn leave_behind(command: &mut Command) {
    command.spawn().expect("a child starts");
}

fn own_command(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.arg(part);
    command
}
