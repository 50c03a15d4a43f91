//! `mcpd logs`.

use std::io::stdout;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::outcome::{not_running_with, print_report_line, server_text};
use super::style::OutputStyle;
use super::text::{TimeFormat, local_time, one_line};
use super::{CommandResult, NOT_RUNNING, admin_failure, completions, fail, try_print};
use crate::admin::report::LineReport;
use crate::admin::{self, AdminError, AdminEvent, FeedItem, LogsRequest};
use crate::autostart::Units;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::{daemon, logging};

/// Columns of a terminal that has space for times with a year and milliseconds.
const WIDE: usize = 100;

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// Show only lines of these servers
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    servers: Vec<String>,
    /// Also show lines that are written from now on
    #[arg(short, long)]
    follow: bool,
    /// Replace secrets by `…`, which only a running daemon can do
    #[arg(long)]
    masked: bool,
    /// Print each line as a line of JSON
    #[arg(long)]
    json: bool,
    /// Number of stored lines to show; mcpd stores 256 KiB for each server
    #[arg(short = 'n', long = "last", alias = "tail", value_name = "N", default_value_t = 100)]
    last: usize,
}

pub(super) async fn run(directory: &RuntimeDir, Logs { servers, follow, masked, json, last }: Logs) -> CommandResult {
    let request = LogsRequest { last, servers, follow };
    show(directory, request, masked || admin::is_masked(), json).await.map(|()| ExitCode::SUCCESS)
}

async fn show(directory: &RuntimeDir, request: LogsRequest, masked: bool, as_json: bool) -> Result<(), ExitCode> {
    let socket = &directory.socket(ADMIN_SOCKET);
    let time_format = time_format(OutputStyle::of_stdout().width());
    let (follow, last, servers) = (request.follow, request.last, request.servers.clone());
    let mut is_empty = true;
    let mut lines = match admin::logs(socket, request, masked).await {
        Ok(lines) => lines,
        // Only a daemon knows all secrets.
        Err(AdminError::NotRunning(socket)) if !masked => {
            return show_kept(directory, &socket, &servers, last, as_json).await;
        }
        Err(error) => return Err(admin_failure(&error)),
    };
    loop {
        match lines.next().await.map_err(|error| admin_failure(&error))? {
            Some(FeedItem::Event(AdminEvent::Line(line))) => {
                is_empty = false;
                print(&line, time_format, as_json)?;
            }
            Some(FeedItem::Event(AdminEvent::LinesMissed { server, count })) => {
                print_note!("mcpd: {count} lines of {server} are not shown: they came faster than they were read");
            }
            Some(FeedItem::Event(_)) => {}
            Some(FeedItem::Summary(_)) => {
                if is_empty && !as_json {
                    print_note!("mcpd: {}", explain_empty(socket, &servers).await);
                }
                if !follow {
                    return Ok(());
                }
            }
            None => return Err(fail(NOT_RUNNING, "the daemon has stopped")),
        }
    }
}

/// Prints the lines that a former daemon has kept, and that none runs.
async fn show_kept(
    directory: &RuntimeDir,
    socket: &Path,
    servers: &[String],
    last: usize,
    as_json: bool,
) -> Result<(), ExitCode> {
    let time_format = time_format(OutputStyle::of_stdout().width());
    let path = daemon::server_output_path();
    let kept = path.as_deref().map(logging::kept_lines).unwrap_or_default();
    let lines = kept.iter().filter_map(|line| serde_json::from_str::<LineReport>(line).ok());
    let lines: Vec<_> = lines.filter(|line| servers.is_empty() || servers.contains(&line.server)).collect();
    let shown = &lines[lines.len().saturating_sub(last)..];
    shown.iter().try_for_each(|line| print(line, time_format, as_json))?;
    let mut details = match &path {
        Some(path) if !shown.is_empty() => {
            format!("  the lines above are from {}\n", one_line(&path.to_string_lossy()))
        }
        _ => String::new(),
    };
    if Units::find(directory).await.is_some() {
        details += "  `journalctl --user --unit mcpd` has what servers wrote to stderr under systemd\n";
    }
    Err(not_running_with(socket, &details))
}

fn print(line: &LineReport, time_format: TimeFormat, as_json: bool) -> Result<(), ExitCode> {
    if as_json { print_report_line(line) } else { try_print(format(line, time_format)) }
}

/// How times are shown on a terminal of this width; `None`: in a pipe.
fn time_format(width: Option<usize>) -> TimeFormat {
    match width {
        None => TimeFormat::Zoned,
        Some(WIDE..) => TimeFormat::Full,
        Some(_) => TimeFormat::Short,
    }
}

async fn explain_empty(socket: &Path, servers: &[String]) -> String {
    match servers {
        [server] if is_remote(socket, server).await => {
            format!("{server} is reached at a URL, so its stderr is not available. `mcpd doctor {server}` checks it")
        }
        [server] => format!("{server} has written nothing to stderr. `mcpd doctor {server}` shows whether it runs"),
        [] => "no server has written to stderr. `mcpd status` shows whether they run".to_owned(),
        _ => format!("{} have written nothing to stderr. `mcpd status` shows whether they run", servers.join(" and ")),
    }
}

async fn is_remote(socket: &Path, server: &str) -> bool {
    let report = admin::status(socket).await;
    report.is_ok_and(|report| report.servers.iter().any(|one| one.name == server && one.elsewhere().is_some()))
}

/// A line in the format of syslog. If a server may have several instances, their purpose is included.
fn format(LineReport { time, server, pid, purpose, text }: &LineReport, time_format: TimeFormat) -> String {
    let purpose = purpose.as_deref().map(|purpose| format!(" ({})", one_line(purpose))).unwrap_or_default();
    let text = server_text(text, &stdout());
    let time = local_time(time, time_format);
    format!("{time} {server}{purpose}[{pid}]: {text}\n")
}
