//! Takes over the cgroup that is delegated to mcpd, and creates others in it. All functions may block.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroup, Enforcement, LimitKey, Limits, remove_empty};
use crate::server::subtree;

/// The mount point of cgroup v2, if it has controllers (systemd, `file-hierarchy`).
const ROOT: &str = "/sys/fs/cgroup";
/// The cgroup of mcpd and its reaper.
const DAEMON: &str = "daemon";
/// Prefix of the cgroups of instances.
const SERVER: &str = "server-";
/// Maximum attempts to move processes, as new ones may start meanwhile.
const ROUNDS: usize = 20;

/// The share of `daemon` while the processors are busy: servers must not keep mcpd waiting.
const DAEMON_WEIGHT: usize = 1000;
/// The controllers, in the order in which they are enabled.
const CONTROLLERS: [LimitKey; 3] = [LimitKey::MemoryMax, LimitKey::TasksMax, LimitKey::CpuWeight];

/// The delegated cgroup, ready for child cgroups.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    path: PathBuf,
    /// What can be enforced.
    enforced: Vec<LimitKey>,
}

impl Tree {
    /// Moves this process and its descendants into a child cgroup and enables the controllers for all children. The error is one
    /// line of text.
    pub(super) fn take_over(is_successor: bool) -> Result<Self, String> {
        let refused = |error: io::Error| format!("its cgroup cannot be divided: {error}");
        let mut path = own().ok_or("there is no cgroup v2")?;
        if is_successor && path.ends_with(DAEMON) {
            path.pop();
        }
        let controllers =
            fs::read_to_string(path.join("cgroup.controllers")).map_err(|_| "there is no cgroup v2".to_owned())?;
        let has = |key: &LimitKey| controllers.split_ascii_whitespace().any(|one| one == key.controller());
        let mut tree = Self { enforced: Vec::new(), path };
        let part = tree.path.join(DAEMON);
        match fs::create_dir(&part) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
            _ => {}
        }
        let mut failure = io::Error::other("it has no controllers");
        for key in CONTROLLERS.into_iter().filter(has) {
            match tree.enable(key.controller(), &part) {
                Ok(()) => tree.enforced.push(key),
                Err(error) => {
                    failure = error;
                    break;
                }
            }
        }
        if tree.enforced.is_empty() {
            return Err(refused(failure));
        }
        // An error means that there is no such controller.
        let _ = fs::write(part.join("cpu.weight"), DAEMON_WEIGHT.to_string());
        tree.sweep();
        Ok(tree)
    }

    /// Enables a controller for all child cgroups, which the kernel does once no process is left beside them.
    fn enable(&self, controller: &str, part: &Path) -> io::Result<()> {
        for _ in 0..ROUNDS {
            move_family(&self.path, part)?;
            match fs::write(self.path.join("cgroup.subtree_control"), format!("+{controller}")) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                result => return result,
            }
        }
        Err(io::Error::other("it has processes that are not of mcpd"))
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

    /// Which of these limits are enforced.
    pub(super) fn enforcement(&self, limits: Limits) -> Enforcement {
        let missing = CONTROLLERS.iter().filter(|key| !self.enforced.contains(key));
        let missing: Vec<_> = missing.map(|key| format!("`{}`", key.controller())).collect();
        limits.enforcement(
            |key| self.enforced.contains(&key),
            format!("its cgroup has no controller {}", missing.join(", ")),
        )
    }

    /// Creates the cgroup `name` with those limits that can be enforced.
    pub(super) fn create(&self, name: &str, limits: Limits, supervisors: usize) -> io::Result<Cgroup> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        let kill = File::options().write(true).open(path.join("cgroup.kill")).ok();
        let made = Cgroup { limits, path: Some(path.clone()), kill: kill.map(Into::into) };
        let set = |file: &str, value: usize| fs::write(path.join(file), value.to_string());
        if self.enforced.contains(&LimitKey::MemoryMax) {
            // The kernel kills the cgroup together. A server without some of its processes is useless, and its guard must not report
            // an ordinary exit.
            set("memory.oom.group", 1)?;
            if let Some(bytes) = limits.memory_max.max {
                set("memory.max", bytes)?;
            }
            if limits.memory_max.max.is_some() && !limits.memory_max.is_default {
                // Without this, the limit would apply only once the machine's swap is full. Some kernels lack the file.
                let _ = set("memory.swap.max", 0);
            }
        }
        if let Some(tasks) = limits.tasks_max.max.filter(|_| self.enforced.contains(&LimitKey::TasksMax)) {
            set("pids.max", tasks + supervisors)?;
        }
        if self.enforced.contains(&LimitKey::CpuWeight) {
            set("cpu.weight", limits.cpu_weight)?;
        }
        Ok(made)
    }
}

/// Why there can be no cgroup for a server, if this system has the controllers in a hierarchy of version 1.
pub(super) fn version_1() -> Option<&'static str> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut controllers = text.lines().filter_map(|line| line.split(':').nth(1)).flat_map(|list| list.split(','));
    controllers
        .any(|one| one == LimitKey::MemoryMax.controller() || one == LimitKey::TasksMax.controller())
        .then_some("this system has cgroup v1, which is not delegated")
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
