//! The report of the daemon, with the configuration files that have changed on disk since the daemon read them.
//!
//! This program compares the files, because a disk may hang and the daemon must not wait for it. `mcpd top` and `mcpd status --watch` read the
//! report once a second, and again when the daemon has restarted.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::style::{OutputStyle, Tone};
use super::text::{join_limited, one_line, short_duration, wrap};
use super::{FAILED, admin_failure};
use crate::admin::report::{FileReport, ProgramReport, Report};
use crate::admin::{self, AdminError};
use crate::config;
use crate::config::interpolate::Process;

pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// One report or error for each poll.
pub(super) type Reports = mpsc::Receiver<Result<Report, AdminError>>;

/// The last report, and whether the daemon still answers.
pub(super) struct LatestReport {
    pub(super) report: Report,
    /// Since when the daemon does not answer, and the latest error.
    outage: Option<(Instant, String)>,
}

impl LatestReport {
    /// Waits for the first report.
    ///
    /// # Errors
    /// If no daemon answers. The error is printed.
    pub(super) async fn first(reports: &mut Reports) -> Result<Self, ExitCode> {
        match reports.recv().await {
            Some(Ok(report)) => Ok(Self { report, outage: None }),
            Some(Err(error)) => Err(admin_failure(&error)),
            None => Err(ExitCode::from(FAILED)),
        }
    }

    pub(super) fn update(&mut self, result: Result<Report, AdminError>) {
        match result {
            Ok(report) => (self.report, self.outage) = (report, None),
            Err(error) => {
                let since = self.outage.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                self.outage = Some((since, error.to_string()));
            }
        }
    }

    /// The notice above an outdated report; empty while the daemon answers.
    pub(super) fn outage_notice(&self, style: OutputStyle) -> String {
        let Some((since, error)) = &self.outage else { return String::new() };
        let elapsed = short_duration(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let notice = format!("{} – retrying for {elapsed}; the last known state is shown below", one_line(error));
        format!("{} {}\n\n", style.paint(Tone::Bad, "✗"), wrap(&notice, 2, 4, style.width()))
    }
}

/// Starts polling. It ends when the receiver is dropped, and waits while a report is not taken.
pub(super) fn poll(socket: PathBuf) -> Reports {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let report = admin::status(&socket).await;
            if sender.send(report).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Until a program has to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const UNKNOWN_VERSION: &str = "an unknown version";

/// Adds the version of the program that has replaced the daemon's, if one has.
pub(super) async fn with_installed_version(mut report: Report) -> Report {
    if let Some(program) = report.program.as_mut().filter(|program| is_replaced(program)) {
        let version = installed_version(&program.path).await;
        program.installed = Some(version.unwrap_or_else(|| UNKNOWN_VERSION.to_owned()));
    }
    report
}

/// Whether another file is in the place of the daemon's program.
pub(super) fn is_replaced(ProgramReport { path, device, inode, .. }: &ProgramReport) -> bool {
    std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) != (*device, *inode))
}

/// The version that the program at `path` prints.
pub(super) async fn installed_version(path: &Path) -> Option<String> {
    let printed =
        Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let printed = timeout(VERSION_TIMEOUT, printed).await.ok()?.ok()?;
    let text = String::from_utf8(printed.stdout).ok()?;
    Some(one_line(text.trim().strip_prefix("mcpd ")?))
}

/// What has replaced the daemon's program; `None` if nothing has.
pub(super) fn replacement(report: &Report) -> Option<String> {
    let program = report.program.as_ref()?;
    let (installed, path) = (program.installed.as_ref()?, program.path.display());
    let other = if *installed == report.version { "another build of it" } else { &format!("mcpd {installed}") };
    Some(format!("the daemon runs mcpd {}, and {path} is {other} now", report.version))
}

const MAX_NAMED: usize = 3;

/// Adds the changed files to the report, for the configuration in use and for a refused one.
pub(super) fn with_changed_files(mut report: Report) -> Report {
    report.files_changed = changed(&report.files);
    if let Some(refused) = &mut report.reload_refused {
        refused.files_changed = changed(&refused.files);
    }
    report
}

fn changed(files: &[FileReport]) -> Vec<String> {
    let has_changed = |file: &&FileReport| config::changed(Path::new(&file.path), file.sha256.as_deref(), &Process);
    files.iter().filter(has_changed).map(|file| file.path.clone()).collect()
}

/// "FILE has changed", as the beginning of a sentence; `None` without files.
pub(super) fn changed_sentence(files: &[String]) -> Option<String> {
    let verb = match files.len() {
        0 => return None,
        1 => "has",
        _ => "have",
    };
    Some(format!("{} {verb} changed", join_limited(files, MAX_NAMED)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_shows_the_latest_reason_why_the_daemon_does_not_answer() {
        let report = serde_json::json!({"version": "1", "pid": 1, "uptime_ms": 1, "settled": true, "servers": [], "agents": [], "profiles": []});
        let mut latest = LatestReport { report: serde_json::from_value(report).expect("a report"), outage: None };
        let style = OutputStyle::of_width(80);
        latest.update(Err(AdminError::NoAnswer { path: "admin.sock".into(), reason: "connection reset".to_owned() }));
        latest.update(Err(AdminError::NotRunning("/run/admin.sock".into())));
        let text = latest.outage_notice(style);
        assert!(text.contains("not running") && !text.contains("does not answer"), "{text}");
    }
}
