//! `mcpd tools --budget`: what the tools of each profile cost, by server, and which limits of clients they exceed. If there are too many
//! tools, it suggests an `allow` that fits: first the tools with the most recorded calls, then the cheapest.

mod allow;
mod page;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use self::allow::{Candidate, choose, patterns};
use super::super::agent::ProfileArg;
use super::super::outcome::print_report;
use super::super::style::OutputStyle;
use super::super::{CommandResult, admin_failure, print};
use super::{note_missing, request};
use crate::admin::report::{ToolReport, ToolServer, ToolsSummary};
use crate::admin::{self, AdminError, AdminEvent, CallsRequest, FeedItem, ToolsRequest};
use crate::config::clients::{Limit, Measure, OPENAI_API};
use crate::known_clients::CLIENTS;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// What the lists of profiles cost their agents.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// Number of recorded calls of the tools of these profiles, from which `allow` is chosen.
    calls: usize,
    /// The profiles, the default one first.
    profiles: Vec<ProfileBudget>,
}

/// What the lists of one profile cost.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfileBudget {
    /// Name of the profile.
    name: String,
    /// Tools that its agents see.
    tools: usize,
    /// Estimated number of model tokens of these tools.
    tokens: usize,
    /// Bytes of the combined instructions of its servers.
    instructions_bytes: usize,
    /// The servers with tools or instructions in this profile, in file order.
    servers: Vec<ServerBudget>,
    /// The known limits of clients.
    limits: Vec<LimitReport>,
}

/// The part of one server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerBudget {
    /// Configured name.
    name: String,
    /// Tools that agents of the profile see.
    tools: usize,
    /// Estimated number of model tokens of these tools.
    tokens: usize,
    /// Bytes of its own instructions.
    instructions_bytes: usize,
}

/// A limit of clients, compared with the profile.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LimitReport {
    /// The clients that have this limit, with the versions or models that it applies to.
    clients: Vec<String>,
    /// What it limits: the number of `tools`, or the bytes of the `instructions` of an entry or of the `description` of a tool.
    of: &'static str,
    /// The limit.
    max: usize,
    /// What the profile has. For descriptions, the bytes of the longest one.
    found: usize,
    /// Whether the profile exceeds the limit. For instructions, also true if a single server exceeds it.
    exceeded: bool,
    /// If there are too many tools, a value of `allow` for the profile with which they fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    /// The servers whose own instructions are longer, or the tools whose descriptions are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    over: Vec<String>,
}

/// Recorded calls by profile, server and the server's own name of the tool.
type Calls = HashMap<(String, String, String), usize>;

pub(super) async fn run(directory: &RuntimeDir, profile: &ProfileArg, as_json: bool) -> CommandResult {
    let failed = |error: AdminError| admin_failure(&error);
    let status = admin::status(&directory.socket(ADMIN_SOCKET)).await.map_err(failed)?;
    let is_selected = |name: &str| profile.given().is_none_or(|given| given == name);
    let names: Vec<_> = status.profiles.into_iter().map(|one| one.name).filter(|name| is_selected(name)).collect();
    if names.is_empty() {
        return Err(profile.named().unknown(directory));
    }
    let calls = calls(directory).await.map_err(failed)?;
    let (mut profiles, mut servers) = (Vec::new(), Vec::new());
    for name in names {
        let of_profile = ToolsRequest { profile: Some(name), name: None };
        let (tools, summary) = request(directory, of_profile).await.map_err(failed)?;
        profiles.push(ProfileBudget::new(&tools, &summary, &calls));
        servers.extend(summary.servers.into_iter().filter(|server| server.missing));
    }
    let is_shown = |name: &str| profiles.iter().any(|one| one.name == name);
    let recorded = calls.iter().filter(|((profile, ..), _)| is_shown(profile)).map(|(_, count)| count).sum();
    let report = JsonReport { calls: recorded, profiles };
    let code = if as_json { print_report(&report) } else { print(page::render(&report, OutputStyle::of_stdout())) };
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    servers.dedup_by(|one, other| one.name == other.name);
    note_missing(&servers);
    Ok(code)
}

/// All recorded calls that were routed to a server.
async fn calls(directory: &RuntimeDir) -> Result<Calls, AdminError> {
    let all = CallsRequest { last: usize::MAX, ..CallsRequest::default() };
    let mut feed = admin::calls(&directory.socket(ADMIN_SOCKET), all).await?;
    let mut calls = Calls::new();
    while let Some(FeedItem::Event(event)) = feed.next().await? {
        if let AdminEvent::Call(call) = event
            && let Some(server) = call.server
        {
            *calls.entry((call.profile, server, call.tool)).or_default() += 1;
        }
    }
    Ok(calls)
}

