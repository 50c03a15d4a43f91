//! The guard: a small process between mcpd and one server. No descendant of the server outlives it.
//!
//! The reaper re-executes mcpd under the name [`ARGV0`]. The guard's standard input is a socket to mcpd. The guard receives the
//! server's three standard streams and a [`LaunchSpec`], and sends [`Report`]s. It never sees the data of calls: the streams are
//! pipes between mcpd and the server.
//!
//! The socket is also the lifeline. When mcpd closes it or dies, the guard kills the whole subtree. As a child subreaper, the guard
//! inherits every orphaned descendant, so the subtree consists of its descendants. The guard exits when none is left.
//!
//! Its parent is the [reaper](super::reaper), which kills what a killed guard leaves behind. The guard's standard output is a pipe from
//! the reaper: when the reaper dies, the guard kills the subtree, too.
//!
//! Single-threaded, without tokio. Must not touch the MCP protocol.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::{self, BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::exit::Exit;
use super::sandbox::{Restrictions, stage};
use super::start_error::StartError;
use super::{fd_passing, reaper, subtree};
use crate::config::command_line::mistaken_for_program;

/// The process name of a guard, by which `main` recognizes one.
pub const ARGV0: &str = "mcpd-guard";

/// Order: send SIGTERM to the server's process group.
pub(crate) const TERMINATE: u8 = b'T';
/// Order: kill the subtree at once with SIGKILL.
pub(crate) const KILL: u8 = b'K';

/// Delay between attempts to kill a subtree, in milliseconds.
pub(super) const KILL_AGAIN_MS: i64 = 20;

/// The program to run. Its secrets are sent over the socket, so they never appear in an argument list.
#[derive(Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// The server's whole environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// The umask that mcpd was started with, if mcpd has changed it.
    pub(crate) umask: Option<u32>,
    /// The soft limit of open files that mcpd was started with, if mcpd has raised it.
    pub(crate) open_files: Option<u64>,
    /// `None` starts the server without a sandbox.
    pub(crate) sandbox: Option<Restrictions>,
}

/// A report of the guard to mcpd: one JSON object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The server is running.
    Started { pid: u32 },
    /// The server could not be started.
    NotStarted(StartError),
    /// The server has exited. The rest of its subtree is being killed.
    Exited(Exit),
}

