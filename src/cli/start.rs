//! `mcpd start`: starts the daemon.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::spinner::with_spinner;
use super::text::count;
use super::{FAILED, USAGE, admin_failure, fail, print};
use crate::admin::report::Report;
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
    let daemon = match status(directory).await {
        Ok(report) => format!("pid {}, {}", report.pid, count(report.servers.len(), "server")),
        Err(error) => return admin_failure(&error),
    };
    print(match started {
        StartOutcome::AlreadyRunning => format!("already running: {daemon}\n"),
        StartOutcome::ByUnit => format!("started {SERVICE}: {daemon}\n"),
        StartOutcome::Detached(Some(log)) => format!("started: {daemon}, log {}\n", log.display()),
        StartOutcome::Detached(None) => format!("started: {daemon}\n"),
    })
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
