//! `mcpd start`: starts the daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::outcome::print_report;
use super::status::is_down;
use super::terminal::with_spinner;
use super::text::count;
use super::{CommandResult, FAILED, USAGE, admin_failure, fail, print};
use crate::admin::report::{Report, ServerReport, StateName};
use crate::admin::{self, AdminError};
use crate::autostart::{self, AutostartError, StartOptions, StartOutcome};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;

/// Until a daemon that serves agents has to open its admin socket.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub(super) struct Start {
    /// Configuration file: TOML, or JSON with `mcpServers`; repeatable [default: as for `mcpd serve`]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The shape of `--json`.
#[derive(Serialize)]
struct Shape<'a> {
    pid: u32,
    already_running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'a Path>,
}

pub(super) async fn run(directory: &RuntimeDir, Start { config, json: as_json }: &Start) -> CommandResult {
    let options = StartOptions { config: config.clone(), path: std::env::var_os("PATH"), while_used: false };
    let activity = || "until the daemon serves".to_owned();
    let started = with_spinner(activity, autostart::start(directory, &options)).await.map_err(failed_start)?;
    let report = status(directory).await.map_err(|error| admin_failure(&error))?;
    if started == StartOutcome::AlreadyRunning && !config.is_empty() && !is_configured_by(&report, config) {
        let files: Vec<_> = report.files.iter().map(|file| &*file.path).collect();
        let running =
            format!("a daemon with another configuration is running: pid {}; {}", report.pid, files.join(", "));
        return Err(fail(FAILED, format!("{running}\n  help: `mcpd stop` stops it")));
    }
    let (pid, servers) = (report.pid, servers(&report));
    if *as_json {
        let log = if let StartOutcome::Detached(log) = &started { log.as_deref() } else { None };
        let already_running = started == StartOutcome::AlreadyRunning;
        return Ok(print_report(&Shape { pid, already_running, log }));
    }
    Ok(print(match started {
        StartOutcome::AlreadyRunning => format!("already running: pid {pid}; {servers}\n"),
        StartOutcome::ByUnit => format!("started {SERVICE}: pid {pid}; {servers}\n"),
        StartOutcome::Detached(Some(log)) => format!("started: pid {pid}, log {}; {servers}\n", log.display()),
        StartOutcome::Detached(None) => format!("started: pid {pid}; {servers}\n"),
    }))
}

/// Prints why the daemon is not started.
pub(super) fn failed_start(error: AutostartError) -> ExitCode {
    fail(if error.is_configuration() { USAGE } else { FAILED }, error)
}

/// Whether the daemon uses exactly these files.
fn is_configured_by(report: &Report, files: &[PathBuf]) -> bool {
    let used = report.files.iter().map(|file| PathBuf::from(&file.path));
    used.eq(files.iter().filter_map(|file| std::path::absolute(file).ok()))
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
