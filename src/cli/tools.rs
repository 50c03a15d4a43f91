//! `mcpd tools`: the tools that agents of a profile see; with `--all`, also hidden tools and what hides them.
//!
//! The list comes from an agent socket. It does not name servers, and names are never parsed. The operator socket supplies the
//! servers; without it the list has no headings.

pub(super) mod budget;
mod details;
mod table;

use super::CommandResult;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::table::{Group, Row, Selection};
use super::agent::{Agent, AgentProfile, ProfileArg};
use super::outcome::{print_json, print_report};
use super::style::OutputStyle;
use super::terminal::with_spinner;
use super::text::{defects_text, one_line};
pub(super) use super::tool_names::request;
use super::tool_names::{self, hidden_reason, qualified};
use super::{FAILED, USAGE, admin_failure, completions, fail, print};
use crate::admin::ToolsRequest;
use crate::admin::report::{StateName, ToolReport, ToolServer, ToolsSummary};
use crate::catalog::estimate_tokens;
use crate::sockets::RuntimeDir;

/// Why agents of the modern era do not see a tool.
const TASK_ONLY: &str = "not listed for agents of MCP 2026-07-28: it can only be called as a task";
/// Malformed tools that are named.
const MAX_MALFORMED: usize = 10;
/// For the servers of the tools. The list is printed without them if the operator socket is slower.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct Tools {
    #[command(flatten)]
    profile: ProfileArg,
    /// Only tools of this server, or that match this pattern, in which `*` matches any text; for a single tool, its description and
    /// arguments
    #[arg(value_name = "SERVER|TOOL|PATTERN", add = ArgValueCompleter::new(completions::servers_and_tools))]
    selection: Option<String>,
    /// Include tools that agents do not see, and what hides them; needs access to admin.sock
    #[arg(long)]
    all: bool,
    /// Show the cost of each profile by server, the limits of clients that it exceeds, and what to allow instead; needs access to
    /// admin.sock
    #[arg(long, conflicts_with_all = ["selection", "all"])]
    budget: bool,
    /// Print the tools as listed to agents, as JSON; with `--all` or `--budget`, as one object
    #[arg(long)]
    json: bool,
}

/// A tool as listed to an agent.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) definition: Value,
    raw: Box<RawValue>,
}

#[derive(Deserialize)]
struct List {
    tools: Vec<Box<RawValue>>,
}

pub(super) async fn run(directory: &RuntimeDir, tools: &Tools) -> CommandResult {
    if tools.budget {
        return budget::run(directory, &tools.profile, tools.json).await;
    }
    let selection = Selection::parse(tools.selection.as_deref())?;
    if tools.all {
        return run_all(directory, tools, &selection).await;
    }
    let (mut agent, profile) = Agent::connect_to(directory, &tools.profile, "mcpd tools").await?;
    note_directory(&profile);
    let failed = |error: io::Error| fail(FAILED, error);
    let requested = with_spinner(|| "waiting for the list of tools".to_owned(), request_list(&mut agent)).await;
    let raw = requested.map_err(failed)?;
    let (code, origins) = if tools.json && tools.selection.is_none() {
        // Byte for byte as the daemon sent it.
        (print_json(&raw), origins(directory, profile.name()).await)
    } else {
        let listed = parse_list(&raw).map_err(failed)?;
        let origins = origins(directory, profile.name()).await;
        (show(directory, profile.name(), listed, &origins, tools, &selection).await, origins)
    };
    if tools.selection.is_none() {
        note_left_out(&origins);
    }
    Ok(code)
}

pub(super) struct Origin {
    server: String,
    /// Agents of the modern era do not see the tool.
    is_legacy_only: bool,
    /// The configuration gives the tool its name.
    is_renamed: bool,
    /// `SERVER/TOOL`.
    pub(super) qualified: String,
}

/// The servers of the listed tools. Empty if the operator socket does not answer in time.
#[derive(Default)]
pub(super) struct Origins {
    /// By exposed name.
    pub(super) by_name: HashMap<String, Origin>,
    /// All configured servers.
    pub(super) servers: Vec<ToolServer>,
    /// Texts about tools that are mended or left out.
    malformed: Vec<String>,
}

impl Origins {
    pub(super) fn qualified(&self, tool: &Tool) -> Option<String> {
        self.by_name.get(&tool.name).map(|origin| origin.qualified.clone())
    }
}

