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

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::exit::Exit;
use super::fd_passing::{inherited_socket, receive_streams, send_line};
use super::launch_spec::{LaunchSpec, cannot_run, command};
use super::sandbox::stage;
use super::start_error::StartError;
use super::subtree;
use super::subtree_owner::{drain, kill_subtree, prepare};

/// The process name of a guard, by which `main` recognizes one.
pub const ARGV0: &str = "mcpd-guard";

/// Command: send SIGTERM to the server's process group.
pub(crate) const TERMINATE: u8 = b'T';
/// Command: kill the subtree at once with SIGKILL.
pub(crate) const KILL: u8 = b'K';

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

pub(super) fn run() -> io::Result<()> {
    // A new Unix session, so that signals of a terminal or `pkill` to mcpd's group do not reach the server.
    rustix::process::setsid()?;
    let child_signals = prepare(c"mcpd-guard")?;
    let socket = inherited_socket()?;
    let streams = receive_streams(&socket)?;
    let Some(spec) = receive_spec(&socket)? else { return Ok(()) };
    let server = match start(&spec, streams) {
        Ok(pid) => pid,
        Err(failure) => return send_report(&socket, &Report::NotStarted(failure)),
    };
    drop(spec);
    // From here on the server runs. Whatever fails, the subtree is killed before the guard exits.
    let watched = send_report(&socket, &Report::Started { pid: server.as_raw_pid().unsigned_abs() })
        .and_then(|()| watch(&socket, &child_signals, server));
    kill_subtree(&child_signals)?;
    watched
}

/// Reads the launch spec. `None` if mcpd has already sent a command behind it, to terminate or kill: then the server need not start.
pub(super) fn receive_spec(socket: &UnixStream) -> io::Result<Option<LaunchSpec>> {
    let mut lines = BufReader::new(socket);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(if lines.buffer().is_empty() { Some(serde_json::from_str(&line)?) } else { None })
}

/// Starts the program with its attributes.
pub(super) fn start(spec: &LaunchSpec, streams: [OwnedFd; 3]) -> Result<Pid, StartError> {
    if let Some(umask) = spec.umask {
        rustix::process::umask(Mode::from_raw_mode(umask));
    }
    for (resource, current) in [(Resource::Nofile, spec.open_files), (Resource::Core, spec.core_size)] {
        if current.is_some() {
            let limit = Rlimit { current, ..rustix::process::getrlimit(resource) };
            rustix::process::setrlimit(resource, limit).map_err(|error| StartError::System(error.to_string()))?;
        }
    }
    let child = if spec.sandbox.is_some() {
        stage::spawn(spec, &streams)?
    } else {
        let mut command = command(spec, streams)?;
        command.spawn().map_err(|error| cannot_run(&command, &error))?
    };
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| StartError::System("no process id".to_owned()))
}

/// Waits for the first of these: the server's exit, the command to kill, the end of the lifeline, or the death of the reaper.
fn watch(socket: &UnixStream, child_signals: &UnixStream, server: Pid) -> io::Result<()> {
    let reaper = rustix::stdio::stdout();
    loop {
        // The reaper writes nothing, so its pipe only reports the hang-up.
        let mut fds =
            [socket.as_fd(), child_signals.as_fd(), reaper].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        if ready[1] {
            drain(child_signals);
            if let Some(exit) = reap(server) {
                return send_report(socket, &Report::Exited(exit));
            }
        }
        if ready[2] || ready[0] && handle_command(socket, server) {
            return Ok(());
        }
    }
}

/// Executes one command. Returns `true` if the subtree must be killed.
fn handle_command(mut socket: &UnixStream, server: Pid) -> bool {
    let mut byte = [0];
    match io::Read::read(&mut socket, &mut byte) {
        Ok(1) if byte[0] == TERMINATE => {
            // The server leads the group and is not reaped yet, so the process id cannot have been reused.
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

pub(super) fn send_report(mut socket: &UnixStream, report: &Report) -> io::Result<()> {
    send_line(&mut socket, report)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn command_that_arrives_with_the_launch_spec_is_not_lost() {
        for (sent, is_started) in [("", true), ("K", false)] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
            let spec = r#"{"command":"x","args":[],"env":{},"cwd":"/","umask":null,"open_files":null,"core_size":null,"sandbox":null}"#;
            theirs.write_all(format!("{spec}\n{sent}").as_bytes()).expect("there is room");
            assert_eq!(receive_spec(&ours).expect("it is read").is_some(), is_started);
        }
    }
}
