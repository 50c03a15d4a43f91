//! `mcpd calls`.

mod columns;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::columns::Columns;
use super::style::OutputStyle;
use super::{FAILED, NOT_RUNNING, admin_failure, fail, json, tool_names, tools, try_print};
use crate::admin::{self, CallsTold, CallsWanted, Next, Told, ToolsWanted};
use crate::calls::ToolFilter;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Shows the calls that `wanted` describes; only those of the tool `name`, if that is given.
pub(super) async fn run(
    directory: &RuntimeDir,
    mut wanted: CallsWanted,
    name: Option<String>,
    as_json: bool,
) -> ExitCode {
    if let Some(name) = name {
        wanted.tool = match filter(directory, name).await {
            Ok(filter) => Some(filter),
            Err(code) => return code,
        };
    }
    match show(&directory.socket(ADMIN_SOCKET), wanted, as_json).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// What `name` stands for. A tool that is gone may still have calls.
async fn filter(directory: &RuntimeDir, name: String) -> Result<ToolFilter, ExitCode> {
    let (found, _) = tool_names::find(directory, None, &name).await.map_err(|error| admin_failure(&error))?;
    let is_known = !found.is_empty();
    let routes = match name.split_once('/') {
        Some((server, tool)) => vec![(server.to_owned(), tool.to_owned())],
        None => found.into_iter().map(|tool| (tool.server, tool.tool)).collect(),
    };
    let filter = ToolFilter { name, routes };
    if !is_known && !has_calls(directory, filter.clone()).await? {
        return Err(unknown(directory, &filter.name).await);
    }
    Ok(filter)
}

/// Whether any call is kept that `filter` admits.
async fn has_calls(directory: &RuntimeDir, filter: ToolFilter) -> Result<bool, ExitCode> {
    let wanted = CallsWanted { last: 1, tool: Some(filter), ..CallsWanted::default() };
    let mut calls =
        admin::calls(&directory.socket(ADMIN_SOCKET), wanted).await.map_err(|error| admin_failure(&error))?;
    let first = calls.next().await.map_err(|error| admin_failure(&error))?;
    Ok(matches!(first, Some(Next::Told(Told::Call(_)))))
}

/// The operator may know every tool, so hidden ones are suggested as well.
async fn unknown(directory: &RuntimeDir, name: &str) -> ExitCode {
    let (known, told) = match tools::ask(directory, ToolsWanted::default()).await {
        Ok(known) => known,
        Err(error) => return admin_failure(&error),
    };
    let forms = known.iter().map(|tool| {
        let own = tool_names::own_form(&tool.server, &tool.tool);
        (tool.name.as_deref().unwrap_or_default(), Some(own))
    });
    let servers = told.servers.iter().map(|server| &*server.name);
    let suggestion = tool_names::suggestion(name, forms, servers);
    fail(FAILED, format!("there is no tool `{}`{suggestion}", name.escape_debug()))
}

async fn show(socket: &Path, wanted: CallsWanted, as_json: bool) -> Result<(), ExitCode> {
    let follow = wanted.follow;
    let mut calls = admin::calls(socket, wanted).await.map_err(|error| admin_failure(&error))?;
    let columns = Columns::of(OutputStyle::of_stdout().width());
    let mut has_header = as_json;
    loop {
        let next = calls.next().await.map_err(|error| admin_failure(&error))?;
        if !has_header {
            try_print(columns.header())?;
            has_header = true;
        }
        match next {
            Some(Next::Told(Told::Call(call))) if as_json => {
                try_print(json::line(&call)?)?;
            }
            Some(Next::Told(Told::Call(call))) => try_print(columns.row(&call))?,
            Some(Next::Told(Told::Missed(count))) => {
                print_note!("mcpd: {count} calls are not shown: they ended faster than they could be printed");
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
        print_note!(
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
        _ => crate::duration::format(Duration::from_secs(whole.as_secs())),
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
