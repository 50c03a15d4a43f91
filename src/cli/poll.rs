//! The state of the daemon, once a second, for what is shown live. A daemon that is gone is looked for again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::style::{OutputStyle, Tone};
use super::text::{one_line, short_duration, wrap};
use super::{FAILED, admin_failure};
use crate::admin::{self, AskError, report::Report};

/// Between two looks.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// What is heard, look by look.
pub(super) type Reports = mpsc::Receiver<Result<Report, AskError>>;

/// The state as it was known last.
pub(super) struct Known {
    pub(super) report: Report,
    /// Since when the daemon does not answer, and the latest reason.
    gone: Option<(Instant, String)>,
}

impl Known {
    /// Waits for the first look.
    ///
    /// # Errors
    /// If no daemon answers: that is said, and this is how to end.
    pub(super) async fn first(reports: &mut Reports) -> Result<Self, ExitCode> {
        match reports.recv().await {
            Some(Ok(report)) => Ok(Self { report, gone: None }),
            Some(Err(error)) => Err(admin_failure(&error)),
            None => Err(ExitCode::from(FAILED)),
        }
    }

    pub(super) fn hear(&mut self, told: Result<Report, AskError>) {
        match told {
            Ok(report) => (self.report, self.gone) = (report, None),
            Err(error) => {
                let since = self.gone.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                self.gone = Some((since, error.to_string()));
            }
        }
    }

    /// What stands above the last report of a daemon that does not answer; nothing while it does.
    pub(super) fn absence(&self, style: OutputStyle) -> String {
        let Some((since, error)) = &self.gone else { return String::new() };
        let for_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said = format!(
            "{} – trying again, for {} so far; below is what was known last",
            one_line(error),
            short_duration(for_ms)
        );
        format!("{} {}\n\n", style.paint(Tone::Bad, "✗"), wrap(&said, 2, 4, style.width()))
    }
}

/// Asks from now on; whoever drops the receiver ends it. A look that is not taken holds up the next.
pub(super) fn status(socket: PathBuf) -> Reports {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut looks = interval(EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
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
        let mut known = Known { report: serde_json::from_value(report).expect("a report"), gone: None };
        let style = OutputStyle::of_width(80);
        known.hear(Err(AskError::NoAnswer("connection reset".to_owned())));
        known.hear(Err(AskError::NotRunning("/run/admin.sock".into())));
        let text = known.absence(style);
        assert!(text.contains("not running") && !text.contains("does not answer"), "{text}");
    }
}
