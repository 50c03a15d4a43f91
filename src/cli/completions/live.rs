//! Completed names: from the running daemon, else from the configuration.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use serde_json::Value;
use tokio::time::timeout;

use super::typed::TypedLine;
use crate::admin::report::ToolReport;
use crate::admin::{self, AdminError, ToolsRequest};
use crate::cli;
use crate::cli::schema::{Kind, Schema};
use crate::cli::text::one_line;
use crate::cli::tool_names::qualified;
use crate::config::interpolate::Process;
use crate::config::{self, Config, Profile};
use crate::known_clients::CLIENTS;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// For the daemon to answer. The user waits for the completions.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(300);

pub(in crate::cli) fn servers() -> Vec<CompletionCandidate> {
    let running = || {
        let report = query(async |directory| admin::status(&directory.socket(ADMIN_SOCKET)).await)?;
        Some(report.servers.iter().map(|server| candidate(&server.name, Some(server.state.word()))).collect())
    };
    let configured = || {
        configuration().iter().flat_map(|config| config.servers.iter().map(|one| candidate(&one.name, None))).collect()
    };
    running().unwrap_or_else(configured)
}

pub(in crate::cli) fn profiles() -> Vec<CompletionCandidate> {
    let running = || {
        let report = query(async |directory| admin::status(&directory.socket(ADMIN_SOCKET)).await)?;
        let help = |servers: &[String]| servers.join(", ");
        Some(report.profiles.iter().map(|one| candidate(&one.name, Some(&help(&one.servers)))).collect())
    };
    let configured = || match configuration() {
        Some(config) => config.profiles.iter().map(|one| candidate(&one.name, None)).collect(),
        None => vec![candidate(Profile::DEFAULT, None)],
    };
    running().unwrap_or_else(configured)
}

/// Tools that agents of the typed profile see: exposed names, or qualified names if a slash is typed.
pub(in crate::cli) fn tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let has_slash = current.as_encoded_bytes().contains(&b'/');
    let visible = profile_tools().into_iter().flatten().filter_map(|tool| {
        let name = tool.name?;
        let word = if has_slash { qualified(&tool.server, &tool.tool) } else { name };
        is_plain(&word).then(|| candidate(&word, tool.description.as_deref()))
    });
    visible.filter(|one| starts_with(one, current)).collect()
}

/// Servers first, then tools.
pub(in crate::cli) fn servers_and_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let servers = servers().into_iter().filter(|one| starts_with(one, current));
    servers.chain(tools(current)).collect()
}

/// After `SERVER/`, all tools of that server. Otherwise servers, or exposed names of tools if no server matches.
pub(in crate::cli) fn servers_or_their_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some((server, _)) = current.to_str().and_then(|current| current.split_once('/')) else {
        let servers: Vec<_> = servers().into_iter().filter(|one| starts_with(one, current)).collect();
        return if servers.is_empty() { tools(current) } else { servers };
    };
    let tools = profile_tools().into_iter().flatten().filter(|tool| tool.server == server && is_plain(&tool.tool));
    let names = tools.map(|tool| candidate(&qualified(server, &tool.tool), tool.description.as_deref()));
    names.filter(|one| starts_with(one, current)).collect()
}

/// Arguments of the typed tool as `NAME=`; after `NAME=`, its possible values.
pub(in crate::cli) fn arguments(current: &OsStr) -> Vec<CompletionCandidate> {
    let schema = || {
        let line = TypedLine::current()?;
        let filter = ToolsRequest { profile: line.profile(), name: Some(line.tool()?) };
        let (tools, _) = query(async |directory| cli::tools::request(&directory, filter).await)?;
        let visible = tools.iter().find(|tool| tool.name.is_some())?;
        let definition: Value = serde_json::from_str(visible.definition.as_ref()?).ok()?;
        Some(Schema::parse(&definition["inputSchema"]))
    };
    let Some(schema) = schema() else { return Vec::new() };
    let plain = schema.arguments.iter().filter(|one| is_plain(&one.name));
    let words = plain.flat_map(|one| {
        let key = candidate(&format!("{}=", one.name), Some(&one.description));
        let booleans = one.kinds.contains(&Kind::Boolean).then_some(["true", "false"]);
        let choices = one.choices.iter().filter_map(Value::as_str).filter(|choice| is_plain(choice));
        let values = choices.chain(booleans.into_iter().flatten());
        let values = values.map(|value| candidate(&format!("{}={value}", one.name), None));
        let has_key = current.as_encoded_bytes().starts_with(format!("{}=", one.name).as_bytes());
        if has_key { values.collect() } else { vec![key] }
    });
    words.filter(|one| starts_with(one, current)).collect()
}

fn starts_with(candidate: &CompletionCandidate, current: &OsStr) -> bool {
    candidate.get_value().as_encoded_bytes().starts_with(current.as_encoded_bytes())
}

/// Whether a name that a server chose needs no quoting. Shells insert completions unchanged.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

fn profile_tools() -> Option<Vec<ToolReport>> {
    let line = TypedLine::current()?;
    let filter = ToolsRequest { profile: line.profile(), name: None };
    query(async |directory| Ok(cli::tools::request(&directory, filter).await?.0))
}

pub(in crate::cli) fn clients() -> Vec<CompletionCandidate> {
    CLIENTS.iter().map(|client| candidate(client.word, Some(client.title))).collect()
}

fn candidate(name: &str, help: Option<&str>) -> CompletionCandidate {
    CompletionCandidate::new(name).help(help.map(|help| one_line(help).into()))
}

/// The answer of the daemon; `None` without a daemon or after the time limit.
fn query<T>(query: impl AsyncFnOnce(RuntimeDir) -> Result<T, AdminError>) -> Option<T> {
    let directory = TypedLine::current()?.directory()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { timeout(DAEMON_TIMEOUT, query(directory)).await }).ok()?.ok()
}

fn configuration() -> Option<Config> {
    config::load(&[], &Process).ok().map(|loaded| loaded.config)
}
