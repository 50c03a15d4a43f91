//! The reaper: one process between mcpd and all guards. It starts the guards, and ends what a killed guard leaves behind.
//!
//! mcpd re-executes itself under the name [`ARGV0`]. The reaper's standard input is a socket to mcpd. Each [request](START_GUARD) carries
//! the socket of a guard to start.
//!
//! The reaper is a child subreaper above the guards, so it inherits the orphans of a guard that was killed, and [ends](super::ending)
//! them. It keeps a copy of the guard's socket until none is left. A command to kill that comes meanwhile, or the death of mcpd, shortens
//! their end. The reaper continues guards that were suspended.
//!
//! When its socket closes, because mcpd has died or needs no more guards, it waits until the guards have ended their servers, kills
//! what is left after [`subtree_owner::END_LIMIT`], and exits. Guards have the read end of a pipe to the reaper, so that they also notice its death.
//!
//! The reaper stays in mcpd's Unix session, but has its own process group. If mcpd dies while the reaper is suspended, the kernel
//! continues the reaper: its process group is orphaned then (setpgid(2)).
//!
//! Single-threaded, without tokio. It never sees the launch spec or data of a server.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, wait};

use super::guard;
use super::subtree::{self, Processes};
use super::subtree_owner::{self, EndStep, KILL_AGAIN, SubtreeEnd};
use crate::fd_passing;

/// The process name of a reaper, by which `main` recognizes one.
pub(crate) const ARGV0: &str = subtree::REAPER;

/// The request of mcpd: start a guard whose standard input is the descriptor that comes with it. A second one is the `cgroup.kill` of the
/// cgroup that the guard will be in.
pub(super) const START_GUARD: u8 = b'S';

/// Delay between two looks at the orphans of a guard, until they are killed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The answer to a request, which is sent on the guard's socket. With [`Answer::Started`], the message also carries the guard's pidfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The process id of the guard.
    Started(i32),
    /// The error number of the system.
    NotStarted(i32),
}

impl Answer {
    pub(super) const LEN: usize = 4;

    fn to_bytes(self) -> [u8; Self::LEN] {
        match self {
            Self::Started(pid) => pid,
            Self::NotStarted(error) => -error,
        }
        .to_ne_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let number = i32::from_ne_bytes(bytes);
        if number > 0 { Self::Started(number) } else { Self::NotStarted(-number) }
    }
}

struct Reaper {
    /// Guards whose exit was not seen yet.
    guards: Vec<Guard>,
    /// Servers whose guards have exited, in the order of these exits.
    unguarded: Vec<UnguardedServer>,
    /// The read end of a pipe, given to guards: it reports a hang-up when this process ends.
    liveness_read: OwnedFd,
}

struct Guard {
    pid: u32,
    /// The guard's socket. As long as the reaper holds it, mcpd knows that processes of the server are left.
    socket: UnixStream,
    /// The `cgroup.kill` of its cgroup.
    kill_file: Option<File>,
}

/// A server whose guard has exited. The reaper takes its place.
struct UnguardedServer {
    guard: Guard,
    ending: SubtreeEnd,
}

