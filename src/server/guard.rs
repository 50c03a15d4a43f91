//! The guard: a small process between mcpd and one server, so that no descendant of the server outlives either.
//!
//! mcpd re-executes itself under the name [`ARGV0`]; standard input is a socket to mcpd. Over it come three descriptors,
//! the server's standard streams, and a [`Definition`]; back go [`Report`]s. The guard holds no data of a call: the
//! streams are mcpd's pipes directly.
//!
//! The same socket is the lifeline. When it closes, because mcpd let go of it or died in whatever way, the guard kills
//! the whole subtree. As child subreaper it inherits every descendant whose parent dies, forked twice or not, so
//! the subtree is what descends from the guard. It exits when that is empty.
//!
//! Single-threaded, without tokio. Must not touch: anything of the protocol.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
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
use super::start_error::StartError;
use super::subtree;
use crate::config::command_line::mistaken_for_program;

/// The name a guard runs under, by which `main` knows one.
pub const ARGV0: &str = "mcpd-guard";

/// Asks the server's process group to end: SIGTERM.
pub(crate) const TERMINATE: u8 = b'T';
/// Ends the subtree at once: SIGKILL.
pub(crate) const KILL: u8 = b'K';

/// How often a subtree that does not die is killed again, in milliseconds.
const KILL_AGAIN_MS: i64 = 20;

/// What to run. Secrets in it travel over the socket and never stand in an argument list.
#[derive(Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// The server's whole environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// As mcpd found it, if it has set its own.
    pub(crate) umask: Option<u32>,
    /// Soft limit of open files, as mcpd found it, if it has raised its own.
    pub(crate) open_files: Option<u64>,
}

/// What the guard tells mcpd, one JSON object a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The server runs.
    Started { pid: u32 },
    /// It could not be started.
    NotStarted(StartError),
    /// It has ended; the rest of its subtree is being killed.
    Exited(Exit),
}

/// Set once this program is known to become a guard when it is started as one.
static HOOKED: AtomicBool = AtomicBool::new(false);

/// Whether [`run_if_guard`] was called, so that this program can be the guard of its own servers.
pub(super) fn is_hooked() -> bool {
    HOOKED.load(Ordering::Relaxed)
}

/// Runs this process as a guard if it was started as one, and returns its exit code. To be called first in `main`,
/// before any thread is started.
#[must_use]
pub fn run_if_guard() -> Option<ExitCode> {
    HOOKED.store(true, Ordering::Relaxed);
    let name = std::env::args_os().next()?;
    (name == ARGV0).then(|| run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn run() -> io::Result<()> {
    close_inherited()?;
    rustix::thread::set_name(c"mcpd-guard")?;
    SigSet::empty().thread_set_mask()?;
    // Not one of mcpd's group: what the terminal or `pkill` sends to that is not for the server.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let ignored = std::sync::Arc::default();
    // By a handler, which ends with `exec`: a server has them as a fresh process does, though mcpd may run in the background of a
    // shell or under `nohup`.
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(&ignored))?;
    }
    let (child_ended, notify) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, notify)?;

    // Not by `io::stdin`, which has a buffer for life.
    let control = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let streams = receive_streams(&control)?;
    let Some(definition) = receive_definition(&control)? else { return Ok(()) };
    let server = match start(&definition, streams) {
        Ok(pid) => pid,
        Err(failure) => return tell(&control, &Report::NotStarted(failure)),
    };
    drop(definition);
    // From here on the server is there, and whatever fails, it goes before the guard does.
    let watched = tell(&control, &Report::Started { pid: server.as_raw_pid().unsigned_abs() })
        .and_then(|()| watch(&control, &child_ended, server));
    kill_subtree(&child_ended)?;
    watched
}

/// Closes all descriptors but the standard ones: those that mcpd was itself started with must not reach a server.
///
/// Listed with room on the stack: what the standard library takes for it from the heap, a guard would keep.
pub(crate) fn close_inherited() -> io::Result<()> {
    let directory = open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 1024];
    let mut listing = RawDir::new(&directory, &mut space);
    while let Some(entry) = listing.next() {
        let fd = entry?.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok());
        if let Some(fd) = fd.filter(|fd| *fd > 2 && *fd != directory.as_raw_fd()) {
            // The listing goes by number, so it misses none for the one that is gone.
            let _ = nix::unistd::close(fd);
        }
    }
    Ok(())
}

