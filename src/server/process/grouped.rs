//! A server without a guard, in a process group of its own: what an embedding program gets that has no guard to offer.
//!
//! What is given up: a descendant that leaves the group survives the server, and the whole group survives the embedding
//! program when that is killed.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::{Ended, NotStarted};
use crate::server::exit::Exit;
use crate::server::guard::{Definition, cannot_run, command};

/// A server that leads its process group.
#[derive(Debug)]
pub(super) struct Grouped {
    leader: Child,
    pid: u32,
    /// `None` once the leader was waited for: then the number may be another's.
    group: Option<Pid>,
}

pub(super) fn start(definition: &Definition, streams: [OwnedFd; 3]) -> Result<Grouped, NotStarted> {
    let mut command = Command::from(command(definition, streams).map_err(NotStarted::Error)?);
    let leader = command.spawn().map_err(|error| NotStarted::Error(cannot_run(command.as_std(), &error)))?;
    let pid = leader.id().unwrap_or_default();
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(Grouped { leader, pid, group })
}

impl Grouped {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// May be cancelled without loss.
    pub(super) async fn ended(&mut self) -> Ended {
        let status = self.leader.wait().await;
        // At once, while no new process can have been given the number: members of the group keep it taken, and
        // without members there is nobody to hit.
        self.signal(Signal::KILL);
        self.group = None;
        Ended::Exited(status.map_or_else(|_| Exit::default(), Exit::from))
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) async fn kill(&mut self) -> bool {
        self.signal(Signal::KILL);
        let _ = self.leader.wait().await;
        self.group = None;
        true
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
