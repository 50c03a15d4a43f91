//! `mcpd restart` without a server: restarts the daemon with the program that is installed now.
//!
//! First that program checks the configuration, in the daemon's environment. The daemon keeps its process and its sockets.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::daemon_report::{UNKNOWN_VERSION, installed_version, is_replaced};
use super::doctor::probe::DaemonProbe;
use super::outcome::print_report;
use super::terminal::with_spinner;
use super::text::short_duration;
use super::{CommandResult, FAILED, RESTART, USAGE, admin_failure, fail, print};
use crate::admin::report::{ProgramReport, Report};
use crate::admin::{self, AdminError};
use crate::autostart;
use crate::duration;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// The option of `mcpd check` that a program without handover refuses.
const SUCCESSOR: &str = "--successor";
/// How this program passes on its sockets.
const FORMAT: &str = "1";
/// Until the new program has checked the configuration.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Until the new program serves.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// What is read of the output of a check. A program that writes more is ended by that.
const MAX_TEXT: u64 = 64 << 10;

/// The restarted daemon.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Whether it was restarted; `false` if `--if-replaced` was given and it runs the installed program.
    restarted: bool,
    /// Process id, which stays.
    pid: u32,
    /// Version of the daemon.
    version: &'a str,
    /// Version before.
    former_version: &'a str,
    /// Time from the order until the new program served, in milliseconds.
    took_ms: u64,
}

pub(super) async fn run(directory: &RuntimeDir, if_replaced: bool, as_json: bool) -> CommandResult {
    let socket = directory.socket(ADMIN_SOCKET);
    let former = admin::status(&socket).await.map_err(|error| admin_failure(&error))?;
    let Some(program) = &former.program else {
        let why = format!("the daemon is mcpd {}, which cannot restart itself: run {RESTART}", former.version);
        return Err(fail(FAILED, why));
    };
    if if_replaced && !is_replaced(program) {
        return Ok(show(&former, &former, None, as_json));
    }
    let probe = DaemonProbe::run(Some(directory.clone()), Vec::new(), &[]).await;
    check(program, &former, &probe).await?;
    let (began, activity) = (Instant::now(), || "until calls have ended and the new program serves".to_owned());
    let restarted = with_spinner(activity, restart(&socket, began)).await;
    match restarted {
        Ok(report) => Ok(show(&report, &former, Some(began.elapsed()), as_json)),
        Err(Failure::Refused(AdminError::Refused(why))) => Err(fail(FAILED, format!("not restarted: {why}"))),
        Err(Failure::Refused(error)) => Err(admin_failure(&error)),
        Err(Failure::Late) if is_alive(former.pid) => {
            let (path, limit) = (program.path.display(), duration::format(START_TIMEOUT));
            let why = format!("{path} runs as process {}, and does not serve after {limit}", former.pid);
            let next = "`mcpd status` shows whether it does later, `mcpd stop --force` ends it";
            Err(fail(FAILED, format!("{why}\n  {next}")))
        }
        Err(Failure::Late | Failure::Ended) => {
            let why = autostart::failure_of_unit(directory).await;
            let why = why.or_else(|| Some(format!("its log is {}", probe.log_file()?.display())));
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let next =
                if directory.is_given() { "" } else { "\n  the next agent that runs `mcpd connect` starts a daemon" };
            Err(fail(FAILED, format!("the daemon ended, and {} does not serve{why}{next}", program.path.display())))
        }
    }
}

/// Why the daemon was not restarted.
enum Failure {
    /// It accepts no such request.
    Refused(AdminError),
    /// No daemon listens any more.
    Ended,
    /// It does not serve in time.
    Late,
}

/// Whether the process still runs. Its id is not used again so soon.
fn is_alive(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or_default()
}

/// Has the installed program check the configuration.
///
/// # Errors
/// If it refuses; this is printed.
async fn check(program: &ProgramReport, former: &Report, probe: &DaemonProbe) -> Result<(), ExitCode> {
    let path = program.path.display();
    let mut command = probe.command(&program.path);
    command.args(["check", SUCCESSOR, FORMAT]);
    for file in &probe.files {
        command.arg("--config").arg(file);
    }
    for address in former.profiles.iter().filter_map(|profile| profile.http.as_deref()) {
        command.args(["--listening", address]);
    }
    let ended = timeout(CHECK_TIMEOUT, run_check(command));
    let (status, text) = match with_spinner(|| format!("until {path} has checked the configuration"), ended).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Err(fail(FAILED, format!("cannot run {path}: {error}; nothing has changed"))),
        Err(_) => return Err(fail(FAILED, format!("{path} does not end; nothing has changed"))),
    };
    if status.success() {
        return Ok(());
    }
    let version = installed_version(&program.path).await.unwrap_or_else(|| UNKNOWN_VERSION.to_owned());
    if text.contains(SUCCESSOR) {
        let why = format!("{path} is mcpd {version}, which cannot take over from a running daemon: run {RESTART}");
        return Err(fail(FAILED, why));
    }
    print_note!("{}", text.trim_end());
    let unchanged = format!("not restarted, nothing has changed: mcpd {version} at {path}");
    Err(match status.code() {
        Some(code) if code == i32::from(USAGE) => fail(USAGE, format!("{unchanged} refuses the configuration")),
        _ => fail(FAILED, format!("{unchanged} cannot continue for the running daemon; {RESTART} restarts it")),
    })
}

/// Runs a check. Returns its status, and the beginning of what it printed. Dropping the future ends it.
async fn run_check(mut command: Command) -> io::Result<(ExitStatus, String)> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MAX_TEXT).read_to_end(&mut text).await?;
    }
    Ok((child.wait().await?, String::from_utf8_lossy(&text).into_owned()))
}

/// Gives the order, and returns the report of the daemon that follows.
async fn restart(socket: &Path, began: Instant) -> Result<Report, Failure> {
    match admin::restart_daemon(socket).await {
        // The connection may end before its answer is written.
        Ok(_) | Err(AdminError::NoAnswer { .. }) => {}
        Err(error) => return Err(Failure::Refused(error)),
    }
    let deadline = Instant::now() + START_TIMEOUT;
    while Instant::now() < deadline {
        match admin::status(socket).await {
            Ok(report) if Duration::from_millis(report.uptime_ms) < began.elapsed() => return Ok(report),
            // Its sockets stay open during the restart.
            Err(AdminError::NotRunning(_)) => return Err(Failure::Ended),
            _ => sleep(POLL_INTERVAL).await,
        }
    }
    Err(Failure::Late)
}

/// Prints what has changed.
fn show(now: &Report, former: &Report, took: Option<Duration>, as_json: bool) -> ExitCode {
    let (Report { pid, version, .. }, former_version) = (now, &*former.version);
    if as_json {
        let took_ms = took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        return print_report(&JsonReport { restarted: took.is_some(), pid: *pid, version, former_version, took_ms });
    }
    print(match took {
        None => format!("mcpd {version} runs, and is the installed program: pid {pid}\n"),
        Some(took) => {
            let was = if version == former_version { String::new() } else { format!(" (was {former_version})") };
            format!(
                "restarted: mcpd {version}{was}, pid {pid}, in {}\n",
                short_duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
            )
        }
    })
}
