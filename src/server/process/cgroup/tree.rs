//! Taking over the cgroup that mcpd was given, and making others in it. Everything here may block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Cgroup, remove_empty};
use crate::config::Limits;
use crate::server::subtree;

/// Where the one hierarchy of cgroup v2 is, wherever it has controllers to give (systemd, `file-hierarchy`).
const ROOT: &str = "/sys/fs/cgroup";
/// The part for all that has no cgroup of its own.
const DAEMON: &str = "daemon";
/// How the names of all others begin.
const SERVER: &str = "server-";
/// How often what has just been started is moved after the rest.
const ROUNDS: usize = 20;

/// The given cgroup, ready to be divided.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    path: PathBuf,
    memory: bool,
    pids: bool,
}

impl Tree {
    /// Moves this process and its descendants into a part of its cgroup and hands the controllers down to all parts. The
    /// error is for a person, on one line.
    pub(super) fn take_over() -> Result<Self, String> {
        let refused = |error: io::Error| format!("its cgroup cannot be divided: {error}");
        let path = own().ok_or("there is no cgroup v2")?;
        let controllers =
            fs::read_to_string(path.join("cgroup.controllers")).map_err(|_| "there is no cgroup v2".to_owned())?;
        let has = |name: &str| controllers.split_ascii_whitespace().any(|one| one == name);
        let tree = Self { memory: has("memory"), pids: has("pids"), path };
        let enabled: Vec<_> =
            [("+memory", tree.memory), ("+pids", tree.pids)].into_iter().filter(|one| one.1).collect();
        if enabled.is_empty() {
            return Err("its cgroup has neither the `memory` nor the `pids` controller".to_owned());
        }
        let part = tree.path.join(DAEMON);
        match fs::create_dir(&part) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
            _ => {}
        }
        let order = enabled.iter().map(|one| one.0).collect::<Vec<_>>().join(" ");
        for _ in 0..ROUNDS {
            move_family(&tree.path, &part).map_err(refused)?;
            match fs::write(tree.path.join("cgroup.subtree_control"), &order) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) => return Err(refused(error)),
                Ok(()) => {
                    tree.sweep();
                    return Ok(tree);
                }
            }
        }
        Err("its cgroup has processes that are not of mcpd".to_owned())
    }

    /// Removes what a daemon left that was killed.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SERVER) {
                // It may have processes yet. They are nothing to us.
                let _ = remove_empty(&entry.path());
            }
        }
    }

    /// Why not all of these limits can be enforced, if that is so.
    pub(super) fn missing(&self, limits: Limits) -> Option<&'static str> {
        let (memory, pids) = (limits.memory_max.is_some(), limits.tasks_max.is_some());
        match (memory && !self.memory, pids && !self.pids) {
            (true, _) => Some("its cgroup has no `memory` controller"),
            (_, true) => Some("its cgroup has no `pids` controller"),
            (false, false) => None,
        }
    }

    /// Whether any of these limits can be enforced.
    pub(super) fn has_any(&self, limits: Limits) -> bool {
        limits.memory_max.is_some() && self.memory || limits.tasks_max.is_some() && self.pids
    }

    /// Makes the cgroup `name` with as many of these limits as can be had, and moves the process `guard` into it, unless it
    /// is `too_late`: then the number may be another's.
    pub(super) fn create(&self, name: &str, limits: Limits, guard: u32, too_late: Instant) -> io::Result<Cgroup> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        let made = Cgroup { limits, path: Some(path.clone()) };
        if let Some(bytes) = limits.memory_max.filter(|_| self.memory) {
            fs::write(path.join("memory.max"), bytes.to_string())?;
            // All of it or nothing: half a server is of no use, and its guard must not take the end for an ordinary one.
            fs::write(path.join("memory.oom.group"), "1")?;
            // Else the limit would apply only when the swap of the whole machine is used up. Some kernels have none.
            let _ = fs::write(path.join("memory.swap.max"), "0");
        }
        if let Some(tasks) = limits.tasks_max.filter(|_| self.pids) {
            // The guard is one task, and starts no other than the server.
            fs::write(path.join("pids.max"), (tasks + 1).to_string())?;
        }
        if too_late <= Instant::now() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        fs::write(path.join("cgroup.procs"), guard.to_string())?;
        Ok(made)
    }
}

/// The cgroup of this process (cgroups(7), `/proc/PID/cgroup`).
fn own() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(ROOT).join(path))
}

/// Moves what is of this process's family; what is not stays, and keeps the cgroup from being divided.
fn move_family(from: &Path, to: &Path) -> io::Result<()> {
    let family: Vec<u32> = subtree::present().into_iter().chain([std::process::id()]).collect();
    let here = fs::read_to_string(from.join("cgroup.procs"))?;
    for pid in here.lines().filter(|line| line.parse().is_ok_and(|pid| family.contains(&pid))) {
        match fs::write(to.join("cgroup.procs"), pid) {
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            moved => moved?,
        }
    }
    Ok(())
}
