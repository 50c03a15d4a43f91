//! `mcpd tools --all`: also what agents do not see, and what hides it.

use std::process::ExitCode;

use serde::Serialize;

use super::table::{Group, Row, Wanted, render};
use super::{Tools, ask};
use crate::admin::ToolsWanted;
use crate::admin::report::{HiddenReport, NEEDS_LOGIN, ToolReport, ToolServer, ToolsTold};
use crate::cli::style::OutputStyle;
use crate::cli::text::one_line;
use crate::cli::tool_names::{self, own_form};
use crate::cli::{admin_failure, json, print};
use crate::server::login_needed;
use crate::sockets::RuntimeDir;

#[derive(Serialize)]
struct Shape<'a> {
    profile: &'a str,
    servers: &'a [ToolServer],
    tools: Vec<&'a ToolReport>,
}

pub(super) async fn run(directory: &RuntimeDir, tools: &Tools, wanted: &Wanted<'_>) -> ExitCode {
    let asked = ToolsWanted { profile: Some(tools.profile.name().to_owned()), name: None };
    let (told, ToolsTold { profile, servers }) = match ask(directory, asked).await {
        Ok(told) => told,
        Err(error) => return admin_failure(&error),
    };
    let mut chosen: Vec<_> = told.iter().filter(|tool| has(wanted, tool)).collect();
    if chosen.is_empty()
        && let Some(word) = &tools.which
    {
        // The exposed name of a tool that is hidden.
        let (named, _) = tool_names::find(directory, Some(tools.profile.name()), word).await.unwrap_or_default();
        let is_named =
            |tool: &&ToolReport| named.iter().any(|one| (&one.server, &one.tool) == (&tool.server, &tool.tool));
        chosen = told.iter().filter(is_named).collect();
    }
    if chosen.is_empty() && tools.which.is_some() && !servers.iter().any(|one| wanted.has(Some(&one.name), &[])) {
        let names = told
            .iter()
            .map(|tool| (tool.name.as_deref().unwrap_or(&tool.tool), Some(own_form(&tool.server, &tool.tool))));
        return wanted.unknown("there is no server or tool", names, &servers);
    }
    if tools.json {
        let shape = Shape { profile: &profile, servers: &servers, tools: chosen };
        return json::page(&shape).map_or_else(|code| code, print);
    }
    let shown = |server: &ToolServer| {
        tools.which.is_none()
            || chosen.iter().any(|tool| tool.server == server.name)
            || wanted.has(Some(&server.name), &[])
    };
    let groups: Vec<_> = servers.iter().filter(|server| shown(server)).map(|server| group(server, &chosen)).collect();
    print(render(&groups, OutputStyle::of_stdout()))
}

fn has(wanted: &Wanted<'_>, tool: &ToolReport) -> bool {
    let whole = own_form(&tool.server, &tool.tool);
    wanted.has(Some(&tool.server), &[tool.name.as_deref().unwrap_or(&tool.tool), &tool.tool, &whole])
}

fn group(server: &ToolServer, chosen: &[&ToolReport]) -> Group {
    let row = |tool: &&ToolReport| match (&tool.name, &tool.hidden) {
        (Some(name), _) => Row::shown(name, tool.description.as_deref(), tool.tokens),
        (None, hidden) => Row::hidden(&tool.tool, why(tool, hidden.as_ref()), tool.tokens),
    };
    let rows = chosen.iter().filter(|tool| tool.server == server.name).map(row).collect();
    let cut = server.truncated.then(|| "its list was cut".to_owned());
    let state = match &*server.state {
        "ready" | "idle" => None,
        NEEDS_LOGIN => Some(login_needed(&server.name)),
        state => Some(state.to_owned()),
    };
    let notes: Vec<_> = state.into_iter().chain(cut).collect();
    Group { server: Some(server.name.clone()), note: (!notes.is_empty()).then(|| notes.join(" · ")), rows }
}

/// What hides a tool, and how it is shown again where that is one command.
pub(in crate::cli) fn why(ToolReport { server, tool, .. }: &ToolReport, hidden: Option<&HiddenReport>) -> String {
    let Some(HiddenReport { why, pattern, table }) = hidden else { return "not seen".to_owned() };
    let place = table.as_ref().map(|table| format!(" of [{}]", one_line(table))).unwrap_or_default();
    match (&**why, pattern) {
        ("deny", Some(pattern)) => format!("denied by `{}`{place}", one_line(pattern)),
        ("allow", _) => format!("in no pattern of `allow`{place}"),
        ("read_only", _) => format!("not said to read only, as `tools.read_only`{place} wants it"),
        ("expose", _) => format!("`expose`{place} leaves tools out"),
        ("off", _) => format!("switched off: `mcpd enable {server}/{}`", one_line(tool)),
        ("disabled", _) => format!("its server is disabled: `mcpd enable {server}`"),
        ("profile", _) => "its server is not in the profile".to_owned(),
        ("unfit", _) => "its name is not fit to be shown".to_owned(),
        ("again", _) => "listed a second time".to_owned(),
        ("nameless", _) => "no name is free for it".to_owned(),
        (other, _) => one_line(other),
    }
}
