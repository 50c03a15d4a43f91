//! The names that are completed: from the running daemon, else from the configuration, else none.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use serde_json::Value;
use tokio::time::timeout;

use super::typed::Typed;
use crate::admin::report::ToolReport;
use crate::admin::{self, AskError, ToolsWanted};
use crate::cli;
use crate::cli::schema::{Kind, Schema};
use crate::cli::text::one_line;
use crate::cli::tool_names::qualified;
use crate::config::interpolate::Process;
use crate::config::{self, Config, Profile};
use crate::known_clients::CLIENTS;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// For the daemon to answer, while somebody waits with a finger on the key.
const PATIENCE: Duration = Duration::from_millis(300);

/// The servers.
pub(in crate::cli) fn servers() -> Vec<CompletionCandidate> {
    let running = || {
        let report = ask(async |directory| admin::status(&directory.socket(ADMIN_SOCKET)).await)?;
        Some(report.servers.iter().map(|server| candidate(&server.name, Some(&server.state))).collect())
    };
    let configured =
        || configured().iter().flat_map(|config| config.servers.iter().map(|one| candidate(&one.name, None))).collect();
    running().unwrap_or_else(configured)
}

/// The profiles.
pub(in crate::cli) fn profiles() -> Vec<CompletionCandidate> {
    let running = || {
        let report = ask(async |directory| admin::status(&directory.socket(ADMIN_SOCKET)).await)?;
        let help = |servers: &[String]| servers.join(", ");
        Some(report.profiles.iter().map(|one| candidate(&one.name, Some(&help(&one.servers)))).collect())
    };
    let configured = || match configured() {
        Some(config) => config.profiles.iter().map(|one| candidate(&one.name, None)).collect(),
        None => vec![candidate(Profile::DEFAULT, None)],
    };
    running().unwrap_or_else(configured)
}

/// The tools that agents of the typed profile see: by exposed name, or as `SERVER/TOOL` if a slash is typed.
pub(in crate::cli) fn tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let has_slash = current.as_encoded_bytes().contains(&b'/');
    let visible = seen().into_iter().flatten().filter_map(|tool| {
        let name = tool.name?;
        let word = if has_slash { qualified(&tool.server, &tool.tool) } else { name };
        is_plain(&word).then(|| candidate(&word, tool.description.as_deref()))
    });
    visible.filter(|one| starts_with(one, current)).collect()
}

/// The servers, and after them those.
pub(in crate::cli) fn servers_and_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let servers = servers().into_iter().filter(|one| starts_with(one, current));
    servers.chain(tools(current)).collect()
}

/// The servers; tools by exposed names, if no server begins so; or, behind a server and a slash, its tools by their own names,
/// whoever sees them.
pub(in crate::cli) fn servers_or_their_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some((server, _)) = current.to_str().and_then(|current| current.split_once('/')) else {
        let servers: Vec<_> = servers().into_iter().filter(|one| starts_with(one, current)).collect();
        return if servers.is_empty() { tools(current) } else { servers };
    };
    let own = seen().into_iter().flatten().filter(|tool| tool.server == server && is_plain(&tool.tool));
    let own = own.map(|tool| candidate(&qualified(server, &tool.tool), tool.description.as_deref()));
    own.filter(|one| starts_with(one, current)).collect()
}

/// The arguments of the tool that is typed, each with `=`, and of one that is typed so far the values that it may have.
pub(in crate::cli) fn arguments(current: &OsStr) -> Vec<CompletionCandidate> {
    let schema = || {
        let typed = Typed::now()?;
        let wanted = ToolsWanted { profile: typed.profile(), name: Some(typed.tool()?) };
        let (tools, _) = ask(async |directory| cli::tools::request(&directory, wanted).await)?;
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

/// Whether a name that a server has thought of can stand on a command line as it is: shells put in what they are told.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
}

fn seen() -> Option<Vec<ToolReport>> {
    let typed = Typed::now()?;
    let wanted = ToolsWanted { profile: typed.profile(), name: None };
    ask(async |directory| Ok(cli::tools::request(&directory, wanted).await?.0))
}

/// The clients that mcpd knows.
pub(in crate::cli) fn clients() -> Vec<CompletionCandidate> {
    CLIENTS.iter().map(|client| candidate(client.word, Some(client.title))).collect()
}

fn candidate(name: &str, help: Option<&str>) -> CompletionCandidate {
    CompletionCandidate::new(name).help(help.map(|help| one_line(help).into()))
}

/// What the daemon answers in time, if there is one.
fn ask<T>(question: impl AsyncFnOnce(RuntimeDir) -> Result<T, AskError>) -> Option<T> {
    let directory = Typed::now()?.directory()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { timeout(PATIENCE, question(directory)).await }).ok()?.ok()
}

fn configured() -> Option<Config> {
    config::load(&[], &Process).ok().map(|loaded| loaded.config)
}
