//! `mcpd status --watch`: a full-screen view on a terminal; in a pipe, a report after each change.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde_json::Value;

use super::{render, render_brief};
use crate::admin::report::Report;
use crate::cli::poll::{self, LatestReport, Reports};
use crate::cli::screen::{Screen, ScreenEvent, dimensions};
use crate::cli::style::OutputStyle;
use crate::cli::{FAILED, changed_files, fail, json, try_print};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, as_json: bool) -> ExitCode {
    let mut reports = poll::start(directory.socket(ADMIN_SOCKET));
    let latest = match LatestReport::first(&mut reports).await {
        Ok(latest) => latest,
        Err(code) => return code,
    };
    if io::stdout().is_terminal() && !as_json {
        return show_on_screen(reports, latest).await.unwrap_or_else(|error| fail(FAILED, error));
    }
    print_changes(reports, latest.report, as_json).await.err().unwrap_or(ExitCode::SUCCESS)
}

async fn show_on_screen(mut reports: Reports, mut latest: LatestReport) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    loop {
        let style = OutputStyle::of_stdout();
        latest.report = changed_files::compared(latest.report);
        let notice = latest.outage_notice(style);
        let whole = notice.clone() + &render(&latest.report, style);
        let fits = whole.lines().count() < dimensions().1;
        let text = if fits { whole } else { notice + &render_brief(&latest.report, style) };
        screen.draw(&text, "updated every second · q quits")?;
        tokio::select! {
            result = reports.recv() => match result {
                Some(result) => latest.update(result),
                None => return Ok(ExitCode::from(FAILED)),
            },
            event = screen.next_event() => if let ScreenEvent::Leave(signal) = event {
                screen.leave(signal);
                return Ok(ExitCode::SUCCESS);
            },
        }
    }
}

async fn print_changes(mut reports: Reports, first: Report, as_json: bool) -> Result<(), ExitCode> {
    let mut next = Some(Ok(first));
    let (mut last, mut is_unreachable) = (Value::Null, false);
    while let Some(result) = next {
        match result {
            Ok(report) => {
                let report = changed_files::compared(report);
                let current = without_timers(serde_json::to_value(&report).map_err(|error| fail(FAILED, error))?);
                if current != last && as_json {
                    json::print_line(&report)?;
                } else if current != last {
                    let separator = if last.is_null() { "" } else { "────\n" };
                    try_print(separator.to_owned() + &render(&report, OutputStyle::of_stdout()))?;
                }
                (last, is_unreachable) = (current, false);
            }
            Err(error) => {
                if !is_unreachable {
                    print_note!("mcpd: {error}; retrying");
                }
                is_unreachable = true;
            }
        }
        next = reports.recv().await;
    }
    Ok(())
}

/// The report without the fields that change with time alone.
fn without_timers(mut report: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Object(members) => {
                for timer in ["uptime_ms", "connected_ms", "checked_ms", "retry_in_ms"] {
                    members.remove(timer);
                }
                members.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    strip(&mut report);
    report
}
