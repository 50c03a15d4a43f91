//! The systemd unit of the daemon, and the controllers that systemd delegates to its cgroup for the limits of servers.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::finding::{Finding, Group};
use super::probe::{Change, DaemonProbe, RELOAD_ENVIRONMENT};
use crate::cli::RESTART;
use crate::cli::service_env::{lasting, references};
use crate::config::LoadedConfig;
use crate::config::interpolate::Sources;
use crate::server::LimitKey;
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, SERVICE, SOCKET, Systemctl, SystemctlError};

const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(3);
const PROPERTIES: &str =
    "LoadState,UnitFileState,ActiveState,SubState,Result,StatusText,MainPID,NRestarts,NeedDaemonReload,WatchdogUSec";
/// Restarts of the daemon from which on a finding reports them.
const MANY_RESTARTS: u32 = 3;
/// Directories that a finding names.
const MAX_NAMED: usize = 5;

pub(super) async fn check(probe: &DaemonProbe, loaded: Option<&LoadedConfig>) -> Group {
    let session = probe.directory.as_ref().and_then(RuntimeDir::session);
    let findings = match session {
        // No unit serves in a directory given by `--runtime-dir`.
        None => Vec::new(),
        Some(session) => check_units(session, probe, loaded).await,
    };
    Group { title: "service", findings }
}

async fn check_units(session: &Path, probe: &DaemonProbe, loaded: Option<&LoadedConfig>) -> Vec<Finding> {
    let manager = Systemctl::new(session);
    let without = "it is not required: `mcpd connect` starts a daemon when an agent needs one";
    let (service, socket) = tokio::join!(
        manager.show(SERVICE, PROPERTIES, SYSTEMCTL_TIMEOUT),
        manager.show(SOCKET, PROPERTIES, SYSTEMCTL_TIMEOUT)
    );
    let service = match service {
        Ok(service) => Unit(service),
        Err(SystemctlError::Absent) => return vec![Finding::fine("systemd", format!("is not installed; {without}"))],
        Err(error) => {
            return vec![Finding::fine("systemd", format!("there is no user service manager ({error}); {without}"))];
        }
    };
    if matches!(service.get("LoadState"), "" | "not-found") {
        return vec![Finding::fine(SERVICE, format!("is not installed; {without}"))];
    }
    let socket = Unit(socket.unwrap_or_default());
    let mut findings = vec![active(&service, &socket)];
    findings.extend(enabled(&service, &socket));
    findings.extend(unit_warnings(&service));
    if service.main_process().is_some() {
        findings.extend(environment(probe, loaded).await);
    } else if let Some(report) = probe.report() {
        let found = format!("did not start the running daemon, process {}", report.pid);
        findings.push(Finding::warning(SERVICE, found, format!("{RESTART}, which starts it by systemd")));
    }
    findings
}

struct Unit(Properties);

impl Unit {
    fn get(&self, property: &str) -> &str {
        self.0.get(property).map_or("", String::as_str)
    }

    fn is_enabled(&self) -> bool {
        self.get("UnitFileState").starts_with("enabled")
    }

    fn main_process(&self) -> Option<u32> {
        self.get("MainPID").parse().ok().filter(|pid| *pid > 0)
    }
}

fn active(service: &Unit, socket: &Unit) -> Finding {
    let status = Some(service.get("StatusText")).filter(|text| !text.is_empty());
    let status = status.map(|text| format!(": {text}")).unwrap_or_default();
    let is_to_restart = service.get("SubState").starts_with("auto-restart");
    match service.get("ActiveState") {
        state if state == "failed" || is_to_restart => Finding::problem(
            SERVICE,
            format!("has failed ({}){status}", service.get("Result")),
            "`mcpd start`, which prints the reason if it fails again",
        ),
        "active" => Finding::fine(SERVICE, format!("is active{status}")),
        state if socket.get("ActiveState") == "active" => {
            Finding::fine(SERVICE, format!("is {state}; systemd listens on its socket, and the first agent starts it"))
        }
        state => Finding::warning(SERVICE, format!("is {state}"), "`mcpd start`"),
    }
}

fn enabled(service: &Unit, socket: &Unit) -> Option<Finding> {
    let is_enabled = service.is_enabled() || socket.is_enabled();
    (!is_enabled).then(|| {
        let advice = format!("`systemctl --user enable {SERVICE}`");
        Finding::warning(SERVICE, "is not enabled, so it does not start when you log in", advice)
    })
}

/// How to add a setting to the `[Service]` section of a unit.
pub(super) fn unit_setting(unit: &str, setting: &str) -> String {
    format!("`systemctl --user edit {unit}`, add the lines `[Service]` and `{setting}`")
}