/// Set by [`run_if_guard`]: this program can act as a guard.
static CAN_GUARD: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_guard`] was called, so that this program can guard its own servers.
pub(super) fn is_hooked() -> bool {
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
    let stages = [(ARGV0, run as fn() -> io::Result<()>), (reaper::ARGV0, reaper::run)];
    let (_, run) = stages.into_iter().find(|stage| name == stage.0)?;
    Some(run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

/// Makes this process ready to have a subtree. Returns the stream that becomes readable when a child stops or dies.
pub(super) fn prepare(name: &CStr) -> io::Result<UnixStream> {
    close_inherited()?;
    rustix::thread::set_name(name)?;
    SigSet::empty().thread_set_mask()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let ignored = std::sync::Arc::default();
    // `exec` resets handlers to the default. So a server gets the default actions, even if mcpd runs in the background of a shell or
    // under `nohup`, where these signals are ignored.
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&ignored))?;
    }
    let (child_ended, notify) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, notify)?;
    Ok(child_ended)
}

fn run() -> io::Result<()> {
    // A new session, so that signals of a terminal or `pkill` to mcpd's group do not reach the server.
    rustix::process::setsid()?;
    let child_ended = prepare(c"mcpd-guard")?;
    let control = control()?;
    let streams = receive_streams(&control)?;
    let Some(definition) = receive_definition(&control)? else { return Ok(()) };
    let server = match start(&definition, streams) {
        Ok(pid) => pid,
        Err(failure) => return send_report(&control, &Report::NotStarted(failure)),
    };
    drop(definition);
    // From here on the server runs. Whatever fails, the subtree is killed before the guard exits.
    let watched = send_report(&control, &Report::Started { pid: server.as_raw_pid().unsigned_abs() })
        .and_then(|()| watch(&control, &child_ended, server));
    kill_subtree(&child_ended)?;
    watched
}

/// The socket to the process that started this one.
pub(super) fn control() -> io::Result<UnixStream> {
    // `io::stdin` would allocate a permanent buffer.
    Ok(UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?))
}

/// Closes all descriptors except the standard ones, so that no server inherits a descriptor that mcpd inherited.
///
/// Lists them with a buffer on the stack: heap memory of the standard library would stay with the guard.
pub(crate) fn close_inherited() -> io::Result<()> {
    let directory = open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 1024];
    let mut listing = RawDir::new(&directory, &mut space);
    while let Some(entry) = listing.next() {
        let fd = entry?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
        if let Some(fd) = fd.filter(|fd| *fd > 2 && *fd != directory.as_raw_fd()) {
            // The listing is ordered by number, so closing one skips no other.
            let _ = nix::unistd::close(fd);
        }
    }
    Ok(())
}

pub(super) fn receive_streams(control: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    let (_, fds) = fd_passing::receive(control, &mut [0])?;
    fds.try_into().map_err(|_| io::Error::other("expected three descriptors"))
}

/// The definition; `None` if an order came with it: the server has not started, so there is nothing to stop.
fn receive_definition(control: &UnixStream) -> io::Result<Option<LaunchSpec>> {
    let mut lines = BufReader::new(control);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(if lines.buffer().is_empty() { Some(serde_json::from_str(&line)?) } else { None })
}

fn start(definition: &LaunchSpec, streams: [OwnedFd; 3]) -> Result<Pid, StartError> {
    if let Some(umask) = definition.umask {
        rustix::process::umask(Mode::from_raw_mode(umask));
    }
    if definition.open_files.is_some() {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: definition.open_files, maximum };
        rustix::process::setrlimit(Resource::Nofile, limit).map_err(|error| StartError::System(error.to_string()))?;
    }
    let child = if definition.sandbox.is_some() {
        stage::spawn(definition, &streams)?
    } else {
        let mut command = command(definition, streams)?;
        command.spawn().map_err(|error| cannot_run(&command, &error))?
    };
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| StartError::System("no process id".to_owned()))
}

/// The command that runs the server, in its own process group.
pub(super) fn command(definition: &LaunchSpec, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Command, StartError> {
    if !definition.cwd.is_dir() {
        return Err(StartError::NoWorkingDirectory(definition.cwd.clone()));
    }
    let mut command = Command::new(find_program(definition)?);
    command.arg0(&definition.command).args(&definition.args).env_clear().envs(&definition.env);
    command.current_dir(&definition.cwd).process_group(0);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    Ok(command)
}

pub(super) fn cannot_run(command: &Command, error: &io::Error) -> StartError {
    StartError::of_execution(Path::new(command.get_program()), error)
}

/// The file to execute: `command` if it contains a `/`, or else the first executable of that name in the server's `PATH`.
pub(super) fn find_program(definition: &LaunchSpec) -> Result<PathBuf, StartError> {
    let command = &definition.command;
    let not_found = |path: Option<&str>| match mistaken_for_program(command) {
        Some(text) => StartError::CommandLine(text),
        None => StartError::CommandNotFound { command: command.clone(), path: path.map(str::to_owned) },
    };
    if command.contains('/') {
        let path = definition.cwd.join(command);
        return if path.exists() { Ok(path) } else { Err(not_found(None)) };
    }
    let path = definition.env.get("PATH").map_or("", String::as_str);
    find_in_path(command, path).ok_or_else(|| not_found(Some(path)))
}

/// The first executable of this name in the directories of `path`.
pub(super) fn find_in_path(name: &str, path: &str) -> Option<PathBuf> {
    let candidates = std::env::split_paths(path).map(|directory| directory.join(name));
    candidates.into_iter().find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path.as_os_str().as_bytes(), rustix::fs::Access::EXEC_OK).is_ok()
}

/// Waits for the first of these: the server's exit, the order to kill, the end of the lifeline, or the death of the reaper.
fn watch(control: &UnixStream, child_ended: &UnixStream, server: Pid) -> io::Result<()> {
    let reaper = rustix::stdio::stdout();
    loop {
        // The reaper writes nothing, so its pipe only reports the hang-up.
        let mut fds =
            [control.as_fd(), child_ended.as_fd(), reaper].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        if ready[1] {
            drain(child_ended);
            if let Some(exit) = reap(server) {
                return send_report(control, &Report::Exited(exit));
            }
        }
        if ready[2] || ready[0] && handle_order(control, server) {
            return Ok(());
        }
    }
}

/// Carries out one order. Returns `true` if the subtree must be killed.
fn handle_order(mut control: &UnixStream, server: Pid) -> bool {
    let mut order = [0];
    match io::Read::read(&mut control, &mut order) {
        Ok(1) if order[0] == TERMINATE => {
            // The server leads the group and is not reaped yet, so the number cannot have been reused.
            let _ = kill_process_group(server, Signal::TERM);
            false
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        _ => true,
    }
}

/// Reaps dead processes. Returns the exit of the server, if it was among them.
fn reap(server: Pid) -> Option<Exit> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = subtree::reap_any() {
        if pid == server {
            ended = Some(ExitStatus::from_raw(status.as_raw()).into());
        }
    }
    ended
}

/// Kills and reaps all descendants. Returns when none is left.
pub(super) fn kill_subtree(child_ended: &UnixStream) -> io::Result<()> {
    let again = rustix::event::Timespec { tv_sec: 0, tv_nsec: KILL_AGAIN_MS * 1_000_000 };
    // `ECHILD` means that no child is left.
    while !matches!(subtree::reap_any(), Err(Errno::CHILD)) {
        subtree::kill_descendants(&[]);
        match poll(&mut [PollFd::new(child_ended, PollFlags::IN)], Some(&again)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => drain(child_ended),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn drain(mut pipe: &UnixStream) {
    let _ = io::Read::read(&mut pipe, &mut [0; 64]);
}

fn send_report(mut control: &UnixStream, report: &Report) -> io::Result<()> {
    send_line(&mut control, report)
}

/// Sends a message of one line.
pub(super) fn send_line(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    socket.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_with_the_definition_is_not_lost() {
        for (sent, is_started) in [("", true), ("K", false)] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
            let definition =
                r#"{"command":"x","args":[],"env":{},"cwd":"/","umask":null,"open_files":null,"sandbox":null}"#;
            theirs.write_all(format!("{definition}\n{sent}").as_bytes()).expect("there is room");
            assert_eq!(receive_definition(&ours).expect("it is read").is_some(), is_started);
        }
    }
}
