//! `mcpd calls`: recorded calls, oldest first.

mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};

use self::table::CallTable;
use super::style::OutputStyle;
use super::{FAILED, NOT_RUNNING, admin_failure, completions, fail, json, tool_names, tools, try_print};
use crate::admin::{self, AdminEvent, CallsRequest, CallsSummary, FeedItem, ToolsRequest};
use crate::calls::ToolFilter;
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

pub(super) async fn run(directory: &RuntimeDir, Calls { follow, server, tool, json, last }: Calls) -> ExitCode {
    let tool = match tool {
        None => None,
        Some(name) => match resolve_filter(directory, name).await {
            Ok(filter) => Some(filter),
            Err(code) => return code,
        },
    };
    let request = CallsRequest { last, server, follow, tool };
    show(&directory.socket(ADMIN_SOCKET), request, json).await.err().unwrap_or(ExitCode::SUCCESS)
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
            Some(FeedItem::Event(AdminEvent::Call(call))) if as_json => json::print_line(&call)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_four_digits() {
        for (milliseconds, expected) in
            [(0.123, "0.1ms"), (9.94, "9.9ms"), (10.4, "10ms"), (9999.0, "9999ms"), (61_500.0, "1m 1s")]
        {
            assert_eq!(format_duration(milliseconds), expected);
        }
    }
}