impl ProfileBudget {
    fn new(
        tools: &[ToolReport],
        ToolsSummary { profile, servers, instructions_bytes }: &ToolsSummary,
        calls: &Calls,
    ) -> Self {
        let seen = |server: Option<&str>| {
            let of_it =
                tools.iter().filter(|tool| tool.name.is_some() && server.is_none_or(|name| tool.server == name));
            of_it.fold((0, 0), |(count, tokens), tool| (count + 1, tokens + tool.tokens))
        };
        let server = |server: &ToolServer| {
            let (tools, tokens) = seen(Some(&server.name));
            let instructions_bytes = server.instructions_bytes;
            ServerBudget { name: server.name.clone(), tools, tokens, instructions_bytes }
        };
        let servers = servers.iter().map(server).filter(|one| one.tools > 0 || one.instructions_bytes > 0).collect();
        let (count, tokens) = seen(None);
        let (name, instructions_bytes) = (profile.clone(), *instructions_bytes);
        let mut budget = Self { name, tools: count, tokens, instructions_bytes, servers, limits: Vec::new() };
        budget.limits = known_limits().map(|(limit, clients)| budget.compare(limit, clients, tools, calls)).collect();
        budget
    }

    fn compare(
        &self,
        (of, max): (Measure, usize),
        clients: Vec<String>,
        tools: &[ToolReport],
        calls: &Calls,
    ) -> LimitReport {
        let seen = tools.iter().filter_map(|tool| Some((tool.name.as_ref()?, tool)));
        let (found, over): (usize, Vec<String>) = match of {
            Measure::Tools => (self.tools, Vec::new()),
            Measure::Instructions => {
                let over = self.servers.iter().filter(|server| server.instructions_bytes > max);
                (self.instructions_bytes, over.map(|server| server.name.clone()).collect())
            }
            Measure::Description => {
                let over = seen.clone().filter(|(_, tool)| tool.description_bytes > max);
                let longest = seen.clone().map(|(_, tool)| tool.description_bytes).max();
                (longest.unwrap_or_default(), over.map(|(name, _)| name.clone()).collect())
            }
        };
        let allow = if of == Measure::Tools && found > max { self.allow(max, tools, calls) } else { Vec::new() };
        LimitReport { clients, of: word(of), max, found, exceeded: found > max || !over.is_empty(), allow, over }
    }

    /// The `allow` of the profile with which `max` tools are left.
    fn allow(&self, max: usize, tools: &[ToolReport], calls: &Calls) -> Vec<String> {
        let seen = tools.iter().filter(|tool| tool.name.is_some());
        let candidates: Vec<_> = seen.map(|tool| self.candidate(tool, calls)).collect();
        let kept = choose(&candidates, max);
        let left_out = candidates.iter().filter(|one| !kept.contains(one)).map(|one| (one.server, one.tool));
        let hidden = tools.iter().filter(|tool| self.may_expose(tool)).map(|tool| (&*tool.server, &*tool.tool));
        patterns(&kept, &left_out.chain(hidden).collect::<Vec<_>>())
    }

    fn candidate<'t>(&self, ToolReport { server, tool, tokens, .. }: &'t ToolReport, calls: &Calls) -> Candidate<'t> {
        let calls = calls.get(&(self.name.clone(), server.clone(), tool.clone())).copied().unwrap_or_default();
        Candidate { server, tool, tokens: *tokens, calls }
    }

    /// Whether another `allow` of the profile may expose a hidden tool.
    fn may_expose(&self, tool: &ToolReport) -> bool {
        tool.hidden.as_ref().is_some_and(|hidden| match &*hidden.why {
            "deny" | "read_only" | "expose" | "profile" | "unfit" => false,
            "allow" => hidden.table.as_ref().is_some_and(|table| *table == format!("profiles.{}", self.name)),
            _ => true,
        })
    }
}

/// The known limits, each with the clients that have it.
fn known_limits() -> impl Iterator<Item = ((Measure, usize), Vec<String>)> {
    let named = |title: &str, limit: &Limit| match limit.condition {
        "" => title.to_owned(),
        condition => format!("{title} {condition}"),
    };
    let of_clients = CLIENTS.iter().flat_map(|client| client.limits.iter().map(|limit| (client.title, limit)));
    let mut limits: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (title, limit) in of_clients.chain([("the OpenAI API", &OPENAI_API)]) {
        limits.entry((limit.of, limit.max)).or_default().push(named(title, limit));
    }
    limits.into_iter()
}

/// The word for a measure in JSON.
fn word(of: Measure) -> &'static str {
    match of {
        Measure::Tools => "tools",
        Measure::Instructions => "instructions",
        Measure::Description => "description",
    }
}
