//! The guard: a small process between mcpd and one server. No descendant of the server outlives it.
//!
//! The reaper re-executes mcpd under the name [`ARGV0`]. The guard's standard input is a socket to mcpd. The guard receives the
//! server's three standard streams and a [`LaunchSpec`], and sends [`GuardReport`]s. It never reads the data of calls: the streams are
//! pipes between mcpd and the server. Only once mcpd is dead, it discards what the server still writes.
//!
//! The socket is also the lifeline. When mcpd dies, the guard [ends](super::subtree_owner::SubtreeEnd) the server with its whole subtree. As a
//! child subreaper, the guard inherits every orphaned descendant, so the subtree consists of its descendants. The guard exits when none
//! is left.
//!
//! In [namespaces](super::sandbox), the first process is the guard's child. It dies with the guard, and all else in them with it, at once.
//!
//! Its parent is the [reaper](super::reaper), which ends what a killed guard leaves behind. The guard's standard output is a pipe from
//! the reaper: when the reaper dies, the guard ends the subtree, too. When both have died, it kills the subtree at once.
//!
//! Single-threaded, without tokio. Must not touch the MCP protocol.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use serde::{Deserialize, Serialize};

use super::launch_spec::{LaunchSpec, cannot_run, command};
use super::process_attributes::ProcessAttributes;
use super::sandbox::stage::{self, StartedServer};
use super::start_error::{Exit, StartError};
use super::subtree::{GUARD, Processes};
use super::subtree_owner::{EndStep, SubtreeEnd, drain, kill_subtree, poll_until, prepare};
use crate::fd_passing::{inherited_socket, receive_streams, send_line};

/// The process name of a guard, by which `main` recognizes one.
pub const ARGV0: &str = GUARD;

/// Command: send SIGTERM to the subtree.
pub(crate) const TERMINATE: u8 = b'T';
/// Command: kill the subtree at once with SIGKILL.
pub(crate) const KILL: u8 = b'K';

/// A report of the guard to mcpd: one JSON object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardReport {
    /// The server is running.
    Started { pid: u32 },
    /// The server could not be started.
    NotStarted(StartError),
    /// The server has exited. The rest of its subtree is being killed, unless it has ended after SIGTERM.
    Exited(Exit),
}

