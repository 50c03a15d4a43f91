//! `mcpd tools --all`: every tool, with what hides it from agents.

use std::process::ExitCode;

use serde::Serialize;

use super::table::{Group, Row, Selection, render};
use super::{TASK_ONLY, Tools};
use crate::admin::ToolsRequest;
use crate::admin::report::{StateName, ToolReport, ToolServer, ToolsSummary};
use crate::cli::style::OutputStyle;
use crate::cli::tool_names::{self, hidden_reason, qualified, request};
use crate::cli::{admin_failure, json, malformed, print};
use crate::sockets::RuntimeDir;

/// Every tool, with what hides it from agents.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// The profile whose view it is.
    profile: &'a str,
    /// Configured servers, in file order.
    servers: &'a [ToolServer],
    /// Every tool of these servers, visible or not.
    tools: Vec<&'a ToolReport>,
}

pub(super) async fn run(directory: &RuntimeDir, tools: &Tools, selection: &Selection<'_>) -> ExitCode {
    let filter = ToolsRequest { profile: Some(tools.profile.name().to_owned()), name: None };
    let (reports, ToolsSummary { profile, servers }) = match request(directory, filter).await {
        Ok(reply) => reply,
        Err(error) => return admin_failure(&error),
    };
    let mut selected: Vec<_> = reports.iter().filter(|tool| is_selected(selection, tool)).collect();
    if selected.is_empty()
        && let Some(word) = &tools.selection
    {
        // It may be the exposed name of a hidden tool.
        let (named, _) = tool_names::find(directory, Some(tools.profile.name()), word).await.unwrap_or_default();
        let is_named =
            |tool: &&ToolReport| named.iter().any(|one| (&one.server, &one.tool) == (&tool.server, &tool.tool));
        selected = reports.iter().filter(is_named).collect();
    }
    let is_server_selected = |server: &ToolServer| selection.matches(Some(&server.name), &[]);
    if selected.is_empty() && tools.selection.is_some() && !servers.iter().any(is_server_selected) {
        let known = reports
            .iter()
            .map(|tool| (tool.name.as_deref().unwrap_or(&tool.tool), Some(qualified(&tool.server, &tool.tool))));
        return selection.unknown("there is no server or tool", known, &servers);
    }
    if tools.json {
        return json::print(&JsonReport { profile: &profile, servers: &servers, tools: selected });
    }
    let is_shown = |server: &&ToolServer| {
        tools.selection.is_none()
            || selected.iter().any(|tool| tool.server == server.name)
            || is_server_selected(server)
    };
    let groups: Vec<_> = servers.iter().filter(is_shown).map(|server| group(server, &selected)).collect();
    print(render(&groups, OutputStyle::of_stdout()))
}

fn is_selected(selection: &Selection<'_>, tool: &ToolReport) -> bool {
    let qualified = qualified(&tool.server, &tool.tool);
    selection.matches(Some(&tool.server), &[tool.name.as_deref().unwrap_or(&tool.tool), &tool.tool, &qualified])
}

fn group(server: &ToolServer, selected: &[&ToolReport]) -> Group {
    let row = |tool: &&ToolReport| match (&tool.name, &tool.hidden) {
        (Some(name), _) if tool.hidden_from_modern.is_some() => Row::visible(name, Some(TASK_ONLY), tool.tokens),
        (Some(name), _) if !tool.defects.is_empty() => {
            Row::visible(name, Some(&malformed::of_defects(&tool.defects)), tool.tokens)
        }
        (Some(name), _) => Row::visible(name, tool.description.as_deref(), tool.tokens),
        (None, hidden) => Row::hidden(&tool.tool, hidden_reason(tool, hidden.as_ref()), tool.tokens),
    };
    let rows = selected.iter().filter(|tool| tool.server == server.name).map(row).collect();
    let truncated = server.truncated.then(|| "its list was truncated".to_owned());
    let state = match server.state {
        StateName::Ready | StateName::Idle => None,
        StateName::NeedsLogin => Some(format!("needs a login: run `mcpd login {}`", server.name)),
        StateName::Disabled => Some(format!("disabled: `mcpd enable {}`", server.name)),
        state => Some(state.to_string()),
    };
    let notes: Vec<_> = state.into_iter().chain(truncated).collect();
    Group { server: Some(server.name.clone()), note: (!notes.is_empty()).then(|| notes.join(" · ")), rows }
}
