//! Takes over the cgroup that is delegated to mcpd, and creates others in it. All functions may block.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Cgroup, remove_empty};
use crate::config::Limits;
use crate::server::subtree;

/// The mount point of cgroup v2, if it has controllers (systemd, `file-hierarchy`).
const ROOT: &str = "/sys/fs/cgroup";
/// The cgroup of mcpd and of all processes without limits.
const DAEMON: &str = "daemon";
/// Prefix of the cgroups of instances.
const SERVER: &str = "server-";
/// Maximum attempts to move processes, as new ones may start meanwhile.
const ROUNDS: usize = 20;

/// The delegated cgroup, ready for child cgroups.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    path: PathBuf,
    memory: bool,
    pids: bool,
}

impl Tree {
    /// Moves this process and its descendants into a child cgroup and enables the controllers for all children. The error is one
    /// line of text.
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
        let controllers = enabled.iter().map(|one| one.0).collect::<Vec<_>>().join(" ");
        for _ in 0..ROUNDS {
            move_family(&tree.path, &part).map_err(refused)?;
            match fs::write(tree.path.join("cgroup.subtree_control"), &controllers) {
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

    /// Removes the cgroups that a killed daemon has left.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SERVER) {
                // A cgroup that still has processes stays.
                let _ = remove_empty(&entry.path());
            }
        }
    }

    /// Why some of these limits cannot be enforced; `None` if all can.
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

    /// Creates the cgroup `name` with those limits that can be enforced, and moves the process `guard` into it. After `deadline`
    /// nothing is moved, as the process id may have been reused.
    pub(super) fn create(&self, name: &str, limits: Limits, guard: u32, deadline: Instant) -> io::Result<Cgroup> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        let made = Cgroup { limits, path: Some(path.clone()) };
        if let Some(bytes) = limits.memory_max.filter(|_| self.memory) {
            fs::write(path.join("memory.max"), bytes.to_string())?;
            // Kills all processes of the cgroup together. A server without some of its processes is useless, and its guard must not report
            // an ordinary exit.
            fs::write(path.join("memory.oom.group"), "1")?;
            // Without this, the limit would apply only once the machine's swap is full. Some kernels lack the file.
            let _ = fs::write(path.join("memory.swap.max"), "0");
        }
        if let Some(tasks) = limits.tasks_max.filter(|_| self.pids) {
            // The guard is one more task.
            fs::write(path.join("pids.max"), (tasks + 1).to_string())?;
        }
        if deadline <= Instant::now() {
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

/// Moves this process and its descendants. Other processes stay, and prevent child cgroups with controllers.
fn move_family(from: &Path, to: &Path) -> io::Result<()> {
    let family: Vec<u32> = subtree::all_descendants().into_iter().chain([std::process::id()]).collect();
    let here = fs::read_to_string(from.join("cgroup.procs"))?;
    for pid in here.lines().filter(|line| line.parse().is_ok_and(|pid| family.contains(&pid))) {
        match fs::write(to.join("cgroup.procs"), pid) {
            // The process has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            moved => moved?,
        }
    }
    Ok(())
}
