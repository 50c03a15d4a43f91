//! `mcpd calls`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::text::one_line;
use super::{NOT_RUNNING, fail, json, put, refused};
use crate::admin::{self, CallsTold, CallsWanted, Next, Told};
use crate::calls::report::CallReport;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, wanted: CallsWanted, as_json: bool) -> ExitCode {
    match show(&directory.socket(ADMIN_SOCKET), wanted, as_json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

async fn show(socket: &Path, wanted: CallsWanted, as_json: bool) -> Result<(), ExitCode> {
    let follow = wanted.follow;
    let mut calls = admin::calls(socket, wanted).await.map_err(|error| refused(&error))?;
    if !as_json {
        put(header())?;
    }
    loop {
        match calls.next().await.map_err(|error| refused(&error))? {
            Some(Next::Told(Told::Call(call))) if as_json => {
                put(json::line(&call)?)?;
            }
            Some(Next::Told(Told::Call(call))) => put(row(&call))?,
            Some(Next::Told(Told::Missed(count))) => {
                tell!("mcpd: {count} calls are not shown: they ended faster than they could be printed");
            }
            Some(Next::Told(_)) => {}
            Some(Next::All(told)) => {
                warn(told);
                if !follow {
                    return Ok(());
                }
            }
            None => return Err(fail(NOT_RUNNING, "the daemon has stopped")),
        }
    }
}

fn warn(told: CallsTold) {
    if told.unwritten > 0 {
        tell!(
            "mcpd: {} calls are not in the file of calls: it could not be written, or not fast enough",
            told.unwritten
        );
    }
}

fn header() -> String {
    line(["TIME", "AGENT", "PID", "UID", "PROFILE", "SERVER", "TOOL", "OUTCOME", "TOOK", "REQUEST", "REPLY"])
}

fn row(call: &CallReport) -> String {
    let dash = || "–".to_owned();
    let outcome = call.code.map_or_else(|| call.outcome.clone(), |code| format!("{} {code}", call.outcome));
    let cells = [
        call.time.clone(),
        call.client.as_deref().map_or_else(dash, one_line),
        call.pid.map_or_else(dash, |pid| pid.to_string()),
        call.uid.to_string(),
        call.profile.clone(),
        call.server.clone().unwrap_or_else(dash),
        one_line(&call.tool),
        outcome,
        took(call.duration_ms),
        call.request_bytes.to_string(),
        call.reply_bytes.to_string(),
    ];
    let arguments = call.arguments.as_deref().map(|raw| format!("    {}\n", one_line(raw))).unwrap_or_default();
    line(cells.each_ref().map(String::as_str)) + &arguments
}

/// Columns of fixed width: those who follow see one line at a time. A cell that is wider moves the rest of its line.
fn line(cells: [&str; 11]) -> String {
    const WIDTHS: [usize; 11] = [24, 20, 8, 6, 8, 12, 24, 12, 8, 8, 8];
    let padded: String = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:width$}  ")).collect();
    padded.trim_end().to_owned() + "\n"
}

/// As exact as it is short.
pub(super) fn took(milliseconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(Duration::MAX);
    match whole.as_millis() {
        0..10 => format!("{milliseconds:.1}ms"),
        10..10_000 => format!("{milliseconds:.0}ms"),
        _ => humantime::format_duration(Duration::from_secs(whole.as_secs())).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_they_are_short() {
        for (milliseconds, expected) in
            [(0.123, "0.1ms"), (9.94, "9.9ms"), (10.4, "10ms"), (9999.0, "9999ms"), (61_500.0, "1m 1s")]
        {
            assert_eq!(took(milliseconds), expected);
        }
    }
}
