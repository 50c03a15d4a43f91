//! Reads the status of the daemon once a second, for `mcpd top` and `mcpd status --watch`. It reconnects when the daemon restarts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::style::{OutputStyle, Tone};
use super::text::{one_line, short_duration, wrap};
use super::{FAILED, admin_failure};
use crate::admin::{self, AdminError, report::Report};

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
pub(super) fn start(socket: PathBuf) -> Reports {
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
