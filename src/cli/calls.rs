//! `mcpd calls`: recorded calls, oldest first. The table has all columns in a pipe, and on a terminal those that fit.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};

use super::outcome::print_report_line;
use super::style::{Cell, Column, Layout, OutputStyle};
use super::text::{TimeFormat, local_time, one_line};
use super::{CommandResult, FAILED, NOT_RUNNING, admin_failure, completions, fail, tool_names, tools, try_print};
use crate::admin::{self, AdminEvent, CallsRequest, CallsSummary, FeedItem, ToolsRequest};
use crate::calls::ToolFilter;
use crate::calls::report::CallReport;
use crate::duration;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

// Which calls are shown, and how.
#[derive(Debug, Args)]
pub(super) struct Calls {
    /// Also show calls that end from now on
    #[arg(short, long)]
    follow: bool,
    /// Show only calls to this server
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completions::servers))]
    server: Option<String>,
    /// Show only calls of this tool: its exposed name, or SERVER/TOOL
    #[arg(long, value_name = "TOOL", add = ArgValueCompleter::new(completions::tools))]
    tool: Option<String>,
    /// Print each call as a line of JSON
    #[arg(long)]
    json: bool,
    /// Number of recorded calls to show
    #[arg(short = 'n', long = "last", alias = "tail", value_name = "N", default_value_t = 20)]
    last: usize,
}

pub(super) async fn run(directory: &RuntimeDir, Calls { follow, server, tool, json, last }: Calls) -> CommandResult {
    let tool = match tool {
        None => None,
        Some(name) => Some(resolve_filter(directory, name).await?),
    };
    let request = CallsRequest { last, server, follow, tool };
    show(&directory.socket(ADMIN_SOCKET), request, json).await.map(|()| ExitCode::SUCCESS)
}

/// The filter for a tool's name. A tool that no longer exists may still have recorded calls.
async fn resolve_filter(directory: &RuntimeDir, name: String) -> Result<ToolFilter, ExitCode> {
    let (found, _) = tool_names::find(directory, None, &name).await.map_err(|error| admin_failure(&error))?;
    let is_known = !found.is_empty();
    let routes = match name.split_once('/') {
        Some((server, tool)) => vec![(server.to_owned(), tool.to_owned())],
        None => found.into_iter().map(|tool| (tool.server, tool.tool)).collect(),
    };
    let filter = ToolFilter { name, routes };
    if !is_known && !has_calls(directory, filter.clone()).await? {
        return Err(unknown_tool(directory, &filter.name).await);
    }
    Ok(filter)
}

/// Whether a recorded call matches `filter`.
async fn has_calls(directory: &RuntimeDir, filter: ToolFilter) -> Result<bool, ExitCode> {
    let request = CallsRequest { last: 1, tool: Some(filter), ..CallsRequest::default() };
    let mut calls =
        admin::calls(&directory.socket(ADMIN_SOCKET), request).await.map_err(|error| admin_failure(&error))?;
    let first = calls.next().await.map_err(|error| admin_failure(&error))?;
    Ok(matches!(first, Some(FeedItem::Event(AdminEvent::Call(_)))))
}

/// Also suggests hidden tools: the operator may see every tool.
async fn unknown_tool(directory: &RuntimeDir, name: &str) -> ExitCode {
    let (known, list) = match tools::request(directory, ToolsRequest::default()).await {
        Ok(known) => known,
        Err(error) => return admin_failure(&error),
    };
    let names = known.iter().map(|tool| {
        let qualified = tool_names::qualified(&tool.server, &tool.tool);
        (tool.name.as_deref().unwrap_or_default(), Some(qualified))
    });
    let servers = list.servers.iter().map(|server| &*server.name);
    let suggestion = tool_names::suggestion(name, names, servers);
    fail(FAILED, format!("there is no tool `{}`{suggestion}", name.escape_debug()))
}

