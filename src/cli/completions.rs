//! `mcpd completions SHELL`: the completion script of a shell, and the completions that the script requests.
//!
//! At each Tab the script runs `mcpd` with the typed words and the variable [`VARIABLE`]. It has no data of its own, so it fits
//! every version. Names come from the running daemon, else from the configuration. Requests to the daemon have a time limit. Errors only
//! reduce the number of completions.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Zsh};
use clap_complete::{CompleteEnv, CompletionCandidate};
use serde_json::Value;
use tokio::time::timeout;

use super::arguments::command_line;
use super::text::one_line;
use super::tool_names::{qualified, request};
use super::tool_schema::{Kind, Schema};
use super::{CommandResult, FAILED, fail, print};
use crate::admin::report::ToolReport;
use crate::admin::{self, AdminError, ToolsRequest};
use crate::config::interpolate::Process;
use crate::config::{self, Config, Profile};
use crate::known_clients::CLIENTS;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Names the shell that requests completions. The underscore keeps it apart from the `MCPD_` variables of the configuration.
const VARIABLE: &str = "_MCPD_COMPLETE";
const PROGRAM: &str = "mcpd";

/// Makes bash pass whole words.
const BASH_WORDS: &str = include_str!("completions/whole_words.bash");
/// An autoloaded function defines the real one when it first runs. This makes it complete the first time, too.
const ZSH_AUTOLOAD: &str =
    "\nif [ \"$funcstack[1]\" = \"_mcpd\" ]; then\n    _clap_dynamic_completer_mcpd \"$@\"\nfi\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

pub(super) fn run(shell: Shell) -> CommandResult {
    let (completer, suffix): (&dyn EnvCompleter, &str) = match shell {
        Shell::Bash => (&Bash, BASH_WORDS),
        Shell::Elvish => (&Elvish, ""),
        Shell::Fish => (&Fish, ""),
        Shell::Zsh => (&Zsh, ZSH_AUTOLOAD),
    };
    let mut script = Vec::new();
    let written = completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script);
    written.map_err(|error| fail(FAILED, error))?;
    Ok(print([&script[..], suffix.as_bytes()].concat()))
}

/// Prints completions if a shell requests them. Errors are not printed, because they would garble the typed line.
pub(super) fn answer() -> Option<ExitCode> {
    let completer = CompleteEnv::with_factory(command_line).var(VARIABLE);
    match completer.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::from(FAILED)),
    }
}

/// For the daemon to answer. The user waits for the completions.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(300);

pub(super) fn servers() -> Vec<CompletionCandidate> {
    let running = || {
        let report = query(async |directory| admin::status(&directory.socket(ADMIN_SOCKET)).await)?;
        Some(report.servers.iter().map(|server| candidate(&server.name, Some(server.state.word()))).collect())
    };
    let configured = || {
        configuration().iter().flat_map(|config| config.servers.iter().map(|one| candidate(&one.name, None))).collect()
    };
    running().unwrap_or_else(configured)
}

pub(super) fn profiles() -> Vec<CompletionCandidate> {
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
pub(super) fn tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let has_slash = current.as_encoded_bytes().contains(&b'/');
    let visible = profile_tools().into_iter().flatten().filter_map(|tool| {
        let name = tool.name?;
        let word = if has_slash { qualified(&tool.server, &tool.tool) } else { name };
        is_plain(&word).then(|| candidate(&word, tool.description.as_deref()))
    });
    visible.filter(|one| starts_with(one, current)).collect()
}

/// Servers first, then tools.
pub(super) fn servers_and_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let servers = servers().into_iter().filter(|one| starts_with(one, current));
    servers.chain(tools(current)).collect()
}

/// After `SERVER/`, all tools of that server. Otherwise servers, or exposed names of tools if no server matches.
pub(super) fn servers_or_their_tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some((server, _)) = current.to_str().and_then(|current| current.split_once('/')) else {
        let servers: Vec<_> = servers().into_iter().filter(|one| starts_with(one, current)).collect();
        return if servers.is_empty() { tools(current) } else { servers };
    };
    let tools = profile_tools().into_iter().flatten().filter(|tool| tool.server == server && is_plain(&tool.tool));
    let names = tools.map(|tool| candidate(&qualified(server, &tool.tool), tool.description.as_deref()));
    names.filter(|one| starts_with(one, current)).collect()
}

