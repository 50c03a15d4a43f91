//! A server without a guard, in its own process group, for embedding programs without a guard.
//!
//! A descendant that leaves the group survives the server. The whole group survives the embedding program if that is
//! killed.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::{ProcessEnd, SpawnError};
use crate::server::launch_spec::{LaunchSpec, cannot_run, command};
use crate::server::start_error::Exit;

/// A server that leads its process group.
#[derive(Debug)]
pub(super) struct UnguardedProcess {
    leader: Child,
    pid: u32,
    /// `None` once the leader was reaped, as its number may be reused then.
    group: Option<Pid>,
}

pub(super) fn start(spec: &LaunchSpec, streams: [OwnedFd; 3]) -> Result<UnguardedProcess, SpawnError> {
    let mut command = Command::from(command(spec, streams).map_err(SpawnError::Error)?);
    let leader = command.spawn().map_err(|error| SpawnError::Error(cannot_run(command.as_std(), &error)))?;
    let pid = leader.id().unwrap_or_default();
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(UnguardedProcess { leader, pid, group })
}

impl UnguardedProcess {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Cancel-safe.
    pub(super) async fn wait_ended(&mut self) -> ProcessEnd {
        let status = self.leader.wait().await;
        // At once, while the number cannot be reused: members of the group reserve it, and without members the signal has
        // no effect.
        self.signal(Signal::KILL);
        self.group = None;
        ProcessEnd::Exited(status.map_or_else(|_| Exit::default(), Exit::from))
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.leader.wait().await;
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for UnguardedProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
