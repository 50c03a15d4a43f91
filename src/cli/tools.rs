//! `mcpd tools`: what agents of a profile see, as one of them; with `--all`, what they do not see and why, as the operator.
//!
//! An agent's list does not say which server a tool is of, and a name is never taken apart: the operator's socket says it, and
//! where that cannot be used the list has no headings.

pub(super) mod all;
mod details;
mod table;

use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use self::table::{Group, Row, Wanted};
use super::agent::Agent;
use super::outcome::print_json;
use super::profile::ProfileArg;
use super::spinner::with_spinner;
use super::style::OutputStyle;
use super::tool_names::own_form;
use super::{FAILED, completions, fail, print};
use crate::admin::report::{ToolReport, ToolServer, ToolsTold};
use crate::admin::{self, AskError, Next, Told, ToolsWanted};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::token_estimate;

/// For the operator's socket to say which server each tool is of.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which tools are listed, and how.
#[derive(Debug, Args)]
pub(super) struct Tools {
    #[command(flatten)]
    profile: ProfileArg,
    /// Only those of this server, or that match this pattern, in which `*` is anything; of one tool, named as it is exposed or as
    /// SERVER/TOOL, all that it takes
    #[arg(value_name = "SERVER|TOOL|PATTERN", add = ArgValueCompleter::new(completions::servers_and_tools))]
    which: Option<String>,
    /// Also those that agents do not see, and why; asks the operator's socket
    #[arg(long)]
    all: bool,
    /// Print them as the daemon lists them, as JSON; with `--all`, as docs/json.md says
    #[arg(long)]
    json: bool,
}

/// A tool as an agent is told of it.
pub(super) struct Tool {
    pub(super) name: String,
    /// The whole object.
    pub(super) said: Value,
    raw: Box<RawValue>,
}

#[derive(Deserialize)]
struct List {
    tools: Vec<Box<RawValue>>,
}

pub(super) async fn run(directory: &RuntimeDir, tools: &Tools) -> ExitCode {
    let wanted = match Wanted::of(tools.which.as_deref()) {
        Ok(wanted) => wanted,
        Err(refused) => return refused,
    };
    if tools.all {
        return all::run(directory, tools, &wanted).await;
    }
    let mut agent = match Agent::of(directory, &tools.profile, "mcpd tools").await {
        Ok(agent) => agent,
        Err(refused) => return refused,
    };
    let listed = match with_spinner(|| "waiting for the list of tools".to_owned(), list(&mut agent)).await {
        // As the daemon sent it: key order and number spelling included.
        Ok(raw) if tools.json && tools.which.is_none() => {
            let code = print_json(&raw);
            tell_missing(&known(directory, tools).await.servers);
            return code;
        }
        Ok(raw) => parsed(&raw),
        Err(error) => Err(error),
    };
    match listed {
        Ok(listed) => {
            let known = known(directory, tools).await;
            let code = show(listed, &known, tools, &wanted);
            if tools.which.is_none() {
                tell_missing(&known.servers);
            }
            code
        }
        Err(error) => fail(FAILED, error),
    }
}

/// Where an exposed name leads.
struct Origin {
    server: String,
    /// `SERVER/TOOL`.
    own_form: String,
}

/// What the operator's socket says beside the list.
#[derive(Default)]
struct Known {
    /// The route of each tool that is listed, by its exposed name.
    of: HashMap<String, Origin>,
    /// All that are configured.
    servers: Vec<ToolServer>,
}

fn show(listed: Vec<Tool>, known: &Known, tools: &Tools, wanted: &Wanted<'_>) -> ExitCode {
    let of = |tool: &Tool| known.of.get(&tool.name);
    let forms = |tool: &Tool| [Some(tool.name.clone()), of(tool).map(|origin| origin.own_form.clone())];
    if let Some(tool) = listed.iter().find(|tool| tools.which.is_some() && forms(tool).contains(&tools.which))
        && !tools.json
    {
        return print(details::render(tool));
    }
    let has = |tool: &Tool| {
        let names: Vec<_> = forms(tool).into_iter().flatten().collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        wanted.has(of(tool).map(|origin| &*origin.server), &names)
    };
    if !listed.iter().any(has) && tools.which.is_some() {
        if let Some(server) = known.servers.iter().find(|one| Some(&*one.name) == tools.which.as_deref()) {
            return fail(FAILED, unseen(server, tools));
        }
        let names = listed.iter().map(|tool| (&*tool.name, of(tool).map(|origin| origin.own_form.clone())));
        return wanted.unknown("agents see no server or tool called", names, &known.servers);
    }
    let chosen: Vec<_> = listed.into_iter().filter(|tool| has(tool)).collect();
    if tools.json {
        let raw: Vec<_> = chosen.iter().map(|tool| tool.raw.get()).collect();
        return print_json(format!("{{\"tools\":[{}]}}", raw.join(",")).as_bytes());
    }
    let server = |tool: &Tool| of(tool).map(|origin| &origin.server);
    let group = |tools: &[Tool]| Group {
        server: tools.first().and_then(server).cloned(),
        note: None,
        rows: tools
            .iter()
            .map(|tool| Row::shown(&tool.name, tool.said["description"].as_str(), tool.tokens()))
            .collect(),
    };
    let groups: Vec<_> = chosen.chunk_by(|one, next| server(one) == server(next)).map(group).collect();
    print(table::render(&groups, OutputStyle::of_stdout()))
}

