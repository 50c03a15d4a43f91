//! `mcpd calls`.

mod columns;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::columns::Columns;
use super::look::Look;
use super::{NOT_RUNNING, fail, json, put, refused};
use crate::admin::{self, CallsTold, CallsWanted, Next, Told};
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
    let columns = Columns::of(Look::of_stdout().width());
    let mut has_header = as_json;
    loop {
        let next = calls.next().await.map_err(|error| refused(&error))?;
        if !has_header {
            put(columns.header())?;
            has_header = true;
        }
        match next {
            Some(Next::Told(Told::Call(call))) if as_json => {
                put(json::line(&call)?)?;
            }
            Some(Next::Told(Told::Call(call))) => put(columns.row(&call))?,
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

/// As exact as it is short.
pub(super) fn took(milliseconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(Duration::MAX);
    match whole.as_millis() {
        0..10 => format!("{milliseconds:.1}ms"),
        10..10_000 => format!("{milliseconds:.0}ms"),
        _ => crate::duration::shown(Duration::from_secs(whole.as_secs())),
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