/// Tools of the typed server, by their own names.
pub(super) fn tools_of_server(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(server) = TypedLine::current().and_then(|line| line.server()) else { return Vec::new() };
    let tools = profile_tools().into_iter().flatten().filter(|tool| tool.server == server && is_plain(&tool.tool));
    let names = tools.map(|tool| candidate(&tool.tool, tool.description.as_deref()));
    names.filter(|one| starts_with(one, current)).collect()
}

/// What is not approved of the typed server.
pub(super) fn unapproved(current: &OsStr) -> Vec<CompletionCandidate> {
    let changes = || {
        let server = TypedLine::current()?.server()?;
        let socket = |directory: RuntimeDir| directory.socket(ADMIN_SOCKET);
        Some(query(async |directory| admin::changes(&socket(directory), Some(&server)).await)?.0)
    };
    let words = changes().into_iter().flatten().filter_map(|change| {
        let word = match &*change.kind {
            "tool" => change.name,
            "instructions" => change.kind,
            kind => format!("{kind}:{}", change.name),
        };
        let is_typed = word.split_once(':').is_none_or(|(_, name)| is_plain(name)) && is_plain(&word.replace(':', "_"));
        is_typed.then(|| candidate(&word, Some(if change.new { "new" } else { "changed" })))
    });
    words.filter(|one| starts_with(one, current)).collect()
}

/// Arguments of the typed tool as `NAME=`; after `NAME=`, its possible values.
pub(super) fn arguments(current: &OsStr) -> Vec<CompletionCandidate> {
    let schema = || {
        let line = TypedLine::current()?;
        let filter = ToolsRequest { profile: line.profile(), name: Some(line.tool()?) };
        let (tools, _) = query(async |directory| request(&directory, filter).await)?;
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
    query(async |directory| Ok(request(&directory, filter).await?.0))
}

pub(super) fn clients() -> Vec<CompletionCandidate> {
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

/// Errors on the line are ignored.
struct TypedLine {
    matches: ArgMatches,
}

impl TypedLine {
    /// Parses the words that the shell passes after `--`.
    fn current() -> Option<Self> {
        Self::parse(std::env::args_os().skip_while(|word| word != "--").skip(1))
    }

    fn parse(words: impl Iterator<Item = OsString>) -> Option<Self> {
        let matches = command_line().ignore_errors(true).try_get_matches_from(words).ok()?;
        Some(Self { matches })
    }

    fn profile(&self) -> Option<String> {
        self.innermost().try_get_one::<String>("profile").ok().flatten().cloned()
    }

    fn tool(&self) -> Option<String> {
        self.innermost().try_get_one::<String>("tool").ok().flatten().cloned()
    }

    fn server(&self) -> Option<String> {
        self.innermost().try_get_one::<String>("server").ok().flatten().cloned()
    }

    /// The arguments of the innermost subcommand.
    fn innermost(&self) -> &ArgMatches {
        let mut matches = &self.matches;
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        matches
    }

    /// The runtime directory of the command's daemon.
    fn directory(&self) -> Option<RuntimeDir> {
        let given = self.matches.try_get_one::<PathBuf>("runtime_dir").ok().flatten().cloned();
        RuntimeDir::resolve(given, |name| std::env::var_os(name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn options_are_read_from_incomplete_lines() {
        let typed = |line: &str| TypedLine::parse(line.split(' ').map(OsString::from)).expect("a parsed line");
        for (line, directory) in [
            ("mcpd --runtime-dir /x restart ", "/x"),
            ("mcpd restart --runtime-dir /x ", "/x"),
            ("mcpd restart --runtime-dir=/x a", "/x"),
            ("mcpd --runtime-dir /x nonsense --no-option ", "/x"),
        ] {
            assert_eq!(typed(line).directory().expect("a directory").path(), Path::new(directory), "{line}");
        }
    }
}