fn receive_streams(control: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(control, &mut [io::IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let received = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = received.flatten().collect();
    fds.try_into().map_err(|_| io::Error::other("expected three descriptors"))
}

/// What to run; `None` if an order was read with it, for nothing is there yet that could be ended more gently.
fn receive_definition(control: &UnixStream) -> io::Result<Option<Definition>> {
    let mut lines = BufReader::new(control);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(if lines.buffer().is_empty() { Some(serde_json::from_str(&line)?) } else { None })
}

fn start(definition: &Definition, streams: [OwnedFd; 3]) -> Result<Pid, StartError> {
    let mut command = command(definition, streams)?;
    if let Some(umask) = definition.umask {
        rustix::process::umask(Mode::from_raw_mode(umask));
    }
    if definition.open_files.is_some() {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: definition.open_files, maximum };
        rustix::process::setrlimit(Resource::Nofile, limit).map_err(|error| StartError::System(error.to_string()))?;
    }
    let child = command.spawn().map_err(|error| cannot_run(&command, &error))?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| StartError::System("no process id".to_owned()))
}

/// What runs the server, in a process group of its own.
pub(super) fn command(definition: &Definition, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Command, StartError> {
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

/// The file to execute: `command` itself if it has a `/`, else the first executable of that name on the child's `PATH`.
fn find_program(definition: &Definition) -> Result<PathBuf, StartError> {
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
    let candidates = std::env::split_paths(path).map(|directory| directory.join(command));
    let found = candidates.into_iter().find(|candidate| is_executable(candidate));
    found.ok_or_else(|| not_found(Some(path)))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path.as_os_str().as_bytes(), rustix::fs::Access::EXEC_OK).is_ok()
}

/// Waits for what comes first: the server's end, the order to kill, or the end of the lifeline.
fn watch(control: &UnixStream, child_ended: &UnixStream, server: Pid) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(child_ended, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        if ready[1] {
            drain(child_ended);
            if let Some(exit) = reap(server) {
                return tell(control, &Report::Exited(exit));
            }
        }
        if ready[0] && obey(control, server) {
            return Ok(());
        }
    }
}

/// Carries out one order; `true` if the subtree has to go.
fn obey(mut control: &UnixStream, server: Pid) -> bool {
    let mut order = [0];
    match io::Read::read(&mut control, &mut order) {
        Ok(1) if order[0] == TERMINATE => {
            // The server leads the group and is not reaped yet, so the group cannot be another's.
            let _ = kill_process_group(server, Signal::TERM);
            false
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        _ => true,
    }
}

/// Reaps the dead; how the server ended, if it was among them.
fn reap(server: Pid) -> Option<Exit> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = subtree::reap_any() {
        if pid == server {
            ended = Some(ExitStatus::from_raw(status.as_raw()).into());
        }
    }
    ended
}

fn kill_subtree(child_ended: &UnixStream) -> io::Result<()> {
    let again = rustix::event::Timespec { tv_sec: 0, tv_nsec: KILL_AGAIN_MS * 1_000_000 };
    // No child is left when there is nothing to wait for.
    while !matches!(subtree::reap_any(), Err(Errno::CHILD)) {
        subtree::kill_descendants();
        match poll(&mut [PollFd::new(child_ended, PollFlags::IN)], Some(&again)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => drain(child_ended),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn drain(mut pipe: &UnixStream) {
    let _ = io::Read::read(&mut pipe, &mut [0; 64]);
}

fn tell(mut control: &UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    control.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_comes_with_the_definition_is_not_lost() {
        for (sent, is_started) in [("", true), ("K", false)] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
            let definition = r#"{"command":"x","args":[],"env":{},"cwd":"/","umask":null,"open_files":null}"#;
            theirs.write_all(format!("{definition}\n{sent}").as_bytes()).expect("there is room");
            assert_eq!(receive_definition(&ours).expect("it is read").is_some(), is_started);
        }
    }
}
