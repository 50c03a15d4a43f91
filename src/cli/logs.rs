//! `mcpd logs`.

use std::path::Path;
use std::process::ExitCode;

use super::local_time::{self, TimeFormat};
use super::text::one_line;
use super::{NOT_RUNNING, admin_failure, fail, json, try_print};
use crate::admin::report::LineReport;
use crate::admin::{self, LogsWanted, Next, Told};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

pub(super) async fn run(directory: &RuntimeDir, wanted: LogsWanted, as_json: bool) -> ExitCode {
    match show(&directory.socket(ADMIN_SOCKET), wanted, as_json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

async fn show(socket: &Path, wanted: LogsWanted, as_json: bool) -> Result<(), ExitCode> {
    let follow = wanted.follow;
    let whose = wanted.server.clone();
    let mut has_any = false;
    let mut lines = admin::logs(socket, wanted).await.map_err(|error| admin_failure(&error))?;
    loop {
        match lines.next().await.map_err(|error| admin_failure(&error))? {
            Some(Next::Told(Told::Line(line))) => {
                has_any = true;
                try_print(if as_json { json::line(&line)? } else { shown(&line) })?;
            }
            Some(Next::Told(Told::LinesMissed { server, count })) => {
                print_note!("mcpd: {count} lines of {server} are not shown: they came faster than they were read");
            }
            Some(Next::Told(_)) => {}
            Some(Next::All(_)) => {
                if !has_any && !as_json {
                    print_note!("mcpd: {}", nothing(socket, whose.as_deref()).await);
                }
                if !follow {
                    return Ok(());
                }
            }
            None => return Err(fail(NOT_RUNNING, "the daemon has stopped")),
        }
    }
}

/// What is said where there is no line: one who looks for what is wrong is not to be left with an empty screen.
async fn nothing(socket: &Path, server: Option<&str>) -> String {
    match server {
        Some(server) if is_remote(socket, server).await => format!(
            "{server} is reached at a URL, so what it writes to stderr is where it runs; `mcpd doctor {server}` says how it is"
        ),
        Some(server) => format!("{server} has written nothing to stderr; `mcpd doctor {server}` says how it is"),
        None => "no server has written anything to stderr; `mcpd status` says how they are".to_owned(),
    }
}

async fn is_remote(socket: &Path, server: &str) -> bool {
    let report = admin::status(socket).await;
    report.is_ok_and(|report| report.servers.iter().any(|one| one.name == server && one.remote.is_some()))
}

/// As syslog has it, with what the instance is for where there may be several.
fn shown(LineReport { time, server, pid, purpose, text }: &LineReport) -> String {
    let purpose = purpose.as_deref().map(|purpose| format!(" ({})", one_line(purpose))).unwrap_or_default();
    let text = one_line(&text.replace('\t', "    "));
    let time = local_time::format(time, TimeFormat::Zoned);
    format!("{time} {server}{purpose}[{pid}]: {text}\n")
}