pub(super) fn run() -> io::Result<()> {
    let child_signals = subtree_owner::prepare(c"mcpd-reaper")?;
    let control = fd_passing::inherited_socket()?;
    let (liveness_read, _liveness_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut reaper = Reaper { guards: Vec::new(), unguarded: Vec::new(), liveness_read };
    // Whatever fails, the subtree is killed before the reaper exits.
    let served = reaper.serve(&control, &child_signals);
    let guards = reaper.guards.iter().chain(reaper.unguarded.iter().map(|server| &server.guard));
    guards.for_each(Guard::kill_cgroup);
    subtree_owner::kill_subtree(&child_signals)?;
    served
}

impl Reaper {
    /// Serves requests until the socket closes. Then waits until the guards have ended their servers.
    fn serve(&mut self, control: &UnixStream, child_signals: &UnixStream) -> io::Result<()> {
        let mut next_look: Option<Instant> = None;
        let mut deadline: Option<Instant> = None;
        while deadline.is_none_or(|deadline| !self.guards.is_empty() && Instant::now() < deadline) {
            let mut fds = [PollFd::new(child_signals, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
            // A closed socket is always ready.
            let watched = if deadline.is_some() { &mut fds[..1] } else { &mut fds[..] };
            subtree_owner::poll_until(watched, next_look.or(deadline))?;
            let [has_child_signal, has_request] = fds.map(|fd| !fd.revents().is_empty());
            if has_child_signal {
                subtree_owner::drain(child_signals);
            }
            let now = Instant::now();
            if self.reap(now) || next_look.is_some_and(|next| next <= now) {
                next_look = self.end_orphans(now).map(|pause| now + pause);
            }
            if has_request {
                match fd_passing::receive(control, &mut [0]) {
                    Ok((1, fds)) => {
                        let mut fds = fds.into_iter();
                        if let Some(socket) = fds.next() {
                            self.start_guard(socket.into(), fds.next().map(File::from));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => deadline = Some(now + subtree_owner::END_LIMIT),
                }
            }
        }
        Ok(())
    }

    /// Reaps dead children and continues suspended ones. Returns whether a child died.
    fn reap(&mut self, now: Instant) -> bool {
        let mut has_died = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if status.stopped() {
                // Not reaped yet, so the process id cannot have been reused.
                let _ = kill_process(pid, Signal::CONT);
            } else {
                let pid = pid.as_raw_pid().unsigned_abs();
                let exited = self.guards.extract_if(.., |guard| guard.pid == pid);
                self.unguarded.extend(exited.map(|guard| UnguardedServer { guard, ending: SubtreeEnd::new(now) }));
                has_died = true;
            }
        }
        has_died
    }

    /// Ends the processes of servers whose guards have exited. Returns when it has to look at them again, if any are left.
    fn end_orphans(&mut self, now: Instant) -> Option<Duration> {
        let guards: Vec<_> = self.guards.iter().map(|guard| guard.pid).collect();
        let leaders: Vec<_> =
            self.unguarded.iter().map(|server| server.guard.pid).chain(guards.iter().copied()).collect();
        // A process that has left the Unix session of its guard, and lost its parents, counts as one of the first server.
        let first = self.unguarded.first().map(|server| server.guard.pid);
        let owner = |processes: &Processes, pid: i32| processes.session_leader(pid, &leaders).or(first);
        let processes = Processes::below_this(&guards);
        let orphans = processes.descendants();
        let mut pause = (!orphans.is_empty()).then_some(LOOK_AGAIN);
        // The guards whose orphans have had their time. Without one, an orphan is of no server.
        let mut doomed = vec![None];
        self.unguarded.retain_mut(|server| {
            let guard = Some(server.guard.pid);
            let own: Vec<_> = orphans.iter().copied().filter(|pid| owner(&processes, *pid) == guard).collect();
            match if server.guard.may_take_time() { server.ending.step(now) } else { EndStep::Kill } {
                EndStep::Wait => {}
                EndStep::Terminate => processes.terminate(&own),
                EndStep::Kill => {
                    server.guard.kill_cgroup();
                    doomed.push(guard);
                }
            }
            !own.is_empty()
        });
        let may_reap = |pid: i32| !guards.contains(&pid.unsigned_abs());
        if subtree::kill(&guards, may_reap, |processes, pid| doomed.contains(&owner(processes, pid))) {
            pause = Some(KILL_AGAIN);
        }
        pause
    }

    fn start_guard(&mut self, socket: UnixStream, kill_file: Option<File>) {
        let (answer, pidfd) = match self.spawn(&socket) {
            Ok((pid, pidfd)) => (Answer::Started(pid.as_raw_pid()), Some(pidfd)),
            Err(error) => (Answer::NotStarted(error.raw_os_error().unwrap_or_default()), None),
        };
        let fds: Vec<_> = pidfd.iter().map(AsFd::as_fd).collect();
        // An error means that mcpd has closed the socket. The guard notices that too.
        let _ = fd_passing::send(&socket, &answer.to_bytes(), &fds);
        if let Answer::Started(pid) = answer {
            self.guards.push(Guard { pid: pid.unsigned_abs(), socket, kill_file });
        }
    }

    fn spawn(&self, socket: &UnixStream) -> io::Result<(Pid, OwnedFd)> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(guard::ARGV0).env_clear().current_dir("/").stderr(Stdio::null());
        command.stdin(OwnedFd::from(socket.try_clone()?)).stdout(self.liveness_read.try_clone()?);
        let pid = Pid::from_child(&command.spawn()?);
        Ok((pid, pidfd_open(pid, PidfdFlags::NONBLOCK)?))
    }
}

impl Guard {
    /// Kills the guard with all processes of the server at once, if they have a cgroup and the kernel can do that. No process
    /// can escape by forking, or by leaving its parents or session.
    fn kill_cgroup(&self) {
        if let Some(mut file) = self.kill_file.as_ref() {
            let _ = file.write_all(b"1");
        }
    }

    /// Whether mcpd still runs, and has not required the end of the server at once.
    fn may_take_time(&self) -> bool {
        let mut commands = [0; 64];
        match recv(&self.socket, &mut commands, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((received, _)) => received > 0 && !commands[..received].contains(&guard::KILL),
            Err(error) => error == Errno::WOULDBLOCK || error == Errno::INTR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        for answer in [Answer::Started(1), Answer::Started(i32::MAX), Answer::NotStarted(11), Answer::NotStarted(0)] {
            assert_eq!(Answer::from_bytes(answer.to_bytes()), answer);
        }
    }
}
