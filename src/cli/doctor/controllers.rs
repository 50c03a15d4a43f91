//! Whether the cgroup that systemd delegates to the daemon has the controllers that limits of servers need.

use std::fs;
use std::path::Path;

use super::finding::Finding;
use super::probe::{Change, DaemonProbe};
use super::unit::unit_setting;
use crate::cli::text::join_limited;
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

/// The first level that lacks controllers, and the limits that need them.
#[derive(Debug, PartialEq, Eq)]
struct Lack {
    level: Level,
    keys: Vec<LimitKey>,
}

impl Lack {
    /// `levels`: the controllers of each level, from the kernel down.
    fn of(levels: &[(Level, String)]) -> Option<Self> {
        let has = |controllers: &str, key: LimitKey| controllers.split_whitespace().any(|one| one == key.controller());
        levels.iter().find_map(|(level, controllers)| {
            let keys: Vec<_> = KEYS.into_iter().filter(|key| !has(controllers, *key)).collect();
            (!keys.is_empty()).then_some(Self { level: *level, keys })
        })
    }

    /// The lack of the running daemon, if its cgroup is delegated to it.
    fn of_daemon(probe: &DaemonProbe) -> Option<Self> {
        let process = probe.daemon.process()?;
        let unit = process.unit.as_deref().filter(|_| process.arguments.iter().any(|word| word == "--own-cgroup"))?;
        let cgroup = Path::new(ROOT).join(process.cgroup.as_ref()?);
        let mut above: Vec<_> = cgroup.ancestors().take_while(|path| path.starts_with(ROOT)).collect();
        above.reverse();
        let level = |path: &Path| match path.file_name()?.to_str()? {
            _ if path == Path::new(ROOT) => Some(Level::Kernel),
            name if name == unit => Some(Level::Unit),
            name if name.starts_with(MANAGER) => Some(Level::Manager),
            _ => None,
        };
        let read = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
        let levels: Vec<_> = above.into_iter().filter_map(|path| Some((level(path)?, read(path)?))).collect();
        Self::of(&levels)
    }

    fn found(&self) -> String {
        let quoted = |name: fn(&LimitKey) -> &'static str| -> String {
            let names: Vec<_> = self.keys.iter().map(|key| format!("`{}`", name(key))).collect();
            join_limited(&names, KEYS.len())
        };
        let (controllers, settings) = (quoted(|key| key.controller()), quoted(|key| key.name()));
        let owner = match self.level {
            Level::Kernel => "the kernel offers",
            Level::Manager => "your service manager has",
            Level::Unit => "its cgroup has",
        };
        let (s, are) = if self.keys.len() == 1 { ("", "is") } else { ("s", "are") };
        format!("{owner} no controller{s} {controllers}, so {settings} of servers {are} not enforced")
    }

    fn advice(&self, probe: &DaemonProbe, unit: &str) -> String {
        let restart = probe.after(Change::Program, "");
        match self.level {
            Level::Kernel => {
                let options: Vec<_> =
                    self.keys.iter().map(|key| format!("cgroup_enable={}", key.controller())).collect();
                format!(
                    "add `{}` to the kernel's command line and reboot; in a container, give the container these controllers",
                    options.join(" ")
                )
            }
            Level::Manager => format!(
                "`sudo systemctl edit user@.service`, add the lines `[Service]` and `{DELEGATE}`; then log out of all sessions, and in again"
            ),
            Level::Unit => format!("{}, then {restart}", unit_setting(unit, DELEGATE)),
        }
    }
}

/// What is missing, and how to add it.
pub(super) fn check(probe: &DaemonProbe) -> Option<Finding> {
    let lack = Lack::of_daemon(probe)?;
    let unit = probe.daemon.process()?.unit.as_deref()?;
    Some(Finding::warning("cgroup", lack.found(), lack.advice(probe, unit)))
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
            (
                "cpu pids",
                "cpu pids",
                "cpu pids",
                Some((
                    Kernel,
                    &[memory][..],
                    "the kernel offers no controller `memory`, so `memory_max` of servers is not enforced",
                )),
            ),
            (
                all,
                "memory pids",
                "memory pids",
                Some((
                    Manager,
                    &[cpu],
                    "your service manager has no controller `cpu`, so `cpu_weight` of servers is not enforced",
                )),
            ),
            (
                all,
                all,
                "",
                Some((
                    Unit,
                    &[memory, tasks, cpu],
                    "its cgroup has no controllers `memory`, `pids`, `cpu`, so `memory_max`, `tasks_max`, `cpu_weight` of servers are not enforced",
                )),
            ),
        ] {
            let levels = [(Kernel, kernel.to_owned()), (Manager, manager.to_owned()), (Unit, unit.to_owned())];
            let lack = Lack::of(&levels);
            let found = lack.as_ref().map(|lack| (lack.level, &lack.keys[..]));
            assert_eq!(found, expected.map(|(level, keys, _)| (level, keys)), "{kernel}; {manager}; {unit}");
            assert_eq!(lack.map(|lack| lack.found()), expected.map(|(.., text)| text.to_owned()));
        }
    }
}