fn unit_warnings(service: &Unit) -> Vec<Finding> {
    let mut findings = Vec::new();
    let restarts: u32 = service.get("NRestarts").parse().unwrap_or_default();
    if restarts >= MANY_RESTARTS {
        let found = format!("systemd restarted it {restarts} times");
        let advice = format!("`journalctl --user --unit {SERVICE}` shows its log");
        findings.push(Finding::warning(SERVICE, found, advice));
    }
    if service.get("NeedDaemonReload") == "yes" {
        let found = "was changed on disk after systemd read it";
        findings.push(Finding::warning(SERVICE, found, "`systemctl --user daemon-reload`"));
    }
    if matches!(service.get("WatchdogUSec"), "0" | "infinity") {
        let found = "has no watchdog, so systemd does not replace a daemon that hangs";
        findings.push(Finding::warning(
            SERVICE,
            found,
            format!("{}, then {RESTART}", unit_setting(SERVICE, "WatchdogSec=30")),
        ));
    }
    findings
}

/// Finds directories of the login environment's `PATH`, and variables for the configuration, that the daemon lacks.
async fn environment(probe: &DaemonProbe, loaded: Option<&LoadedConfig>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let daemons = probe.sources.var("PATH").filter(|_| probe.sources.is_daemons());
    let login = probe.login().await;
    let (Some(daemons), None) = (daemons, &login.trouble) else { return findings };
    let path = login.variables.get(OsStr::new("PATH")).map(|path| lasting(&path.to_string_lossy())).unwrap_or_default();
    let known: Vec<_> = std::env::split_paths(&daemons).collect();
    let missing = std::env::split_paths(&path).filter(|entry| entry.is_dir() && !known.contains(entry));
    let missing: Vec<_> = missing.map(|entry| entry.display().to_string()).collect();
    if !missing.is_empty() {
        let more = if missing.len() > MAX_NAMED { ", …" } else { "" };
        let named = missing[..missing.len().min(MAX_NAMED)].join(", ");
        let found = format!("a login shell also looks in {named}{more}, but the daemon does not");
        findings.push(Finding::warning("PATH", found, RELOAD_ENVIRONMENT));
    }
    let has = |name: &String| login.variables.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
    let lacks = |name: &String| probe.sources.var(name).is_none_or(|value| value.is_empty());
    let names = loaded.map(references).unwrap_or_default();
    let names: Vec<_> = names.into_iter().filter(|name| name != "PATH" && has(name) && lacks(name)).collect();
    if !names.is_empty() {
        let found =
            format!("the login environment has {}, which servers need, but the daemon does not", names.join(", "));
        findings.push(Finding::warning("environment", found, RELOAD_ENVIRONMENT));
    }
    findings
}

/// The mount point of cgroup v2 (systemd, `file-hierarchy`).
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
const LIMITS: [LimitKey; 3] = [LimitKey::MemoryMax, LimitKey::TasksMax, LimitKey::CpuWeight];
/// What delegates all of them.
const DELEGATE: &str = "Delegate=cpu memory pids";
/// The unit of a user's service manager.
const MANAGER_PREFIX: &str = "user@";

/// Who has to pass the controllers on. Each gets its own from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Kernel,
    Manager,
    Unit,
}

/// The first level that lacks controllers, and the limits that need them. `levels`: the controllers of each, from the kernel down.
fn lacking(levels: &[(Level, String)]) -> Option<(Level, Vec<LimitKey>)> {
    levels.iter().find_map(|(level, controllers)| {
        let has = |key: &LimitKey| controllers.split_whitespace().any(|one| one == key.controller());
        let keys: Vec<_> = LIMITS.into_iter().filter(|key| !has(key)).collect();
        (!keys.is_empty()).then_some((*level, keys))
    })
}

/// What the running daemon lacks, if its cgroup is delegated to it, and how to add that.
pub(super) fn controllers(probe: &DaemonProbe) -> Option<Finding> {
    let process = probe.daemon.process()?;
    let unit = process.unit.as_deref().filter(|_| process.arguments.iter().any(|word| word == "--own-cgroup"))?;
    let cgroup = Path::new(CGROUP_ROOT).join(process.cgroup.as_ref()?);
    let level = |path: &Path| match path.file_name()?.to_str()? {
        _ if path == Path::new(CGROUP_ROOT) => Some(Level::Kernel),
        name if name == unit => Some(Level::Unit),
        name => name.starts_with(MANAGER_PREFIX).then_some(Level::Manager),
    };
    let read = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
    let mut levels: Vec<_> = cgroup.ancestors().filter_map(|path| Some((level(path)?, read(path)?))).collect();
    levels.reverse();
    let (level, keys) = lacking(&levels)?;
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
            assert_eq!(lacking(&levels), expected, "{kernel}; {manager}; {unit}");
        }
    }
}