async fn show(
    directory: &RuntimeDir,
    profile: &str,
    listed: Vec<Tool>,
    origins: &Origins,
    tools: &Tools,
    selection: &Selection<'_>,
) -> ExitCode {
    let server = |tool: &Tool| origins.by_name.get(&tool.name).map(|origin| &*origin.server);
    let names = |tool: &Tool| [Some(tool.name.clone()), origins.qualified(tool)];
    if let Some(tool) = listed.iter().find(|tool| tools.selection.is_some() && names(tool).contains(&tools.selection))
        && !tools.json
    {
        let own = origins.by_name.get(&tool.name).filter(|origin| origin.is_renamed).map(|origin| &*origin.qualified);
        return print(details::render(tool, own));
    }
    let is_selected = |tool: &Tool| {
        let names: Vec<_> = names(tool).into_iter().flatten().collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        selection.matches(server(tool), &names)
    };
    if !listed.iter().any(is_selected) && tools.selection.is_some() {
        if let Some(server) = origins.servers.iter().find(|one| Some(&*one.name) == tools.selection.as_deref()) {
            return fail(FAILED, explain_empty(server, tools));
        }
        let name = tools.selection.as_deref().unwrap_or_default();
        if let Some(error) = tool_names::hidden(directory, profile, name).await {
            return fail(USAGE, error);
        }
        let known = listed.iter().map(|tool| (&*tool.name, origins.qualified(tool)));
        return selection.unknown("agents see no server or tool called", known, &origins.servers);
    }
    let selected: Vec<_> = listed.into_iter().filter(|tool| is_selected(tool)).collect();
    if tools.json {
        let raw: Vec<_> = selected.iter().map(|tool| tool.raw.get()).collect();
        return print_json(format!("{{\"tools\":[{}]}}", raw.join(",")).as_bytes());
    }
    let row = |tool: &Tool| Row::visible(&tool.name, tool.definition["description"].as_str(), tool.tokens());
    let group = |tools: &[Tool]| Group {
        server: tools.first().and_then(server).map(str::to_owned),
        note: None,
        rows: tools.iter().map(row).collect(),
    };
    let groups: Vec<_> = selected.chunk_by(|one, next| server(one) == server(next)).map(group).collect();
    print(table::render(&groups, OutputStyle::of_stdout()))
}

/// Names the profile if the working directory has chosen it.
fn note_directory(profile: &AgentProfile) {
    if let Some(directory) = profile.directory() {
        print_note!("mcpd: profile {}, which has {} in its `directories`", profile.name(), directory.display());
    }
}

/// Names the tools that some agents do not see, and the servers of which nothing is known yet.
fn note_left_out(Origins { by_name, servers, malformed }: &Origins) {
    let legacy_only = by_name.iter().filter(|(_, origin)| origin.is_legacy_only).map(|(name, _)| one_line(name));
    for name in legacy_only.collect::<BTreeSet<_>>() {
        print_note!("mcpd: {name} is {TASK_ONLY}");
    }
    for text in malformed.iter().take(MAX_MALFORMED) {
        print_note!("mcpd: {text}");
    }
    if let Some(left @ 1..) = malformed.len().checked_sub(MAX_MALFORMED) {
        print_note!("mcpd: {left} more definitions are malformed: `mcpd tools --all` shows them");
    }
    note_missing(servers);
}

/// Names the servers that have not listed their tools yet.
fn note_missing(servers: &[ToolServer]) {
    let missing = servers.iter().filter(|server| server.missing);
    let missing: Vec<_> = missing.map(|server| format!("{} ({})", server.name, server.state)).collect();
    if !missing.is_empty() {
        print_note!("mcpd: not listed yet: {}", missing.join(", "));
    }
}

impl Tool {
    /// Estimated cost for an agent.
    fn tokens(&self) -> usize {
        estimate_tokens(self.name.len(), &Bytes::copy_from_slice(self.raw.get().as_bytes()))
    }
}

pub(super) async fn list(agent: &mut Agent) -> io::Result<Vec<Tool>> {
    parse_list(&request_list(agent).await?)
}

async fn request_list(agent: &mut Agent) -> io::Result<Bytes> {
    agent.request("tools/list", &json!({})).await?.map_err(|error| io::Error::other(error.to_string()))
}

fn parse_list(list: &[u8]) -> io::Result<Vec<Tool>> {
    let List { tools } = serde_json::from_slice(list)?;
    let tool = |raw: Box<RawValue>| {
        let definition: Value = serde_json::from_str(raw.get())?;
        Ok(Tool { name: definition["name"].as_str().unwrap_or_default().to_owned(), definition, raw })
    };
    tools.into_iter().map(tool).collect()
}