async fn show(socket: &Path, request: CallsRequest, as_json: bool) -> Result<(), ExitCode> {
    let follow = request.follow;
    let mut calls = admin::calls(socket, request).await.map_err(|error| admin_failure(&error))?;
    let mut table = CallTable::new(OutputStyle::of_stdout());
    // The recorded calls, until all are there.
    let mut recorded = Some(Vec::new());
    loop {
        match calls.next().await.map_err(|error| admin_failure(&error))? {
            Some(FeedItem::Event(AdminEvent::Call(call))) if as_json => print_report_line(&call)?,
            Some(FeedItem::Event(AdminEvent::Call(call))) => match &mut recorded {
                Some(recorded) => recorded.push(*call),
                None => try_print(table.add(&[*call]))?,
            },
            Some(FeedItem::Event(AdminEvent::Missed(count))) => {
                print_note!("mcpd: {count} calls are not shown: they ended faster than they could be printed");
            }
            Some(FeedItem::Event(_)) => {}
            Some(FeedItem::Summary(CallsSummary { unwritten })) => {
                let recorded = recorded.take().unwrap_or_default();
                // Columns are chosen by the calls, so without any the header waits for the first one.
                let waits = follow && recorded.is_empty();
                if !as_json && !waits {
                    try_print(table.add(&recorded))?;
                }
                if unwritten > 0 {
                    print_note!(
                        "mcpd: {unwritten} calls are missing in the call log file: it could not be written, or not fast enough"
                    );
                }
                if !follow {
                    return Ok(());
                }
            }
            None => return Err(fail(NOT_RUNNING, "the daemon has stopped")),
        }
    }
}

/// A duration in three or four digits.
pub(super) fn format_duration(milliseconds: f64) -> String {
    let took = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(Duration::MAX);
    match took.as_millis() {
        0..10 => format!("{milliseconds:.1}ms"),
        10..10_000 => format!("{milliseconds:.0}ms"),
        _ => duration::format(Duration::from_secs(took.as_secs())),
    }
}

/// A column, and its cell for a call.
type CallColumn = (Column, fn(&CallReport) -> Cell);

const TIME_ON_TERMINAL: [CallColumn; 2] = [
    (Column::text("DATE").drop_rank(1), |call| local_time(&call.time, TimeFormat::Date).into()),
    (Column::text("TIME"), |call| local_time(&call.time, TimeFormat::Clock).into()),
];
const TIME_IN_PIPE: [CallColumn; 1] = [(Column::text("TIME"), |call| local_time(&call.time, TimeFormat::Zoned).into())];
const COLUMNS: [CallColumn; 10] = [
    (Column::text("AGENT").min_width(20), |call| call.client.as_deref().map_or_else(dash, Cell::from)),
    (Column::number("PID").drop_rank(5), |call| call.pid.map_or_else(dash, |pid| pid.to_string().into())),
    (Column::number("UID").drop_rank(6), |call| call.uid.to_string().into()),
    (Column::text("PROFILE").min_width(12).drop_rank(2), |call| call.profile.as_str().into()),
    (Column::text("SERVER").min_width(32), |call| call.server.as_deref().map_or_else(dash, Cell::from)),
    (Column::text("TOOL").min_width(40), |call| call.tool.as_str().into()),
    (Column::text("OUTCOME"), |call| match call.code {
        Some(code) => format!("{} {code}", call.outcome).into(),
        None => call.outcome.as_str().into(),
    }),
    (Column::number("TOOK"), |call| format_duration(call.duration_ms).into()),
    (Column::number("REQUEST").drop_rank(4), |call| call.request_bytes.to_string().into()),
    (Column::number("REPLY").drop_rank(3), |call| call.reply_bytes.to_string().into()),
];

#[derive(Debug)]
pub(super) struct CallTable {
    columns: Vec<CallColumn>,
    layout: Layout,
    has_header: bool,
}

impl CallTable {
    pub(super) fn new(style: OutputStyle) -> Self {
        let time = if style.width().is_some() { &TIME_ON_TERMINAL[..] } else { &TIME_IN_PIPE[..] };
        let columns: Vec<_> = time.iter().chain(&COLUMNS).copied().collect();
        let layout = Layout::new(columns.iter().map(|(column, _)| *column).collect(), style);
        Self { columns, layout, has_header: false }
    }

    /// Lines for calls below those that were added before. The header comes first, and again when other columns are shown.
    pub(super) fn add(&mut self, calls: &[CallReport]) -> String {
        let rows: Vec<Vec<_>> =
            calls.iter().map(|call| self.columns.iter().map(|(_, cell)| cell(call)).collect()).collect();
        let has_changed = self.layout.widen(&rows);
        let header = if has_changed || !self.has_header { self.layout.header() } else { String::new() };
        self.has_header = true;
        let lines = calls.iter().zip(&rows).map(|(call, row)| {
            // The arguments, if they are recorded.
            let arguments = call.arguments.as_deref().map(|raw| format!("    {}\n", one_line(raw)));
            self.layout.row(row) + &arguments.unwrap_or_default()
        });
        header + &lines.collect::<String>()
    }
}

