//! The runner: a process that runs one program of a `${cmd:…}`, outside of mcpd's subtree.
//!
//! Such a program may start an agent that others use too, such as `gpg-agent`, which has to survive mcpd. mcpd is a child subreaper, so
//! any orphan below it would become its child. [`start_outside`] suspends that for the moment in which the starter, a process between
//! mcpd and the runner, exits. The runner then belongs to the user's service manager or to init, and so does what the program leaves
//! behind. If mcpd runs as a service, the runner moves to a scope of its own first: systemd kills what a service leaves behind.
//!
//! The runner's standard input is a socket to mcpd, with the messages of a [guard](super::guard). When it closes, the runner kills the
//! program's process group.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process_group, pidfd_open, waitpid};

use super::guard::{self, GuardReport};
use super::subtree_owner::isolate;
use crate::fd_passing::{inherited_socket, receive_streams};

/// The process name of a starter, by which `main` recognizes one.
pub(super) const STARTER_ARGV0: &str = "mcpd-starter";
/// The process name of a runner.
pub(super) const ARGV0: &str = "mcpd-secret";

/// Pause between looks whether systemd has moved this process, and their number.
const MOVE_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const MOVE_LOOKS: usize = 100;

/// Starts a runner with this standard input, by executing `program`. Blocks for some milliseconds. Calls must not overlap.
///
/// If the reaper is lost just then, its orphans leave the subtree, too. The guards kill them in any case.
pub(super) fn start_outside(program: &Path, stdin: OwnedFd) -> io::Result<()> {
    let is_subreaper = rustix::process::child_subreaper()?.is_some();
    rustix::process::set_child_subreaper(None)?;
    let started = execute(program, STARTER_ARGV0, stdin.into()).and_then(|mut starter| starter.wait());
    if is_subreaper {
        rustix::process::set_child_subreaper(Some(getpid()))?;
    }
    let status = started?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the starter of its runner failed: {status}"))) }
}

/// The starter: leaves the runner as an orphan.
pub(super) fn start() -> io::Result<()> {
    execute(Path::new("/proc/self/exe"), ARGV0, Stdio::inherit()).map(drop)
}

fn execute(program: &Path, name: &str, stdin: Stdio) -> io::Result<std::process::Child> {
    let mut command = Command::new(program);
    command.arg0(name).env_clear().current_dir("/").stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// The runner.
pub(super) fn run() -> io::Result<()> {
    rustix::process::setsid()?;
    isolate(c"mcpd-secret")?;
    let socket = inherited_socket()?;
    let streams = receive_streams(&socket)?;
    let Some(spec) = guard::receive_spec(&socket)? else { return Ok(()) };
    leave_service(&spec.env);
    let program = match guard::start(&spec, streams) {
        Ok(started) => started.child,
        Err(failure) => return guard::send_report(&socket, &GuardReport::NotStarted(failure)),
    };
    drop(spec);
    if !ended_first(&socket, program)? {
        // Not reaped yet, so the process id cannot have been reused.
        let _ = kill_process_group(program, Signal::KILL);
    }
    let status = waitpid(Some(program), WaitOptions::empty())?.map_or(0, |(_, status)| status.as_raw());
    guard::send_report(&socket, &GuardReport::Exited(ExitStatus::from_raw(status).into()))
}

/// Waits until the program has ended or the socket is closed. Returns whether it has ended.
fn ended_first(socket: &UnixStream, program: Pid) -> io::Result<bool> {
    let pidfd = pidfd_open(program, PidfdFlags::empty())?;
    loop {
        let mut fds = [pidfd.as_fd(), socket.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) => return Ok(!fds[0].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves this process to a scope of its own, if it is in the cgroup of a service. If the user's service manager does not do that, agents
/// that the program starts end with the service.
fn leave_service(env: &BTreeMap<String, String>) {
    let cgroup = || fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let before = cgroup();
    if !is_in_service(&before) {
        return;
    }
    let pid = getpid().to_string();
    let scope = format!("mcpd-secret-{pid}.scope");
    let manager = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"];
    let mut command = Command::new("busctl");
    command.env_clear().envs(env).args(["--user", "--timeout=2", "call"]).args(manager);
    // systemd.org, `org.freedesktop.systemd1`: the name, the job mode, one property, no further units.
    command.args(["StartTransientUnit", "ssa(sv)a(sa(sv))", &scope, "fail", "1", "PIDs", "au", "1", &pid, "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        // The manager moves it soon after its answer.
        let mut looks = 0..MOVE_LOOKS;
        while cgroup() == before && looks.next().is_some() {
            let _ = poll(&mut [], Some(&MOVE_PAUSE));
        }
    }
}

/// Whether the innermost unit of a `/proc/PID/cgroup` is a service, and not the user's service manager.
fn is_in_service(cgroup: &str) -> bool {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.into_iter().any(|path| {
        let unit = path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"));
        unit.is_some_and(|unit| unit.ends_with(".service") && !unit.starts_with("user@"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_is_left() {
        for (cgroup, expected) in [
            ("0::/\n", false),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/mcpd.service\n", true),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/mcpd.service/daemon\n", true),
            ("0::/system.slice/mcpd.service\n", true),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-editor-1.scope\n", false),
            ("0::/user.slice/user-1000.slice/session-2.scope\n", false),
            ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", false),
            ("1:name=systemd:/system.slice/mcpd.service\n0::/\n", true),
            ("", false),
        ] {
            assert_eq!(is_in_service(cgroup), expected, "{cgroup}");
        }
    }
}
