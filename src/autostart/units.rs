//! mcpd's systemd units: reads their state, starts and stops them.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::outcome::AutostartError;
use crate::sockets::RuntimeDir;
use crate::systemctl::{Properties, SERVICE, SOCKET, Systemctl, SystemctlError};

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Until a unit that starts or stops has to reach its final state.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
const PROFILE_SOCKETS: &str = "mcpd@*.socket";
const PROPERTIES: &str = "LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,StatusText,MainPID";

/// `CLD_EXITED` in `ExecMainCode`. Source: waitid(2).
const EXITED: &str = "1";
/// Failures of systemd before it executed the program, by exit code. Source: systemd.exec(5), "Process Exit Codes".
const SETUP_FAILURES: [(u16, &str); 16] = [
    (200, "systemd could not change to its working directory"),
    (203, "systemd could not execute its program; run `mcpd service install` again"),
    (204, "systemd had no memory to start it"),
    (205, "systemd could not set its limits"),
    (208, "systemd could not set up its standard input"),
    (209, "systemd could not set up its standard output"),
    (217, "systemd could not set up its user (PrivateUsers=)"),
    (218, "systemd could not drop its capabilities (CapabilityBoundingSet=)"),
    (219, "systemd could not put it into its cgroup"),
    (222, "systemd could not set up its standard error"),
    (226, "systemd could not set up its mount namespace (settings about files, such as ProtectSystem=)"),
    (227, "systemd could not set NoNewPrivileges="),
    (228, "systemd could not install its filter of system calls (SystemCallFilter=)"),
    (236, "systemd could not set the executable's security label"),
    (240, "systemd could not set up its state directory"),
    (243, "systemd could not load its credentials (LoadCredential=)"),
];

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
fn property<'p>(unit: &'p Properties, name: &str) -> &'p str {
    unit.get(name).map_or("", String::as_str)
}

/// Why the unit has failed: the daemon's status text if it set one before it exited, else by systemd's properties. Source:
/// systemd.service(5), `Result=`.
fn failure(service: &Properties) -> String {
    let status = property(service, "ExecMainStatus");
    let text = property(service, "StatusText");
    match (property(service, "ExecMainCode"), status.parse::<u16>()) {
        // With other exit codes the status text is still the last summary of servers.
        (EXITED, Ok(1 | 2 | 4)) if !text.is_empty() => text.to_owned(),
        (EXITED, Ok(code)) => match SETUP_FAILURES.iter().find(|(known, _)| *known == code) {
            Some((_, sentence)) => (*sentence).to_owned(),
            None => format!("it exited with code {code} ({})", property(service, "Result")),
        },
        (_, Ok(signal @ 1..)) => format!("it was ended by signal {signal} ({})", property(service, "Result")),
        _ => format!("systemd says `{}`", property(service, "Result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_the_daemons_status_text_or_else_how_it_ended() {
        let check = |[code, status, result, text]: [&str; 4], expected: &str| {
            let pairs = [("ExecMainCode", code), ("ExecMainStatus", status), ("Result", result), ("StatusText", text)];
            let unit = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(failure(&unit), expected);
        };
        let status_text = "unknown key `deamon` --> config.toml:1:2";
        check(["1", "2", "exit-code", status_text], status_text);
        check(["1", "2", "start-limit-hit", status_text], status_text);
        check(["1", "2", "exit-code", ""], "it exited with code 2 (exit-code)");
        check(["2", "9", "watchdog", "2 servers ready; 1 agent"], "it was ended by signal 9 (watchdog)");
        check(["1", "101", "exit-code", "2 servers ready; 1 agent"], "it exited with code 101 (exit-code)");
        check(["0", "0", "resources", ""], "systemd says `resources`");
        check(["1", "217", "exit-code", ""], "systemd could not set up its user (PrivateUsers=)");
    }
}
