//! mcpd's systemd units: reads their state, starts and stops them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::AutostartError;
use super::failure::failure;
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, SERVICE, SOCKET, Systemctl, SystemctlError};

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Until a unit that starts or stops has to reach its final state.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
const PROFILE_SOCKETS: &str = "mcpd@*.socket";
const PROPERTIES: &str = "LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,StatusText,MainPID";

/// State of mcpd's units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnitState {
    /// The service runs, starts or stops. The text is systemd's word for it.
    Running(String),
    /// The service or its socket has failed, for this reason.
    Failed(String),
    /// systemd listens on the socket and starts the service for the first agent.
    SocketActivated,
    /// Neither the service nor its socket runs.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Units<'a> {
    manager: Systemctl<'a>,
    service: Properties,
    socket: Properties,
}

impl<'a> Units<'a> {
    /// The units of the login session of `directory`. `None` without systemd or without `mcpd.service`.
    pub(crate) async fn find(directory: &'a RuntimeDir) -> Option<Self> {
        let manager = Systemctl::new(directory.session()?);
        let service = manager.show(SERVICE, PROPERTIES, QUERY_TIMEOUT).await.ok()?;
        if matches!(property(&service, "LoadState"), "" | "not-found") {
            return None;
        }
        let socket = manager.show(SOCKET, PROPERTIES, QUERY_TIMEOUT).await.unwrap_or_default();
        Some(Self { manager, service, socket })
    }

    /// Waits for the end of a start or stop in progress, at most [`SETTLE_TIMEOUT`]. systemd repeats failed starts, and a start in
    /// progress has no reason yet.
    pub(crate) async fn settle(mut self) -> Self {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            self.service = self.manager.show(SERVICE, PROPERTIES, QUERY_TIMEOUT).await.unwrap_or_default();
            let is_changing = matches!(property(&self.service, "ActiveState"), "activating" | "deactivating");
            if !is_changing || is_to_restart(&self.service) || Instant::now() >= deadline {
                return self;
            }
            sleep(SETTLE_INTERVAL).await;
        }
    }

    pub(crate) fn state(&self) -> UnitState {
        match (property(&self.service, "ActiveState"), property(&self.socket, "ActiveState")) {
            ("failed", _) => UnitState::Failed(failure(&self.service)),
            _ if is_to_restart(&self.service) => UnitState::Failed(failure(&self.service)),
            ("inactive", "failed") => UnitState::Failed(format!("{SOCKET}: {}", property(&self.socket, "Result"))),
            ("inactive", "active") => UnitState::SocketActivated,
            ("inactive" | "", _) => UnitState::Stopped,
            (word, _) => UnitState::Running(word.to_owned()),
        }
    }

    /// Starts the daemon with the enabled sockets, and returns once it serves.
    ///
    /// Resets start limits first, which units of earlier versions have: starts that failed before the configuration was corrected do not
    /// prevent this one.
    ///
    /// # Errors
    /// [`AutostartError::Unit`] with the reason from the daemon or systemd.
    pub(super) async fn start(self, limit: Duration) -> Result<(), AutostartError> {
        let mut units = match self.state() {
            // systemd opens no socket for a service that runs.
            UnitState::Running(_) => Vec::new(),
            _ => self.enabled_sockets().await,
        };
        units.push(SERVICE.to_owned());
        self.reset_failed(&units).await;
        match self.run("start", &units, limit).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Stops the daemon and all its sockets. `force` does not wait for calls. Returns the units that were active.
    ///
    /// # Errors
    /// If systemd refuses or exceeds `limit`.
    pub(super) async fn stop(&self, force: bool, limit: Duration) -> Result<Vec<String>, SystemctlError> {
        let active = self.active().await?;
        if active.is_empty() {
            return Ok(active);
        }
        if force {
            // Without a stop job systemd would restart the killed daemon.
            self.run("--no-block stop", &active, QUERY_TIMEOUT).await?;
            let _ = self.manager.run(&["kill", "--signal=SIGKILL", SERVICE], QUERY_TIMEOUT).await;
        }
        self.run("stop", &active, limit).await?;
        Ok(active)
    }

    /// The units that run, listen, start, stop, or wait for their next start.
    async fn active(&self) -> Result<Vec<String>, SystemctlError> {
        let states = "--state=active,activating,reloading,refreshing,deactivating";
        let arguments = ["list-units", "--plain", "--no-legend", states, SERVICE, SOCKET, PROFILE_SOCKETS];
        let listed = self.manager.run(&arguments, QUERY_TIMEOUT).await?;
        Ok(listed.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
    }

    /// The sockets of mcpd that systemd opens at each login.
    async fn enabled_sockets(&self) -> Vec<String> {
        let target = self.manager.show("sockets.target", "Wants", QUERY_TIMEOUT).await.unwrap_or_default();
        let units = property(&target, "Wants").split_whitespace();
        let is_ours = |unit: &&str| *unit == SOCKET || unit.starts_with("mcpd@") && unit.ends_with(".socket");
        units.filter(is_ours).map(str::to_owned).collect()
    }

    async fn reset_failed(&self, units: &[String]) {
        // This fails for a unit that systemd has not loaded. Such a unit has no limit to reset.
        for unit in units {
            let _ = self.manager.run(&["reset-failed", unit], QUERY_TIMEOUT).await;
        }
    }

    async fn run(&self, words: &str, units: &[String], limit: Duration) -> Result<(), SystemctlError> {
        let arguments: Vec<_> = words.split(' ').chain(units.iter().map(String::as_str)).collect();
        self.manager.run(&arguments, limit).await.map(drop)
    }

    /// Replaces systemd's reason by the daemon's own, which is more specific.
    async fn explain(self, error: SystemctlError) -> AutostartError {
        let service = self.settle().await.service;
        let has_failed = property(&service, "ActiveState") == "failed" || is_to_restart(&service);
        let why = if has_failed { failure(&service) } else { error.to_string() };
        AutostartError::Unit { why, is_configuration: has_failed && property(&service, "ExecMainStatus") == "2" }
    }
}

/// Whether the unit has failed and systemd will restart it after a delay.
fn is_to_restart(service: &Properties) -> bool {
    property(service, "SubState").starts_with("auto-restart")
}

/// A property of a unit; empty if unknown.
pub(super) fn property<'p>(unit: &'p Properties, name: &str) -> &'p str {
    unit.get(name).map_or("", String::as_str)
}