fn dash() -> Cell {
    "–".into()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn durations_have_at_most_four_digits() {
        for (milliseconds, expected) in
            [(0.123, "0.1ms"), (9.94, "9.9ms"), (10.4, "10ms"), (9999.0, "9999ms"), (61_500.0, "1m 1s")]
        {
            assert_eq!(format_duration(milliseconds), expected);
        }
    }

    fn call(server: &str, tool: &str) -> CallReport {
        let call = serde_json::json!({
            "time": "2026-01-01T10:20:30.456Z", "session": 1, "pid": 4242, "uid": 1000, "client": "claude-code 2.1.0",
            "profile": "default", "server": server, "tool": tool, "outcome": "error",
            "code": -32602, "duration_ms": 12.3, "request_bytes": 120, "reply_bytes": 160,
        });
        serde_json::from_value(call).expect("a call")
    }

    fn time(of: TimeFormat) -> String {
        local_time("2026-01-01T10:20:30.456Z", of)
    }

    #[test]
    fn a_pipe_has_every_column_and_cuts_nothing() {
        let (server, tool) = ("s".repeat(60), "t".repeat(120));
        let drawn = CallTable::new(OutputStyle::PLAIN).add(&[call(&server, &tool)]);
        let names = ["TIME", "AGENT", "PID", "UID", "PROFILE", "SERVER", "TOOL", "OUTCOME", "TOOK", "REQUEST", "REPLY"];
        let mut lines = drawn.lines();
        assert!(lines.next().is_some_and(|header| header.split_whitespace().eq(names)), "{drawn}");
        let time = time(TimeFormat::Zoned);
        let expected = format!(
            "{time}  claude-code 2.1.0  4242  1000  default  {server}  {tool}  error -32602  12ms      120    160"
        );
        assert_eq!(lines.next(), Some(&*expected));
    }

    #[test]
    fn a_terminal_drops_columns_before_it_cuts_names() {
        let (date, clock) = (time(TimeFormat::Date), time(TimeFormat::Clock));
        for (width, server, tool, expected) in [
            (
                120,
                "files",
                "list",
                format!(
                    "{date}  {clock}  claude-code 2.1.0  4242  1000  default  files   list  error -32602  12ms      120    160"
                ),
            ),
            (
                100,
                "files",
                "list",
                format!(
                    "{date}  {clock}  claude-code 2.1.0  default  files   list  error -32602  12ms      120    160"
                ),
            ),
            (
                80,
                "files",
                "list",
                format!("{date}  {clock}  claude-code 2.1.0  files   list  error -32602  12ms    160"),
            ),
            (
                80,
                "files",
                "list_allowed_and_more",
                format!("{clock}  claude-code 2.1.0  files   list_allowed_and_more  error -32602  12ms"),
            ),
            (
                80,
                "files",
                "list_directory_with_sizes",
                format!("{clock}  claude-code 2.1.0  files   list_direct…_with_sizes  error -32602  12ms"),
            ),
            (
                60,
                "files",
                "list_directory_with_sizes",
                format!("{clock}  clau…2.1.0  files   list…sizes  error -32602  12ms"),
            ),
        ] {
            let drawn = CallTable::new(OutputStyle::of_width(width)).add(&[call(server, tool)]);
            assert_eq!(drawn.lines().nth(1), Some(&*expected), "at {width}\n{drawn}");
            assert!(drawn.lines().all(|line| line.width() <= width), "at {width}\n{drawn}");
        }
    }

    #[test]
    fn later_calls_widen_columns_while_space_is_left() {
        let mut table = CallTable::new(OutputStyle::of_width(90));
        let (date, clock) = (time(TimeFormat::Date), time(TimeFormat::Clock));
        assert!(table.add(&[call("s", "echo")]).starts_with("DATE        TIME      AGENT"));
        let wider = table.add(&[call("s", "fetch")]);
        assert!(wider.contains("  fetch  ") && !wider.contains("AGENT"), "{wider}");
        let header =
            format!("DATE        TIME      AGENT              SERVER  TOOL{}  OUTCOME       TOOK\n", " ".repeat(17));
        let row = format!("{date}  {clock}  claude-code 2.1.0  s       list_allowed_and_more  error -32602  12ms\n");
        assert_eq!(table.add(&[call("s", "list_allowed_and_more")]), header + &row);
        let narrower = table.add(&[call("s", "echo")]);
        assert_eq!(narrower, row.replace("list_allowed_and_more", &format!("echo{}", " ".repeat(17))));
    }
}
