//! The first process of a server's [namespaces](super::namespaces): what `init` is for a whole system.
//!
//! The stage starts it, mounts everything but `/proc`, and exits, so that the guard becomes its parent. It mounts `/proc`, changes the
//! root, gives up all capabilities, and starts the process that becomes the server. Then it reaps orphans. When the server ends, it
//! reports the exit status and exits, and the kernel kills all that is left in the namespace. After SIGTERM, the others have the time that
//! the guard gives them.
//!
//! It dies with its guard: by the signal of a parent's death, and because the socket to the guard closes.
//!
//! A program of its own, `mcpd-init`, since each server has one: it needs a tenth of the memory of mcpd. Where that program is not next
//! to mcpd, mcpd itself becomes this process. Single-threaded, without tokio.

use std::env;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use rustix::process::{Pid, Signal, WaitOptions, chdir, pivot_root, set_parent_process_death_signal, wait};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::namespaces::{AtStep, INIT_CAPABILITIES, NamespaceFailure, NamespaceStep as Step, SERVER_ARGV0};
use crate::fd_passing::{self, inherited_socket, receive_streams};
use crate::server::start_error::StartError;
use crate::server::subtree_owner::close_inherited;
use crate::server::subtree_owner::protect_memory;

/// The process name, by which `main` recognizes one. Also the name of the program.
pub(in crate::server) const ARGV0: &str = "mcpd-init";

/// Settings of the whole system, which root could change without capabilities.
const SETTINGS: &[&str] = &["proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"];

/// From the guard: it is the parent now.
pub(super) const ADOPTED: u8 = b'A';
/// From the guard: the server gets SIGTERM, and all other processes, too. They may end after the server.
pub(super) const SPARE_OTHERS: u8 = b'S';

/// The program `mcpd-init`, which has nothing to do for a person.
#[must_use]
pub fn main() -> ExitCode {
    if env::args_os().next().is_some_and(|name| name == ARGV0) && env::args_os().len() == 1 {
        return run();
    }
    let _ = writeln!(io::stderr(), "mcpd-init is a part of mcpd, which starts it above each server that has a sandbox");
    ExitCode::from(2)
}

/// Runs this process as the first one of a server's namespaces.
pub(in crate::server) fn run() -> ExitCode {
    start().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Serves until the server has ended.
fn start() -> io::Result<()> {
    protect_memory()?;
    close_inherited()?;
    rustix::thread::set_name(c"mcpd-init")?;
    let stage = inherited_socket()?;
    let [report, control, program]: [OwnedFd; 3] = received(&stage)?;
    let [spec]: [OwnedFd; 1] = received(&stage)?;
    let streams = receive_streams(&stage)?;
    let (report, control) = (UnixStream::from(report), UnixStream::from(control));
    drop(stage);
    // Before the server can end.
    let signals = SigSet::from_iter([nix::sys::signal::Signal::SIGCHLD]);
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let server = enter_root().and_then(|()| {
        wait_for_adoption(&control).and_then(|()| spawn(&report, &program, &spec, &streams)).at(Step::StartServer)
    });
    match server {
        Ok(server) => {
            drop((report, program, spec, streams));
            serve(&control, &signals, server)
        }
        Err(failure) => fd_passing::send_line(&mut &report, &StartError::Namespaces(failure)),
    }
}

fn received<const N: usize>(socket: &UnixStream) -> io::Result<[OwnedFd; N]> {
    let (_, fds) = fd_passing::receive(socket, &mut [0])?;
    fds.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Makes the working directory, in which the new root is mounted, the root.
fn enter_root() -> Result<(), NamespaceFailure> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "proc", "proc", flags, None).at(Step::MountProc)?;
    for path in SETTINGS {
        let made = mount_bind(*path, *path)
            .and_then(|()| mount_remount(*path, flags | MountFlags::BIND | MountFlags::RDONLY, c""));
        match made {
            // Not every kernel has each of them.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error).at(Step::MountProc),
        }
    }
    pivot_root(".", ".")
        // The old root lies over the new one now.
        .and_then(|()| unmount(".", UnmountFlags::DETACH))
        .and_then(|()| chdir("/"))
        .at(Step::ChangeRoot)?;
    drop_capabilities().at(Step::Capabilities)
}

fn drop_capabilities() -> rustix::io::Result<()> {
    INIT_CAPABILITIES.iter().try_for_each(remove_capability_from_bounding_set)?;
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Waits until the guard is the parent. Its death ends this process from then on. If the guard has died meanwhile, `control` is closed.
fn wait_for_adoption(mut control: &UnixStream) -> io::Result<()> {
    let mut byte = [0];
    control.read_exact(&mut byte)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if byte == [ADOPTED] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Starts the second half of the stage, which becomes the server.
fn spawn(report: &UnixStream, program: &OwnedFd, spec: &OwnedFd, streams: &[OwnedFd; 3]) -> io::Result<Pid> {
    let (ours, theirs) = UnixStream::pair()?;
    fd_passing::send_streams(&ours, streams)?;
    fd_passing::send(&ours, &[0], &[report.as_fd(), spec.as_fd()])?;
    let mut command = Command::new(fd_passing::path_of(program));
    command.arg0(SERVER_ARGV0).env_clear().stdin(OwnedFd::from(theirs));
    Ok(Pid::from_child(&command.spawn()?))
}

/// Reaps until the server has ended, and reports its wait status. After SIGTERM, all other processes may end, too.
fn serve(mut control: &UnixStream, signals: &SignalFd, server: Pid) -> io::Result<()> {
    let (mut has_ended, mut spares_others) = (false, false);
    loop {
        let mut fds = [control.as_fd(), signals.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        if ready[1] {
            let _ = signals.read_signal();
            let is_alone = loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if pid == server => {
                        control.write_all(&status.as_raw().to_ne_bytes())?;
                        has_ended = true;
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(error) => break error == Errno::CHILD,
                }
            };
            if has_ended && (is_alone || !spares_others) {
                return Ok(());
            }
        }
        if ready[0] {
            let mut command = [0];
            match control.read(&mut command) {
                Ok(1) if command == [SPARE_OTHERS] => spares_others = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Ok(()),
            }
        }
    }
}