fn explain_empty(ToolServer { name, state, .. }: &ToolServer, tools: &Tools) -> String {
    let options: String = tools.profile.options().iter().map(|option| format!(" {option}")).collect();
    match state {
        StateName::Ready | StateName::Idle => {
            format!("agents see no tools of `{name}`: `mcpd tools {name}{options} --all` shows why")
        }
        StateName::Disabled => format!("`{name}` is disabled: `mcpd enable {name}` shows its tools again"),
        state => format!("agents see no tools of `{name}` ({state}): `mcpd doctor {name}` shows the solution"),
    }
}

/// The servers of the tools that agents of `profile` see.
pub(super) async fn origins(directory: &RuntimeDir, profile: &str) -> Origins {
    let reply = request(directory, ToolsRequest { profile: Some(profile.to_owned()), name: None });
    let Ok(Ok((tools, ToolsSummary { servers, .. }))) = timeout(OPERATOR_TIMEOUT, reply).await else {
        return Origins::default();
    };
    let is_malformed = |tool: &&ToolReport| !tool.defects.is_empty() && (tool.name.is_some() || is_left_out(tool));
    let text = |tool: &ToolReport| {
        format!("{}: {}", one_line(&qualified(&tool.server, &tool.tool)), defects_text(&tool.defects))
    };
    let malformed = tools.iter().filter(is_malformed).map(text).collect();
    let origin = |tool: ToolReport| {
        let qualified = qualified(&tool.server, &tool.tool);
        let is_legacy_only = tool.hidden_from_modern.is_some();
        let is_renamed = tool.configured_name.is_some();
        Some((tool.name?, Origin { server: tool.server, is_legacy_only, is_renamed, qualified }))
    };
    Origins { by_name: tools.into_iter().filter_map(origin).collect(), servers, malformed }
}

/// Agents would see the tool if its definition were not malformed.
fn is_left_out(tool: &ToolReport) -> bool {
    tool.hidden.as_ref().is_some_and(|hidden| hidden.why == "malformed")
}

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

async fn run_all(directory: &RuntimeDir, tools: &Tools, selection: &Selection<'_>) -> CommandResult {
    // The request fails without a daemon.
    let chosen = match directory.is_served() {
        true => tools.profile.choose(directory).await.map_err(|error| fail(FAILED, error))?,
        false => tools.profile.named(),
    };
    note_directory(&chosen);
    let filter = ToolsRequest { profile: Some(chosen.name().to_owned()), name: None };
    let reply = request(directory, filter).await;
    let (reports, ToolsSummary { profile, servers, .. }) = reply.map_err(|error| admin_failure(&error))?;
    let mut selected: Vec<_> = reports.iter().filter(|tool| is_selected(selection, tool)).collect();
    if selected.is_empty()
        && let Some(word) = &tools.selection
    {
        // It may be the exposed name of a hidden tool.
        let (named, _) = tool_names::find(directory, Some(chosen.name()), word).await.unwrap_or_default();
        let is_named =
            |tool: &&ToolReport| named.iter().any(|one| (&one.server, &one.tool) == (&tool.server, &tool.tool));
        selected = reports.iter().filter(is_named).collect();
    }
    let is_server_selected = |server: &ToolServer| selection.matches(Some(&server.name), &[]);
    if selected.is_empty() && tools.selection.is_some() && !servers.iter().any(is_server_selected) {
        let known = reports
            .iter()
            .map(|tool| (tool.name.as_deref().unwrap_or(&tool.tool), Some(qualified(&tool.server, &tool.tool))));
        return Err(selection.unknown("there is no server or tool", known, &servers));
    }
    if tools.json {
        return Ok(print_report(&JsonReport { profile: &profile, servers: &servers, tools: selected }));
    }
    let is_shown = |server: &&ToolServer| {
        tools.selection.is_none()
            || selected.iter().any(|tool| tool.server == server.name)
            || is_server_selected(server)
    };
    let groups: Vec<_> = servers.iter().filter(is_shown).map(|server| group(server, &selected)).collect();
    Ok(print(table::render(&groups, OutputStyle::of_stdout())))
}

fn is_selected(selection: &Selection<'_>, tool: &ToolReport) -> bool {
    let qualified = qualified(&tool.server, &tool.tool);
    selection.matches(Some(&tool.server), &[tool.name.as_deref().unwrap_or(&tool.tool), &tool.tool, &qualified])
}

fn group(server: &ToolServer, selected: &[&ToolReport]) -> Group {
    let row = |tool: &&ToolReport| match (&tool.name, &tool.hidden) {
        (Some(name), _) if tool.hidden_from_modern.is_some() => Row::visible(name, Some(TASK_ONLY), tool.tokens),
        (Some(name), _) if !tool.defects.is_empty() => {
            Row::visible(name, Some(&defects_text(&tool.defects)), tool.tokens)
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
