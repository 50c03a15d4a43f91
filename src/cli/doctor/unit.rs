//! The unit of systemd's that keeps the daemon, where there is one.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::finding::{Finding, Group};
use super::probe::DaemonProbe;
use crate::cli::RESTART;
use crate::cli::service::lasting;
use crate::cli::service_env::references;
use crate::config::Loaded;
use crate::config::interpolate::Sources;
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, SERVICE, SOCKET, Systemctl, SystemctlError};

/// For the service manager to say what it knows.
const ANSWER: Duration = Duration::from_secs(3);
/// What is to be known of the daemon's unit.
const PROPERTIES: &str =
    "LoadState,UnitFileState,ActiveState,Result,StatusText,MainPID,NRestarts,NeedDaemonReload,WatchdogUSec";
/// Restarts of the daemon that are no accident.
const OFTEN: u32 = 3;
/// The command that has the unit's daemon use the login environment.
pub(super) const RELOAD_ENVIRONMENT: &str = "`mcpd reload --environment`";
/// Directories that are named.
const NAMED: usize = 5;

pub(super) async fn check(probe: &DaemonProbe, loaded: Option<&Loaded>) -> Group {
    let session = probe.directory.as_ref().and_then(RuntimeDir::session);
    let findings = match session {
        // A directory of its own is no unit's.
        None => Vec::new(),
        Some(session) => of_session(session, probe, loaded).await,
    };
    Group { title: "service", findings }
}

async fn of_session(session: &Path, probe: &DaemonProbe, loaded: Option<&Loaded>) -> Vec<Finding> {
    let manager = Systemctl::new(session);
    let without = "`mcpd connect` starts a daemon where an agent needs one";
    let (service, socket) =
        tokio::join!(manager.show(SERVICE, PROPERTIES, ANSWER), manager.show(SOCKET, PROPERTIES, ANSWER));
    let service = match service {
        Ok(service) => Unit(service),
        Err(SystemctlError::Absent) => return vec![Finding::fine("systemd", format!("is not installed; {without}"))],
        Err(error) => return vec![Finding::fine("systemd", format!("cannot be asked: {error}; {without}"))],
    };
    if matches!(service.get("LoadState"), "" | "not-found") {
        return vec![Finding::fine(SERVICE, format!("is not installed; {without}"))];
    }
    let socket = Unit(socket.unwrap_or_default());
    let mut findings = vec![active(&service, &socket)];
    findings.extend(enabled(&service, &socket));
    findings.extend(unsteady(&service));
    if service.main_process().is_some() {
        findings.extend(environment(probe, loaded).await);
    } else if let Some(report) = probe.report() {
        let found = format!("has not started the daemon that serves, process {}", report.pid);
        findings.push(Finding::warning(SERVICE, found, RESTART));
    }
    findings
}

/// What systemd says of a unit.
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
    let said = Some(service.get("StatusText")).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    match service.get("ActiveState") {
        "failed" => Finding::problem(
            SERVICE,
            format!("has failed ({}){said}", service.get("Result")),
            "`mcpd start`, which says why if it fails again",
        ),
        "active" => Finding::fine(SERVICE, format!("is active{said}")),
        state if socket.get("ActiveState") == "active" => {
            Finding::fine(SERVICE, format!("is {state}; its socket is listened on, and the first agent starts it"))
        }
        state => Finding::warning(SERVICE, format!("is {state}"), "`mcpd start`"),
    }
}

fn enabled(service: &Unit, socket: &Unit) -> Option<Finding> {
    let is_by_itself = service.is_enabled() || socket.is_enabled();
    (!is_by_itself).then(|| {
        let advice = format!("`systemctl --user enable {SERVICE}`");
        Finding::warning(SERVICE, "is not enabled: it does not start by itself when you log in", advice)
    })
}

fn unsteady(service: &Unit) -> Vec<Finding> {
    let mut findings = Vec::new();
    let restarts: u32 = service.get("NRestarts").parse().unwrap_or_default();
    if restarts >= OFTEN {
        let found = format!("systemd has had to start it again {restarts} times");
        let advice = format!("`journalctl --user --unit {SERVICE}` shows what it said before");
        findings.push(Finding::warning(SERVICE, found, advice));
    }
    if service.get("NeedDaemonReload") == "yes" {
        let found = "was changed on disk since systemd has read it";
        findings.push(Finding::warning(SERVICE, found, "`systemctl --user daemon-reload`"));
    }
    if matches!(service.get("WatchdogUSec"), "0" | "infinity") {
        let found = "has no watchdog: a daemon that hangs is not replaced";
        findings.push(Finding::warning(SERVICE, found, "add `WatchdogSec=30` to its [Service]"));
    }
    findings
}

/// What the login environment has, and the daemon lacks: directories on its `PATH`, and variables that the configuration refers to.
async fn environment(probe: &DaemonProbe, loaded: Option<&Loaded>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let daemons = probe.sources.var("PATH").filter(|_| probe.sources.is_daemons());
    let login = probe.login().await;
    let (Some(daemons), None) = (daemons, &login.trouble) else { return findings };
    let path = login.variables.get(OsStr::new("PATH")).map(|path| lasting(&path.to_string_lossy())).unwrap_or_default();
    let known: Vec<_> = std::env::split_paths(&daemons).collect();
    let news = std::env::split_paths(&path).filter(|entry| entry.is_dir() && !known.contains(entry));
    let news: Vec<_> = news.map(|entry| entry.display().to_string()).collect();
    if !news.is_empty() {
        let more = if news.len() > NAMED { ", …" } else { "" };
        let named = news[..news.len().min(NAMED)].join(", ");
        let found = format!("a login shell also looks in {named}{more}, and the daemon does not");
        findings.push(Finding::warning("PATH", found, RELOAD_ENVIRONMENT));
    }
    let has = |name: &String| login.variables.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
    let lacks = |name: &String| probe.sources.var(name).is_none_or(|value| value.is_empty());
    let names = loaded.map(references).unwrap_or_default();
    let names: Vec<_> = names.into_iter().filter(|name| name != "PATH" && has(name) && lacks(name)).collect();
    if !names.is_empty() {
        let found =
            format!("the login environment has {}, which servers need, and the daemon does not", names.join(", "));
        findings.push(Finding::warning("environment", found, RELOAD_ENVIRONMENT));
    }
    findings
}