/// Says beside the list which servers it lacks.
fn tell_missing(servers: &[ToolServer]) {
    let missing = servers.iter().filter(|server| server.missing);
    let missing: Vec<_> = missing.map(|server| format!("{} ({})", server.name, server.state)).collect();
    if !missing.is_empty() {
        print_note!("mcpd: not listed yet: {}", missing.join(", "));
    }
}

impl Tool {
    /// What it costs an agent, in estimated tokens.
    fn tokens(&self) -> usize {
        token_estimate::estimate(self.name.len(), &Bytes::copy_from_slice(self.raw.get().as_bytes()))
    }
}

/// All tools that the agent sees.
pub(super) async fn seen(agent: &mut Agent) -> io::Result<Vec<Tool>> {
    parsed(&list(agent).await?)
}

async fn list(agent: &mut Agent) -> io::Result<Bytes> {
    agent.request("tools/list", &json!({})).await?.map_err(|error| io::Error::other(error.to_string()))
}

fn parsed(list: &[u8]) -> io::Result<Vec<Tool>> {
    let List { tools } = serde_json::from_slice(list)?;
    let tool = |raw: Box<RawValue>| {
        let said: Value = serde_json::from_str(raw.get())?;
        Ok(Tool { name: said["name"].as_str().unwrap_or_default().to_owned(), said, raw })
    };
    tools.into_iter().map(tool).collect()
}

/// Why there is nothing to list of a server, and what tells more.
fn unseen(ToolServer { name, state, .. }: &ToolServer, tools: &Tools) -> String {
    let options: String = tools.profile.options().iter().map(|option| format!(" {option}")).collect();
    match &**state {
        "ready" | "idle" => format!("agents see no tools of `{name}`: `mcpd tools {name}{options} --all` says why"),
        state => format!("agents see no tools of `{name}` ({state}): `mcpd doctor {name}` says what to do"),
    }
}

/// As much of it as that socket tells in good time.
async fn known(directory: &RuntimeDir, tools: &Tools) -> Known {
    let asked = ask(directory, ToolsWanted { profile: Some(tools.profile.name().to_owned()), name: None });
    let Ok(Ok((tools, ToolsTold { servers, .. }))) = timeout(PATIENCE, asked).await else { return Known::default() };
    let origin = |tool: ToolReport| {
        let own_form = own_form(&tool.server, &tool.tool);
        Some((tool.name?, Origin { server: tool.server, own_form }))
    };
    Known { of: tools.into_iter().filter_map(origin).collect(), servers }
}

/// `SERVER/TOOL` of each tool that agents of `profile` see, by its exposed name, and all servers; nothing if the daemon does not say.
pub(super) async fn own_forms(directory: &RuntimeDir, profile: &str) -> (HashMap<String, String>, Vec<ToolServer>) {
    let wanted = ToolsWanted { profile: Some(profile.to_owned()), name: None };
    let (tools, told) = timeout(PATIENCE, ask(directory, wanted)).await.ok().and_then(Result::ok).unwrap_or_default();
    let forms = tools.into_iter().filter_map(|tool| Some((tool.name?, own_form(&tool.server, &tool.tool))));
    (forms.collect(), told.servers)
}

/// All that the operator's socket has to tell.
pub(super) async fn ask(directory: &RuntimeDir, wanted: ToolsWanted) -> Result<(Vec<ToolReport>, ToolsTold), AskError> {
    let mut feed = admin::tools(&directory.socket(ADMIN_SOCKET), wanted).await?;
    let mut tools = Vec::new();
    loop {
        match feed.next().await? {
            Some(Next::Told(Told::Tool(tool))) => tools.push(*tool),
            Some(Next::Told(_)) => {}
            Some(Next::All(told)) => return Ok((tools, told)),
            None => return Err(AskError::NoAnswer("it ended".to_owned())),
        }
    }
}