pub(super) fn run() -> io::Result<()> {
    // A new Unix session, so that signals of a terminal or `pkill` to mcpd's group do not reach the server.
    rustix::process::setsid()?;
    let oom_score = OomScore::open();
    let child_signals = prepare(c"mcpd-guard")?;
    let socket = inherited_socket()?;
    let [stdin, stdout, stderr, outputs @ ..]: [OwnedFd; 5] = receive_streams(&socket)?;
    let Some(spec) = receive_spec(&socket)? else { return Ok(()) };
    let start = || start(&spec, [stdin, stdout, stderr]);
    let started = match oom_score {
        Ok(score) => score.raised(start),
        Err(_) => start(),
    };
    let server = match started {
        Ok(server) => server,
        Err(failure) => return send_report(&socket, &GuardReport::NotStarted(failure)),
    };
    drop(spec);
    // From here on the server runs. Whatever fails, the subtree is killed before the guard exits.
    let started = send_report(&socket, &GuardReport::Started { pid: server.server.as_raw_pid().unsigned_abs() });
    let mut server = Server { started: server, exit: None, is_terminated: false };
    let watched = started.and_then(|()| watch(&socket, &child_signals, &mut server, outputs.into()));
    server.kill_namespaces();
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
pub(super) fn start(spec: &LaunchSpec, streams: [OwnedFd; 3]) -> Result<StartedServer, StartError> {
    let LaunchSpec { umask, open_files, core_size, .. } = *spec;
    let attributes = ProcessAttributes { umask, open_files, core_size };
    attributes.apply().map_err(|error| StartError::System(error.to_string()))?;
    if spec.sandbox.is_some() {
        return stage::spawn(spec, &streams);
    }
    let mut command = command(spec, streams)?;
    let child = Pid::from_child(&command.spawn().map_err(|error| cannot_run(&command, &error))?);
    Ok(StartedServer { child, server: child, init: None })
}

/// One of the two processes that supervise the server together with this guard.
enum Lost {
    Mcpd,
    Reaper,
}

/// Watches the server until the rest of its subtree must be killed: it has exited, mcpd sends the command, mcpd and the reaper have died,
/// or one of them has died and the server has had its time.
fn watch(
    socket: &UnixStream,
    child_signals: &UnixStream,
    server: &mut Server,
    mut outputs: Vec<OwnedFd>,
) -> io::Result<()> {
    let (reaper, child_signals_fd) = (rustix::stdio::stdout(), child_signals.as_fd());
    let mut lost: Option<(Lost, SubtreeEnd)> = None;
    loop {
        // The stream of a dead process would always be ready. The reaper writes nothing, so its pipe only reports the hang-up.
        let mut watched = match lost {
            None => vec![child_signals_fd, reaper, socket.as_fd()],
            Some((Lost::Reaper, _)) => vec![child_signals_fd, socket.as_fd()],
            Some((Lost::Mcpd, _)) => vec![child_signals_fd, reaper],
        };
        if let Some((Lost::Mcpd, _)) = lost {
            watched.extend(outputs.iter().map(AsFd::as_fd));
        }
        let mut fds: Vec<_> = watched.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll_until(&mut fds, lost.as_ref().map(|(_, ending)| ending.due()))?;
        fds.retain(|fd| !fd.revents().is_empty());
        let is_ready = |fd: BorrowedFd<'_>| fds.iter().any(|ready| ready.as_fd().as_raw_fd() == fd.as_raw_fd());
        let [has_child_signal, has_lost_reaper, has_command] = [child_signals_fd, reaper, socket.as_fd()].map(is_ready);
        let command = if has_command { receive_command(socket) } else { Command::None };
        if has_child_signal {
            drain(child_signals);
            if let Some(exit) = server.reap() {
                return send_report(socket, &GuardReport::Exited(exit));
            }
        }
        for now_lost in [has_lost_reaper.then_some(Lost::Reaper), (command == Command::Lost).then_some(Lost::Mcpd)] {
            match (now_lost, &lost) {
                (None, _) => {}
                (Some(_), Some(_)) => return Ok(()),
                (Some(process), None) => {
                    // For mcpd, which closes the server's stdin then.
                    let _ = socket.shutdown(Shutdown::Write);
                    lost = Some((process, SubtreeEnd::new(Instant::now())));
                }
            }
        }
        outputs.retain(|output| !matches!(lost, Some((Lost::Mcpd, _))) || discard(output));
        match (command, lost.as_mut().map(|(_, ending)| ending.step(Instant::now()))) {
            (Command::Kill, _) | (_, Some(EndStep::Kill)) => return Ok(()),
            (Command::Terminate, _) | (_, Some(EndStep::Terminate)) => server.terminate(),
            _ => {}
        }
    }
}

/// Reads what the server has written since the death of mcpd. Without a reader, SIGPIPE would end it. Returns `false` at the end of the
/// stream. Never waits, as mcpd reads these pipes without blocking.
fn discard(output: &OwnedFd) -> bool {
    match rustix::io::read(output, &mut [0; 4096]) {
        Ok(read) => read > 0,
        Err(error) => error == Errno::AGAIN || error == Errno::INTR,
    }
}

/// What mcpd requires of a guard.
#[derive(PartialEq)]
enum Command {
    None,
    Terminate,
    Kill,
    /// mcpd has died.
    Lost,
}

fn receive_command(mut socket: &UnixStream) -> Command {
    let mut byte = [0];
    match io::Read::read(&mut socket, &mut byte) {
        Ok(1) if byte[0] == TERMINATE => Command::Terminate,
        Ok(1..) => Command::Kill,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Command::None,
        _ => Command::Lost,
    }
}

/// The server below this guard.
struct Server {
    started: StartedServer,
    exit: Option<Exit>,
    is_terminated: bool,
}

impl Server {
    /// Sends SIGTERM to the whole subtree, once.
    fn terminate(&mut self) {
        if std::mem::replace(&mut self.is_terminated, true) {
            return;
        }
        self.started.spare_others();
        let processes = Processes::below_this(&[]);
        processes.terminate(&processes.descendants());
    }

    /// Ends all in its namespaces, if it has any: the kernel does so as soon as their first process ends, and none can fork meanwhile.
    fn kill_namespaces(&self) {
        if self.started.init.is_some() && self.exit.is_none() {
            // Not reaped yet, so the process id cannot have been reused.
            let _ = kill_process(self.started.child, Signal::KILL);
        }
    }

    /// Reaps dead processes, and continues the first process of the namespaces if it is suspended. Returns the exit of the server if the rest of its subtree gets no more time. After SIGTERM the rest keeps
    /// its time: a wrapper usually ends at once, and the program that it wraps has to clean up.
    fn reap(&mut self) -> Option<Exit> {
        let has_processes = loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if status.stopped() => {
                    if self.started.init.is_some() && pid == self.started.child {
                        let _ = kill_process(pid, Signal::CONT);
                    }
                }
                Ok(Some((pid, status))) if pid == self.started.child => {
                    self.exit = Some(ExitStatus::from_raw(self.started.status(status.as_raw())).into());
                }
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if self.is_terminated && has_processes { None } else { self.exit.clone() }
    }
}

pub(super) fn send_report(mut socket: &UnixStream, report: &GuardReport) -> io::Result<()> {
    send_line(&mut socket, report)
}

/// How much the score of a server is raised, in thousandths of the memory. Enough to go before mcpd and the programs of a session, and
/// little enough that a program with a leak goes before a server without one.
const RAISE: i32 = 100;
const MAX: i32 = 1000;

/// The adjustment of this process.
pub(super) struct OomScore(File);

impl OomScore {
    /// Must be called before the memory of this process is protected: from then on, its files in `/proc` belong to root.
    pub(super) fn open() -> io::Result<Self> {
        File::options().read(true).write(true).open("/proc/self/oom_score_adj").map(Self)
    }

    /// Runs `start` with a raised score. The processes that it starts inherit that, and it is lowered again for this process.
    pub(super) fn raised<T>(&self, start: impl FnOnce() -> T) -> T {
        let own = self.read();
        let raised = own.and_then(|own| self.set((own + RAISE).min(MAX)).ok());
        let started = start();
        if let Some((own, ())) = own.zip(raised) {
            let _ = self.set(own);
        }
        started
    }

    fn read(&self) -> Option<i32> {
        let mut text = [0; 16];
        let length = self.0.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
    }

    fn set(&self, score: i32) -> io::Result<()> {
        self.0.write_all_at(score.to_string().as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn command_that_arrives_with_the_launch_spec_is_not_lost() {
        for (sent, is_started) in [("", true), ("K", false)] {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
            let spec = r#"{"command":"x","args":[],"env":{},"cwd":"/","cwd_is_stated":false,"umask":null,"open_files":null,"core_size":null,"tasks_max":null,"sandbox":null}"#;
            theirs.write_all(format!("{spec}\n{sent}").as_bytes()).expect("there is room");
            assert_eq!(receive_spec(&ours).expect("it is read").is_some(), is_started);
        }
    }
}
