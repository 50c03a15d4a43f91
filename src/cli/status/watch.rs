//! `mcpd status --watch`: the report as it is now, on the whole terminal; where it is piped, each report that tells anything new.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::render;
use crate::admin::AskError;
use crate::admin::report::Report;
use crate::cli::look::{Look, Tone};
use crate::cli::screen::{Screen, Turn};
use crate::cli::text::{one_line, span, wrapped};
use crate::cli::{FAILED, fail, json, poll, put, refused};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

type Reports = mpsc::Receiver<Result<Report, AskError>>;

pub(in crate::cli) async fn run(directory: &RuntimeDir, as_json: bool) -> ExitCode {
    let mut reports = poll::status(directory.socket(ADMIN_SOCKET));
    let first = match reports.recv().await {
        Some(Ok(report)) => report,
        Some(Err(error)) => return refused(&error),
        None => return ExitCode::from(FAILED),
    };
    if io::stdout().is_terminal() && !as_json {
        return on_screen(reports, first).await.unwrap_or_else(|error| fail(FAILED, error));
    }
    match print(reports, first, as_json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

async fn on_screen(mut reports: Reports, mut report: Report) -> io::Result<ExitCode> {
    let mut screen = Screen::open()?;
    let mut gone: Option<(Instant, String)> = None;
    loop {
        let look = Look::of_stdout();
        let absence = gone.as_ref().map(|(since, error)| absent(error, *since, look)).unwrap_or_default();
        screen.draw(&(absence + &render(&report, look)), "every second · q leaves")?;
        tokio::select! {
            told = reports.recv() => match told {
                Some(Ok(told)) => (report, gone) = (told, None),
                Some(Err(error)) => _ = gone.get_or_insert_with(|| (Instant::now(), error.to_string())),
                None => return Ok(ExitCode::from(FAILED)),
            },
            turn = screen.turn() => if let Turn::Leave(signal) = turn {
                screen.leave(signal);
                return Ok(ExitCode::SUCCESS);
            },
        }
    }
}

/// What stands above the last report of a daemon that does not answer.
pub(in crate::cli) fn absent(error: &str, since: Instant, look: Look) -> String {
    let for_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let said = format!("{} – trying again, for {} so far; below is what was known last", one_line(error), span(for_ms));
    format!("{} {}\n\n", look.paint(Tone::Bad, "✗"), wrapped(&said, 2, 4, look.width()))
}

async fn print(mut reports: Reports, first: Report, as_json: bool) -> Result<(), ExitCode> {
    let mut next = Some(Ok(first));
    let (mut last, mut is_gone) = (Value::Null, false);
    while let Some(told) = next {
        match told {
            Ok(report) => {
                let now = lasting(serde_json::to_value(&report).map_err(|error| fail(FAILED, error))?);
                if now != last {
                    let line = if last.is_null() { "" } else { "────\n" };
                    put(if as_json {
                        json::line(&report)?
                    } else {
                        line.to_owned() + &render(&report, Look::of_stdout())
                    })?;
                }
                (last, is_gone) = (now, false);
            }
            Err(error) => {
                if !is_gone {
                    tell!("mcpd: {error}; trying again");
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
