//! `mcpd status --watch`: the report as it is now, on the whole terminal; where it is piped, each report that tells anything new.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde_json::Value;

use super::{render, render_brief};
use crate::admin::report::Report;
use crate::cli::poll::{self, Known, Reports};
use crate::cli::screen::{Screen, Turn, dimensions};
use crate::cli::style::OutputStyle;
use crate::cli::{FAILED, changed_files, fail, json, try_print};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(in crate::cli) async fn run(directory: &RuntimeDir, as_json: bool) -> ExitCode {
    let mut reports = poll::status(directory.socket(ADMIN_SOCKET));
    let known = match Known::first(&mut reports).await {
        Ok(known) => known,
        Err(code) => return code,
    };
    if io::stdout().is_terminal() && !as_json {
        return on_screen(reports, known).await.unwrap_or_else(|error| fail(FAILED, error));
    }
    match print(reports, known.report, as_json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

async fn on_screen(mut reports: Reports, mut known: Known) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    loop {
        let style = OutputStyle::of_stdout();
        known.report = changed_files::compared(known.report);
        let absence = known.absence(style);
        let whole = absence.clone() + &render(&known.report, style);
        let fits = whole.lines().count() < dimensions().1;
        let text = if fits { whole } else { absence + &render_brief(&known.report, style) };
        screen.draw(&text, "every second · q leaves")?;
        tokio::select! {
            told = reports.recv() => match told {
                Some(told) => known.hear(told),
                None => return Ok(ExitCode::from(FAILED)),
            },
            turn = screen.turn() => if let Turn::Leave(signal) = turn {
                screen.leave(signal);
                return Ok(ExitCode::SUCCESS);
            },
        }
    }
}

async fn print(mut reports: Reports, first: Report, as_json: bool) -> Result<(), ExitCode> {
    let mut next = Some(Ok(first));
    let (mut last, mut is_gone) = (Value::Null, false);
    while let Some(told) = next {
        match told {
            Ok(report) => {
                let report = changed_files::compared(report);
                let now = lasting(serde_json::to_value(&report).map_err(|error| fail(FAILED, error))?);
                if now != last {
                    let line = if last.is_null() { "" } else { "────\n" };
                    try_print(if as_json {
                        json::line(&report)?
                    } else {
                        line.to_owned() + &render(&report, OutputStyle::of_stdout())
                    })?;
                }
                (last, is_gone) = (now, false);
            }
            Err(error) => {
                if !is_gone {
                    print_note!("mcpd: {error}; trying again");
                }
                is_gone = true;
            }
        }
        next = reports.recv().await;
    }
    Ok(())
}

/// What of a report is the same as long as nothing happens.
fn lasting(mut report: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(strip),
            Value::Object(all) => {
                for passing in ["uptime_ms", "connected_ms", "checked_ms", "retry_in_ms"] {
                    all.remove(passing);
                }
                all.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    strip(&mut report);
    report
}
