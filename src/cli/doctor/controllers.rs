//! Whether the cgroup that systemd delegates to the daemon has the controllers that limits of servers need.

use std::fs;
use std::path::Path;

use super::finding::Finding;
use super::probe::{Change, DaemonProbe};
use super::unit::unit_setting;
use crate::server::LimitKey;

/// The mount point of cgroup v2 (systemd, `file-hierarchy`).
const ROOT: &str = "/sys/fs/cgroup";
const KEYS: [LimitKey; 3] = [LimitKey::MemoryMax, LimitKey::TasksMax, LimitKey::CpuWeight];
/// What delegates all of them.
const DELEGATE: &str = "Delegate=cpu memory pids";
/// The unit of a user's service manager.
const MANAGER: &str = "user@";

/// Who has to pass the controllers on. Each gets its own from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Kernel,
    Manager,
    Unit,
}

/// The first level that lacks controllers, and the limits that need them. `levels`: the controllers of each, from the kernel down.
fn lack(levels: &[(Level, String)]) -> Option<(Level, Vec<LimitKey>)> {
    levels.iter().find_map(|(level, controllers)| {
        let has = |key: &LimitKey| controllers.split_whitespace().any(|one| one == key.controller());
        let keys: Vec<_> = KEYS.into_iter().filter(|key| !has(key)).collect();
        (!keys.is_empty()).then_some((*level, keys))
    })
}

/// What the running daemon lacks, if its cgroup is delegated to it, and how to add that.
pub(super) fn check(probe: &DaemonProbe) -> Option<Finding> {
    let process = probe.daemon.process()?;
    let unit = process.unit.as_deref().filter(|_| process.arguments.iter().any(|word| word == "--own-cgroup"))?;
    let cgroup = Path::new(ROOT).join(process.cgroup.as_ref()?);
    let level = |path: &Path| match path.file_name()?.to_str()? {
        _ if path == Path::new(ROOT) => Some(Level::Kernel),
        name if name == unit => Some(Level::Unit),
        name => name.starts_with(MANAGER).then_some(Level::Manager),
    };
    let read = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
    let mut levels: Vec<_> = cgroup.ancestors().filter_map(|path| Some((level(path)?, read(path)?))).collect();
    levels.reverse();
    let (level, keys) = lack(&levels)?;
    let list = |word: &dyn Fn(&LimitKey) -> String| keys.iter().map(word).collect::<Vec<_>>();
    let (owner, advice) = match level {
        Level::Kernel => {
            let options = list(&|key| format!("cgroup_enable={}", key.controller())).join(" ");
            let advice =
                "to the kernel's command line and reboot; in a container, give the container these controllers";
            ("the kernel", format!("add `{options}` {advice}"))
        }
        Level::Manager => {
            let edit = "`sudo systemctl edit user@.service`, add the lines `[Service]` and";
            ("your service manager", format!("{edit} `{DELEGATE}`; then end all sessions of yours, and log in"))
        }
        Level::Unit => {
            ("its cgroup", format!("{}, then {}", unit_setting(unit, DELEGATE), probe.after(Change::Program, "")))
        }
    };
    let controllers = list(&|key| format!("`{}`", key.controller())).join(", ");
    let settings = list(&|key| format!("`{}`", key.name())).join(", ");
    let found = format!("{owner} has no controller {controllers}: servers have no {settings}");
    Some(Finding::warning("cgroup", found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_level_without_a_controller_has_to_add_it() {
        use Level::{Kernel, Manager, Unit};
        let (memory, tasks, cpu) = (LimitKey::MemoryMax, LimitKey::TasksMax, LimitKey::CpuWeight);
        let all = "cpuset cpu io memory pids";
        for (kernel, manager, unit, expected) in [
            (all, "cpu memory pids", "cpu memory pids", None),
            ("cpu pids", "cpu pids", "cpu pids", Some((Kernel, vec![memory]))),
            (all, "memory pids", "memory pids", Some((Manager, vec![cpu]))),
            (all, all, "", Some((Unit, vec![memory, tasks, cpu]))),
        ] {
            let levels = [(Kernel, kernel.to_owned()), (Manager, manager.to_owned()), (Unit, unit.to_owned())];
            assert_eq!(lack(&levels), expected, "{kernel}; {manager}; {unit}");
        }
    }
}
