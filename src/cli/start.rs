//! `mcpd start`: starts the daemon.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::spinner::with_spinner;
use super::status::is_down;
use super::text::count;
use super::{FAILED, USAGE, admin_failure, fail, print};
use crate::admin::report::{Report, ServerReport, StateName};
use crate::admin::{self, AdminError};
use crate::autostart::{self, StartOutcome};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// Until a daemon that serves agents has to open its admin socket.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn run(directory: &RuntimeDir) -> ExitCode {
    let started = match with_spinner(|| "until the daemon serves".to_owned(), autostart::start(directory)).await {
        Ok(started) => started,
        Err(error) => return fail(if error.is_configuration() { USAGE } else { FAILED }, error),
    };
    let report = match status(directory).await {
        Ok(report) => report,
        Err(error) => return admin_failure(&error),
    };
    let (pid, servers) = (report.pid, servers(&report));
    print(match started {
        StartOutcome::AlreadyRunning => format!("already running: pid {pid}; {servers}\n"),
        StartOutcome::ByUnit => format!("started {SERVICE}: pid {pid}; {servers}\n"),
        StartOutcome::Detached(Some(log)) => format!("started: pid {pid}, log {}; {servers}\n", log.display()),
        StartOutcome::Detached(None) => format!("started: pid {pid}; {servers}\n"),
    })
}

/// How many servers are configured, starting and down.
fn servers(report: &Report) -> String {
    let count_of = |is_it: fn(&ServerReport) -> bool| report.servers.iter().filter(|server| is_it(server)).count();
    let starting = count_of(|server| !is_down(server) && server.state == StateName::Starting);
    let down = count_of(is_down);
    let mut text = format!("{} configured", count(report.servers.len(), "server"));
    if starting > 0 {
        text += &format!(", {starting} starting");
    }
    if down > 0 {
        text += &format!(", {down} down: `mcpd status` shows why");
    }
    text
}

/// The state of the daemon, which opens its admin socket last.
async fn status(directory: &RuntimeDir) -> Result<Report, AdminError> {
    let deadline = Instant::now() + ADMIN_TIMEOUT;
    loop {
        match admin::status(&directory.socket(ADMIN_SOCKET)).await {
            Err(AdminError::NotRunning(_)) if Instant::now() < deadline => sleep(RETRY_INTERVAL).await,
            status => return status,
        }
    }
}
